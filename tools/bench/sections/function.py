"""CPU time of the packet function alone, and how it grows with lanes and with entries."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from foundation.protocol.header import LANES
from tools.bench import hotline, plain
from tools.bench.calls import installed, ns_a_key, ns_a_packet
from tools.bench.errors import BenchError
from tools.bench.results import FUNCTION_NS, Goal, Result
from tools.bench.stage import Stage
from tools.bench.switches import SOFTSWITCH
from tools.bench.workload import CompiledProgram, Setup, Workload

_SOURCE = Path(__file__).parents[3] / "p4src" / "hotset" / "hotset.p4"
_MAC_BYTES = 6
_IPV4_ADDRESSES, _IPV4_BYTES = 26, 8  # where source and destination lie in a frame


def function(stage: Stage) -> list[Result]:
    """Our program and the plain ones; by lanes in use; by lanes compiled; by entries."""
    results = [
        _packets(stage, "our program, 32 lanes hit, same keys", hotline.setup(), hotline.hot(), FUNCTION_NS),
        _packets(stage, "our program, 32 lanes cold", hotline.setup(), hotline.cold()),
        _packets(stage, "L3 forwarding", plain.l3_setup(), plain.l3()),
        _packets(stage, "no P4 work", plain.wire_setup(), plain.l3()),
    ]
    for live in (8, 16):
        workload = hotline.hot(live=live)
        results.append(
            _packets(stage, f"our program, {live} of {LANES} lanes filled, hit", hotline.setup(), workload)
        )
    if shutil.which("p4c-bm2-ss"):
        results += [_lanes(stage, lanes) for lanes in (8, 16, 32, 64)]
    results += [_exact(stage, entries) for entries in stage.scale.entries]
    return results + [_lpm(stage, entries) for entries in stage.scale.entries]


def _packets(
    stage: Stage, what: str, setup: Setup, workload: Workload, goals: tuple[Goal, ...] = ()
) -> Result:
    stage.tell(what)
    return _result(what, ns_a_packet(installed(setup), workload, stage.scale.calls), goals)


def _lanes(stage: Stage, lanes: int) -> Result:
    stage.tell(f"compiled for {lanes} lanes")
    with _compiled_for(lanes) as program:
        setup = hotline.setup(program, lanes)
        values = ns_a_packet(installed(setup), hotline.hot(lanes), stage.scale.calls)
    return _result(f"our program, compiled for {lanes} lanes, all hit", values)


def _exact(stage: Stage, entries: int) -> Result:
    what = f"one exact table, {entries:,} entries"
    stage.tell(what)
    pipeline = installed(Setup(plain.L2, list(plain.hosts(entries))))
    picked = np.random.default_rng(1).integers(entries, size=stage.scale.calls)
    return _result(what, ns_a_key(pipeline, plain.l3().frames[0], plain.FIRST_MAC + picked, 0, _MAC_BYTES))


def _lpm(stage: Stage, entries: int) -> Result:
    what = f"L3 forwarding, {entries:,} routes of {len(plain.SHORT) + 1} lengths"
    stage.tell(what)
    setup, prefixes = plain.routes(entries)
    pipeline = installed(setup)
    addresses = prefixes[np.random.default_rng(1).integers(entries, size=stage.scale.calls)]
    # The source is the destination's complement: so the header's checksum is the same for all.
    pairs = (~addresses & 0xFFFFFFFF) << 32 | addresses
    frame = plain.frame_to("0.0.0.0", "255.255.255.255")
    return _result(what, ns_a_key(pipeline, frame, pairs.astype(np.int64), _IPV4_ADDRESSES, _IPV4_BYTES))


def _result(what: str, values: list[float], goals: tuple[Goal, ...] = ()) -> Result:
    return Result("function", f"packet function, {what}", "ns", {SOFTSWITCH: values}, goals)


@contextmanager
def _compiled_for(lanes: int) -> Iterator[CompiledProgram]:
    with tempfile.TemporaryDirectory() as folder:
        program = CompiledProgram(Path(folder) / "hotline")
        outputs = ["--p4runtime-files", str(program.p4info), "-o", str(program.json)]
        command = ["p4c-bm2-ss", "-I", str(_SOURCE.parents[1]), f"-DLANES={lanes}", *outputs, str(_SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"p4c-bm2-ss failed for {lanes} lanes: {done.stderr.strip()}")
        yield program
