"""Training to a fixed number of steps, in which each worker is killed every N of its steps."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tools.bench.deaths.session import Session, session
from tools.bench.deaths.steps import read_times

EVERY = (None, 200, 50)
"""Steps of a worker between its deaths; None lets it live."""
WORKERS, STEPS = 2, 600
STEP_S = 0.01
"""About the time of a step in s, within which a kill comes at random."""


class Trained(NamedTuple):
    """A model that was trained while workers died."""

    every: int | None
    seed: int
    rmse: float
    """Of the held-out ratings."""
    deaths: int
    unacknowledged: int
    """Steps that were under way at a death: their pushes may be in the model or not."""
    missing: int
    """Those of them whose last push is not in the model."""
    seconds: float
    """From the first step until the last one."""


def trainings(passes: int, folder: Path) -> Iterator[Trained]:
    """Train for each interval of deaths in each pass, with the pass as the seed."""
    with session(folder / "up", WORKERS) as training:
        for seed in range(1, passes + 1):
            for every in EVERY:
                arguments = "--seed", f"{seed}", "--steps", f"{STEPS}"
                training.begin(folder / f"{seed}-{every}", arguments)
                yield train(training, every, seed)


def train(training: Session, every: int | None, seed: int) -> Trained:
    deaths, delay = dict.fromkeys(range(WORKERS), 0), Random(seed)
    training.start_all()

    def has_ended() -> bool:
        for rank in range(WORKERS):
            due = STEPS if every is None else every * (deaths[rank] + 1)
            if due < STEPS and len(read_times(training.log(rank))[0]) >= due:
                time.sleep(delay.uniform(0, STEP_S))
                training.kill(rank)
                training.start(rank)
                deaths[rank] += 1
        return all(map(training.has_ended, range(WORKERS)))

    training.wait_for(has_ended)
    rmse, in_model = json.loads(training.output(0))
    logs = [read_times(training.log(rank)) for rank in range(WORKERS)]
    begun = sum(len(each) for each, _ in logs)
    acknowledged = sum(len(each) for _, each in logs)
    first_s, last_s = min(each[0] for each, _ in logs), max(each[-1] for _, each in logs)
    return Trained(
        every,
        seed,
        rmse,
        sum(deaths.values()),
        begun - acknowledged,
        begun - in_model,
        float(last_s - first_s),
    )
