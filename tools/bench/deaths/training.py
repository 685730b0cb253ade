"""Training to a fixed number of steps, in which each worker is killed every N of its steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.bench.deaths.session import Session, session
from tools.bench.deaths.steps import read_times

EVERY = (None, 200, 50)
"""Steps of a worker between its deaths; None lets it live."""
WORKERS, STEPS = 2, 600


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
    """Those of them that are not in the model, by the row that counts each worker's steps."""
    seconds: float
    """From the first step until the last one."""


def trainings(passes: int, folder: Path) -> Iterator[Trained]:
    """Train for each interval of deaths in each pass, with the pass as the seed."""
    for seed in range(1, passes + 1):
        for every in EVERY:
            arguments = "--seed", f"{seed}", "--steps", f"{STEPS}"
            with session(folder / f"{seed}-{every}", WORKERS, arguments) as training:
                yield train(training, every, seed)


def train(training: Session, every: int | None, seed: int) -> Trained:
    deaths = dict.fromkeys(range(WORKERS), 0)
    training.start_all()

    def has_ended() -> bool:
        for rank in range(WORKERS):
            due = STEPS if every is None else every * (deaths[rank] + 1)
            if due < STEPS and len(training.acknowledged(rank)) + deaths[rank] >= due:
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
