"""Sessions whose workers are killed one after the other, each of them started again at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.bench.deaths.session import Session, session
from tools.bench.deaths.steps import Times, rate

ROWS = 62_500
DEATHS_PER_PASS = 3
LOADS = {"eight workers on two busy cores": (8, 0), "two workers that wait 50 ms a step": (2, 50)}
"""Name -> number of workers, and the time in ms that they wait after each step."""
WINDOW_S = 2.0
"""Time in s before a kill and after the successor's first step, over which the others' steps are counted."""


class Restart(NamedTuple):
    """A death, and the rate of the other workers' steps before, meanwhile and after, in steps/s."""

    load: str
    """One of `LOADS`."""
    before: float
    away: float
    after: float
    away_s: float
    """From the kill until the successor's first step is acknowledged."""


def restarts(passes: int, folder: Path) -> Iterator[Restart]:
    for load, (workers, wait_ms) in LOADS.items():
        arguments = "--rows", f"{ROWS}", "--wait-ms", f"{wait_ms}"
        with session(folder / f"{workers}-workers", workers, arguments) as running:
            running.start_all()
            running.wait_for(lambda: all(len(running.acknowledged(rank)) > 0 for rank in running.ranks))
            for number in range(passes * DEATHS_PER_PASS):
                yield _restart(running, load, number % workers)


def _restart(running: Session, load: str, rank: int) -> Restart:
    time.sleep(WINDOW_S)
    killed_s = running.kill(rank)
    steps = len(running.acknowledged(rank))
    running.start(rank)
    running.wait_for(lambda: len(running.acknowledged(rank)) > steps)
    time.sleep(WINDOW_S)
    others = [running.acknowledged(other) for other in running.ranks if other != rank]
    return of_times(load, others, killed_s, float(running.acknowledged(rank)[steps]))


def of_times(load: str, others: Sequence[Times], killed_s: float, back_s: float) -> Restart:
    windows = (killed_s - WINDOW_S, killed_s), (killed_s, back_s), (back_s, back_s + WINDOW_S)
    before, away, after = (sum(rate(each, *window) for each in others) for window in windows)
    return Restart(load, before, away, after, back_s - killed_s)
