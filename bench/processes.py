"""Processes that the bench starts, on cores of their own, and what the kernel knows about them."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import get_native_id
from typing import NamedTuple

from bench.errors import BenchError

_STOP_SECONDS = 10.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Placement(NamedTuple):
    """Cores: of the generator and sink, of the softswitch, and of BMv2."""

    generator: int
    softswitch: int
    bmv2: tuple[int, ...]


def placement() -> Placement:
    """Use the first two cores that this process may run on; BMv2 has many threads and gets all."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise BenchError("the bench needs two cores: one for the generator, one for the switch")
    return Placement(cores[0], cores[1], tuple(cores))


@contextmanager
def pinned(cores: Iterable[int]) -> Iterator[None]:
    """Keep this thread on some cores; what it starts inherits them."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def process(
    command: Sequence[str],
    cores: Iterable[int],
    environment: Mapping[str, str] = {},
    folder: Path | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command until the block ends; what it logged is shown where the block fails."""
    with tempfile.TemporaryFile() as log:
        with pinned(cores):
            started = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=folder,
                env={**os.environ, **environment},
                start_new_session=True,  # Ctrl-C is the bench's to handle
                preexec_fn=_die_with_parent,
            )
        try:
            yield started
        except BenchError:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace"))
            raise
        finally:
            _end(started)


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(started: subprocess.Popen[bytes]) -> None:
    started.terminate()
    try:
        started.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()


def cpu_seconds(pid: int) -> float:
    """CPU time so far of all threads of a process but this one."""
    tasks = [task for task in Path(f"/proc/{pid}/task").iterdir() if task.name != str(get_native_id())]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def resident_bytes(pid: int) -> int:
    """Memory of a process that is in RAM."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def free_port() -> int:
    """A TCP port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
