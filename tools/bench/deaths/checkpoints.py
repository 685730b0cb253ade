"""Sessions that are killed at a random time: what is lost, what the next one takes, what checkpoints cost."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from math import nan
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from tools.bench.deaths.session import KEEPER, SERVER, Session, cpu_s, session
from tools.bench.deaths.steps import Times, age, rate
from tools.bench.deaths.trainer import COUNT

INTERVALS_S = (None, 1.0, 5.0, 15.0)
"""Intervals of checkpoints of the sessions that follow one another; None writes none."""
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
        phases = [(number + random.random()) / passes for _ in INTERVALS_S]
        yield from _kill_sessions(phases, folder / f"{number}")


def _kill_sessions(phases: Sequence[float], folder: Path) -> Iterator[Killed]:
    """Kill a session of each interval; the one after it, of the next interval, shows what a restart takes."""
    checkpoint, killed = folder / "model.npz", None
    for number, interval_s in enumerate((*INTERVALS_S, INTERVALS_S[-1])):
        restored, restarted_s = steps_in(checkpoint, WORKERS), time.monotonic()
        settings = f"[checkpoint]\nfile = {json.dumps(str(checkpoint))}\ninterval_s = {interval_s}"
        arguments = "--rows", f"{ROWS}"
        with session(folder / f"{number}", WORKERS, arguments, settings if interval_s else "") as running:
            up_s = time.monotonic()
            begin_s = _start(running)
            if killed is not None:
                yield killed._replace(up_s=up_s - restarted_s, first_step_s=begin_s - up_s)
            if number < len(INTERVALS_S):
                killed = _measure_and_kill(running, interval_s, phases[number], begin_s)
                counts = steps_in(checkpoint, WORKERS) - restored
                killed = killed._replace(
                    lost_s=lost_s(running, counts, begin_s + killed.trained_s),
                    file_bytes=checkpoint.stat().st_size if checkpoint.exists() else 0,
                )


def _measure_and_kill(running: Session, interval_s: float | None, phase: float, begin_s: float) -> Killed:
    """Return what is known before the next session."""
    step_s = interval_s or MEASURED_S
    servers_s, keeper_s = cpu_s(SERVER), cpu_s(KEEPER)
    time.sleep(step_s * max(1, round(MEASURED_S / step_s)))
    end_s = time.monotonic()
    servers_s, keeper_s = cpu_s(SERVER) - servers_s, cpu_s(KEEPER) - keeper_s
    time.sleep(phase * (interval_s or 0))
    killed_s = running.kill_all()
    steps = sum(rate(running.acknowledged(rank), begin_s, end_s) for rank in range(WORKERS))
    window_s = end_s - begin_s
    return Killed(
        interval_s=interval_s, trained_s=killed_s - begin_s, lost_s=nan, up_s=nan, first_step_s=nan,
        rate=steps, servers_cpu_us=1e6 * servers_s / window_s / steps, keeper_cpu=keeper_s / window_s,
        file_bytes=0,
    )  # fmt: skip


def _start(started: Session) -> float:
    """Start the workers; return the time at which each has had a step acknowledged."""
    started.start_all()
    ranks = range(started.workers)
    started.wait_for(lambda: all(len(started.acknowledged(rank)) > 0 for rank in ranks))
    return float(max(started.acknowledged(rank)[0] for rank in ranks))


def steps_in(checkpoint: Path, workers: int) -> Times:
    """Return each worker's steps in a checkpoint [workers]; none if there is no file.

    It is read while workers train, and begins with the table of the steps, so it has at least what it counts.
    """
    if not checkpoint.exists():
        return np.zeros(workers)
    with np.load(checkpoint) as archive:
        counts: Times = archive[COUNT].reshape(-1).astype(np.float64)
    return counts


def lost_s(killed: Session, counts: Times, now_s: float) -> float:
    """Return the training in s before `now_s` that is not in a state with these steps, for who loses most."""
    return max(age(killed.acknowledged(rank), int(each), now_s) for rank, each in enumerate(counts))
