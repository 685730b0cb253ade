"""Time from the start of a switch to the first packet through a program, with and without caches."""

from __future__ import annotations

import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import softswitch
from softswitch.conformance.client import P4RuntimeClient, encode_writes, pipeline_config
from switch_bench import plain
from switch_bench.errors import BenchError
from switch_bench.network import host_interface, in_namespace
from switch_bench.results import LOAD_S, Result
from switch_bench.stage import Stage
from switch_bench.switches import BMV2, KERNEL, SOFTSWITCH, running_process
from switch_bench.workload import FIRST_SEQ, RUN_BYTES, SEQ_BYTES, Setup, Workload

NOTHING_CACHED, NEW_PROGRAM, SEEN_PROGRAM = (
    "nothing cached",
    "a program not seen before",
    "a program seen before",
)
_PORTS = 2
_TIMEOUT_S = 60.0
_RESEND_S = 0.001
_RECEIVE_BYTES = 2048
_PACKAGES = Path(softswitch.__file__).parents[1]
_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_IGNORE_OUTGOING = 263, 23


def load(stage: Stage) -> list[Result]:
    return measure_load(stage, plain.l3_setup(), plain.l3())


def measure_load(stage: Stage, setup: Setup, workload: Workload) -> list[Result]:
    """Measure the times in s from process start, and from loading the JSON, to the first packet."""
    starts: dict[str, dict[str, list[float]]] = {}
    with stage.traffic(_PORTS), tempfile.TemporaryDirectory() as folder:
        # Copies of the packages, since numba keeps the code of the port loop beside its source.
        for package in ("nativekit", "softswitch"):
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(_PACKAGES / package, Path(folder) / package, ignore=ignore)
        copied_packages = {"XDG_CACHE_HOME": folder, "PYTHONPATH": folder}
        empty_cache = {**copied_packages, "XDG_CACHE_HOME": tempfile.mkdtemp(dir=folder)}
        # The order matters: a run fills the caches for later runs in the same environment.
        for what, name, environment in (
            (NOTHING_CACHED, SOFTSWITCH, copied_packages),
            (SEEN_PROGRAM, SOFTSWITCH, copied_packages),
            (NEW_PROGRAM, SOFTSWITCH, empty_cache),
            (NEW_PROGRAM, KERNEL, empty_cache),
            (SEEN_PROGRAM, KERNEL, empty_cache),
            (SEEN_PROGRAM, BMV2, {}),
        ):
            if name in stage.switches():
                stage.announce(f"{name}: {what}")
                from_start, from_json = first_packet(stage, name, environment, Path(folder), setup, workload)
                starts.setdefault(f"process start to first packet, {what}", {})[name] = [from_start]
                starts.setdefault(f"JSON to first packet, {what}", {})[name] = [from_json]
    return [
        Result("load", what, "s", samples, LOAD_S if what.startswith("JSON") else ())
        for what, samples in starts.items()
    ]


def first_packet(
    stage: Stage,
    name: str,
    environment: Mapping[str, str],
    folder: Path,
    setup: Setup,
    workload: Workload,
) -> tuple[float, float]:
    """Run a switch in a folder; return the times in s from its start, and from its JSON, to a packet."""
    frame = _first_frame(workload)
    config, entries = pipeline_config(setup.program.json), encode_writes(setup.updates)
    begin = time.monotonic()
    starting = running_process(name, range(1, _PORTS + 1), stage.cores, environment, folder)
    with (
        starting as switch,
        P4RuntimeClient(switch.address) as client,
        _socket(1) as source,
        _socket(2) as sink,
    ):
        connected = time.monotonic()
        client.set_pipeline(config)
        client.send(entries)
        _send_until_received(source, sink, frame)
        now = time.monotonic()
    return now - begin, now - connected


def _first_frame(workload: Workload) -> bytes:
    frame = bytearray(workload.frames[0])
    # Both numbers are big-endian and fit into their last byte.
    frame[workload.stamp.run + RUN_BYTES - 1] = 1
    frame[workload.stamp.seq + SEQ_BYTES - 1] = FIRST_SEQ
    return bytes(frame)


@contextmanager
def _socket(port: int) -> Iterator[socket.socket]:
    with in_namespace():
        packet_socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    with packet_socket:
        packet_socket.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        packet_socket.bind((host_interface(port), _ETH_P_ALL))
        packet_socket.settimeout(_RESEND_S)
        yield packet_socket


def _send_until_received(source: socket.socket, sink: socket.socket, frame: bytes) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        source.send(frame)
        try:
            sink.recv(_RECEIVE_BYTES)
        except TimeoutError:
            continue
        return
    raise BenchError(f"no packet came through within {_TIMEOUT_S:.0f} s")
