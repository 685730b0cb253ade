"""Sessions that are killed at a random time: what is lost, what the next one takes, what checkpoints cost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from tools.bench.deaths.session import KEEPER, SERVER, Session, cpu_s, session
from tools.bench.deaths.steps import age, rate
from tools.bench.deaths.trainer import COUNT

INTERVALS_S = (None, 1.0, 5.0, 20.0)
"""Intervals of checkpoints; None writes none."""
ROWS, WORKERS = 62_500, 2
MEASURED_S = 10.0
"""Least time of training whose cost is measured, in whole intervals."""


class Killed(NamedTuple):
    """A session that was killed, and the one after it; times in s."""

    interval_s: float | None
    trained_s: float
    """From the first step until the kill."""
    lost_s: float
    """Training before the kill that the next session lacks."""
    up_s: float
    """From the start of the next `hotline up` until it is ready for workers."""
    first_step_s: float
    """From there until each worker has had a step acknowledged."""
    rate: float
    """Steps/s of all workers before the kill."""
    servers_cpu_us: float
    """CPU time of the servers a step, in µs."""
    keeper_cpu: float
    """CPU time of the keeper, as a share of the time."""
    file_bytes: int


def kills(passes: int, folder: Path, seed: int = 1) -> Iterator[Killed]:
    """Kill a session of each interval in each pass; the passes divide an interval into equal parts."""
    random = Random(seed)
    for number in range(passes):
        for interval_s in INTERVALS_S:
            phase = (number + random.random()) / passes
            yield _kill_session(interval_s, phase, folder / f"{number}-{interval_s}")


def _kill_session(interval_s: float | None, phase: float, folder: Path) -> Killed:
    checkpoint, step_s = folder / "model.npz", interval_s or MEASURED_S
    settings = "" if interval_s is None else (
        f"[checkpoint]\nfile = {json.dumps(str(checkpoint))}\ninterval_s = {interval_s}"
    )  # fmt: skip
    arguments = "--rows", f"{ROWS}"
    with session(folder / "killed", WORKERS, arguments, settings) as killed:
        begin_s = _start(killed)
        servers_s, keeper_s = cpu_s(SERVER), cpu_s(KEEPER)
        window_s = step_s * max(1, round(MEASURED_S / step_s))
        time.sleep(window_s)
        end_s = time.monotonic()
        servers_s, keeper_s = cpu_s(SERVER) - servers_s, cpu_s(KEEPER) - keeper_s
        time.sleep(phase * step_s)
        killed_s = killed.kill_all()
    lost = lost_s(killed, checkpoint, killed_s)  # before the next session writes the file
    file_bytes = checkpoint.stat().st_size if checkpoint.exists() else 0
    restarted_s = time.monotonic()
    with session(folder / "next", WORKERS, arguments, settings) as after:
        up_s = time.monotonic()
        first_step_s = _start(after)
    steps = sum(rate(killed.acknowledged(rank), begin_s, end_s) for rank in range(WORKERS))
    return Killed(
        interval_s, killed_s - begin_s, lost, up_s - restarted_s, first_step_s - up_s, steps,
        1e6 * servers_s / (end_s - begin_s) / steps, keeper_s / (end_s - begin_s), file_bytes,
    )  # fmt: skip


def _start(started: Session) -> float:
    """Start the workers; return the time at which each has had a step acknowledged."""
    started.start_all()
    ranks = range(started.workers)
    started.wait_for(lambda: all(len(started.acknowledged(rank)) > 0 for rank in ranks))
    return float(max(started.acknowledged(rank)[0] for rank in ranks))


def lost_s(killed: Session, checkpoint: Path, now_s: float) -> float:
    """Return the time in s by which a checkpoint is older than the kill, for the worker that loses most.

    It is read while workers train, and begins with the table of the steps, so it has at least what it counts.
    """
    counts = np.zeros(killed.workers)
    if checkpoint.exists():
        with np.load(checkpoint) as archive:
            counts = archive[COUNT].reshape(-1)
    return max(age(killed.acknowledged(rank), int(each), now_s) for rank, each in enumerate(counts))
