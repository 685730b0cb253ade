"""The switches under test, each as a process of its own on the bench's interfaces.

The softswitch runs on one core and the generator on another; BMv2 has seven threads and may use all cores.
"""

import asyncio
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numba import cfunc

from bench.errors import BenchError
from bench.network import PORTS, switch_interface
from bench.workload import hot_entries, setup
from controller.client import SwitchClient
from controller.errors import SwitchError
from controller.tables import CPU_PORT, Change, Update
from softswitch.native import PROCESS, carray, memcpy, pointer
from softswitch.ports import PortLoop

SOFTSWITCH = "softswitch"
BMV2 = "bmv2"
LOOP = "port loop alone"

_READY_SECONDS = 60.0
_STOP_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Placement(NamedTuple):
    """Cores: of the generator and sink, of the softswitch, and of BMv2."""

    generator: int
    softswitch: int
    bmv2: tuple[int, ...]


class Running(NamedTuple):
    """A switch that forwards, and the seconds it took to get there; None where there is no such step."""

    start_seconds: float | None
    install_seconds: float | None


def placement() -> Placement:
    """Use the first two cores that this process may run on."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchError("the bench needs two cores: one for the generator, one for the switch")
    return Placement(cores[0], cores[1], tuple(cores))


def find_bmv2() -> str | None:
    """Path of `simple_switch_grpc`: from HOTLINE_BMV2 (the program or its folder), else from PATH."""
    named = os.environ.get("HOTLINE_BMV2")
    if named is None:
        return shutil.which("simple_switch_grpc")
    path = Path(named) / "simple_switch_grpc" if Path(named).is_dir() else Path(named)
    if not os.access(path, os.X_OK):
        raise BenchError(f"HOTLINE_BMV2={named}: {path} is not a program")
    return str(path)


@contextmanager
def running(name: str, cores: Placement) -> Iterator[Running]:
    """Run a target with the bench's tables until the block ends."""
    if name == LOOP:
        with _port_loop(cores.softswitch):
            yield Running(None, None)
        return
    address = f"127.0.0.1:{_free_port()}"
    begin = time.monotonic()
    own_cores = (cores.softswitch,) if name == SOFTSWITCH else cores.bmv2
    with _process(_command(name, address), own_cores) as process:
        asyncio.run(_wait_for_pipeline(process, address))
        started = time.monotonic()
        asyncio.run(_install(address, setup()))
        hot = [Update(Change.INSERT, entry) for entry in hot_entries()]
        yield Running(started - begin, asyncio.run(_install(address, hot)))


def _command(name: str, address: str) -> list[str]:
    interfaces = [word for port in PORTS for word in ("-i", f"{port}@{switch_interface(port)}")]
    if name == SOFTSWITCH:
        program = [sys.executable, "-m", "softswitch"]
    else:
        found = find_bmv2()
        if found is None:
            raise BenchError("simple_switch_grpc is neither on PATH nor named by HOTLINE_BMV2")
        program = [found]
    # --device-id stands before the "--" that separates BMv2's options from its target's.
    return [
        *program, "--no-p4", "--device-id", "1", *interfaces,
        "--", "--grpc-server-addr", address, "--cpu-port", str(CPU_PORT),
    ]  # fmt: skip


@contextmanager
def _process(command: list[str], cores: tuple[int, ...]) -> Iterator[subprocess.Popen[bytes]]:
    with tempfile.TemporaryFile() as log:
        with pinned(cores):
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                start_new_session=True,  # Ctrl-C is the bench's to handle
                preexec_fn=_die_with_parent,
            )
        try:
            yield process
        except SwitchError:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))
            raise
        finally:
            _end(process)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextmanager
def pinned(cores: Iterable[int]) -> Iterator[None]:
    """Keep this thread on some cores; what it starts inherits them."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


async def _wait_for_pipeline(process: subprocess.Popen[bytes], address: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while True:
        try:
            async with SwitchClient(address) as client:
                await client.commit_pipeline()
                return
        except SwitchError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)


async def _install(address: str, updates: list[Update]) -> float:
    """Write the entries; returns the seconds that the writes took."""
    async with SwitchClient(address) as client:
        begin = time.monotonic()
        await client.write(updates)
        return time.monotonic() - begin


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@cfunc(PROCESS)
def _reflect(
    state: int, port: int, frame: int, length: int, t_in: int, now: int, out: int, capacity: int
) -> int:
    record = carray(pointer(out), 1, np.uint64)
    record[0] = np.uint64(port) | np.uint64(length) << np.uint64(32)
    memcpy(out + 8, frame, np.int64(length))
    return 1


class _Reflector:
    """A pipeline without P4: every frame goes back where it came from."""

    def __init__(self) -> None:
        self._lock = ctypes.create_string_buffer(64)  # all zeros: PTHREAD_MUTEX_INITIALIZER
        self._waiting = ctypes.c_uint32(0)
        self.process_address = int(_reflect.address or 0)
        self.state_address = 0
        self.mutex_address = ctypes.addressof(self._lock)
        self.waiting_address = ctypes.addressof(self._waiting)


@contextmanager
def _port_loop(core: int) -> Iterator[None]:
    with PortLoop({port: switch_interface(port) for port in PORTS}) as loop:
        with pinned({core}):
            loop.start(_Reflector())
        yield
