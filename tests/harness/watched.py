"""Made-up counters, part files and run folders for `hotline watch`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.live import BlockLatency
from controller.address import DEFAULT_ADDRESS
from controller.status import RPC_OUTCOMES, Counters, LaneCounters, drop_reasons
from experiment.members import FILE, MemberLog
from foundation.logs.columns import OPERATIONS, RPC
from foundation.logs.parts import Parts
from foundation.protocol.header import LANES
from tests.harness.arms import JOBS
from tests.harness.records import a_record


def a_reading(
    rpcs: Sequence[int] = (0, 0, 0, 0), hits: int = 0, misses: int = 0, overflows: int = 0, **drops: int
) -> Counters:
    """Return counters with all hits in lane 3, all misses in lane 4 and all overflows in lane 5."""
    lanes = [LaneCounters(0, 0, 0)] * LANES
    lanes[3:6] = [LaneCounters(hits, 0, 0), LaneCounters(0, misses, 0), LaneCounters(0, 0, overflows)]
    return Counters(
        rpcs=dict(zip(RPC_OUTCOMES, rpcs, strict=True)),
        drops=dict.fromkeys(drop_reasons(), 0) | drops,
        lanes=tuple(lanes),
    )


def run_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fake a run that goes on, with a worker and a server that live, and a worker that has ended."""
    (folder / "logs").mkdir(exist_ok=True)
    log = MemberLog(folder / "logs" / FILE)
    log.begin({DEFAULT_ADDRESS: ""})
    for name, pid in (("worker-1", os.getpid()), ("worker-2", 0), ("ps-0", os.getpid())):
        log.add(name, pid, "no-such-interface")
    monkeypatch.setattr("topologies.lock_record.find_running_folder", lambda: folder)
    return folder


FIRST = a_reading((1000, 500, 499, 1), hits=900, misses=100, stale_turn=4)
SECOND = a_reading((1500, 700, 699, 1), hits=1000, misses=400, overflows=1, stale_turn=4, fragment=5)
"""2.5 s later."""


def operations(
    parts: Path,
    worker: int,
    pulls_us: Sequence[float],
    at_us: int,
    *,
    arm: str = "offload",
    round_number: int = 0,
    load: float = 0.8,
    ops: Sequence[str] = ("pull", "push", "step"),
) -> None:
    """Write a worker's block. A push takes ten times as long as a pull; the first step is not measured."""
    latencies = [1e6, *pulls_us]
    number = len(latencies)
    whole: dict[str, Any] = {"worker": worker, "job": JOBS[arm], "arm": arm, "round": round_number}
    rows = pl.concat(
        pl.DataFrame(
            {
                **dict.fromkeys(OPERATIONS, 0),
                "iteration": range(number),
                "scheduled_us": range(at_us, at_us + number),
                "latency_us": [latency * (10 if op == "push" else 1) for latency in latencies],
                "measured": [False] + [True] * (number - 1),
                "op": op,
            }
        )
        for op in ops
    )
    columns = {name: rows[name] for name in OPERATIONS} | whole | {"load": load}
    Parts(parts, f"operations-worker-{worker}", OPERATIONS).write(columns)


def rpcs(
    parts: Path,
    worker: int,
    queues_us: Sequence[tuple[float, float]],
    at_us: int,
    *,
    arm: str = "offload",
    round_number: int = 0,
    load: float = 0.8,
    op: str = "push",
    measured: bool = True,
) -> None:
    """Write RPCs of a block with these waits at the PS and at the worker."""
    ps, own = zip(*queues_us, strict=True)
    columns: dict[str, Any] = dict.fromkeys(RPC, 0)
    columns |= {"worker": worker, "job": JOBS[arm], "arm": arm, "round": round_number, "load": load}
    columns |= {"op": op, "class": "cold", "t_send_us": range(at_us, at_us + len(ps)), "measured": measured}
    Parts(parts, f"rpc-worker-{worker}", RPC).write(columns | {"ps_queue_us": ps, "w_queue_us": own})


def a_block(arm: str, round_number: int, load: float, *latencies: float | None) -> BlockLatency:
    return BlockLatency(arm, round_number, load, *latencies)


def a_run(folder: Path, error: str | None = "it was killed", *, parts: bool = True) -> Path:
    """Write the folder of a run that has not ended."""
    folder.mkdir(parents=True)
    if parts:
        (folder / "parts").mkdir()
    a_record(error=error).write(folder)
    return folder
