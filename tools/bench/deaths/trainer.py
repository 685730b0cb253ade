"""`python -m tools.bench.deaths.trainer`: a worker, which goes on where the last one with its rank died."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import click
import numpy as np

import hotline
from tools.bench.deaths.steps import logged_step, read_times

COUNT = "count"
"""Table with a row for each rank, to which each step adds 1."""
DIM, KEYS = 16, 200
"""Values of a row, and rows of a step, of the study without a model."""
_EXAMPLES = Path(__file__).parents[3] / "examples"
RATINGS = 100_000

Step = Callable[[int], None]
"""Called with the number of a step of this rank."""


class RandomRows:
    """Steps that push random values to `KEYS` rows of a table, and pull these."""

    def __init__(self, rows: int) -> None:
        self.tables = {"rows": (rows, DIM)}
        self._rows = rows

    def begin(self, kv: hotline.Worker) -> Step:
        random = np.random.default_rng(kv.rank)
        kv.init(random.normal(size=(self._rows, DIM)).astype(np.float32), "rows")
        values = random.normal(0, 1e-3, (KEYS, DIM)).astype(np.float32)
        batches = [random.choice(self._rows, KEYS, replace=False) for _ in range(50)]
        out = np.empty_like(values)

        def step(number: int) -> None:
            kv.push_pull(batches[number % len(batches)], values, out, "rows")

        return step

    def result(self, kv: hotline.Worker) -> None:
        return None


class Ratings:
    """Steps of examples/matrix_factorisation.py, whose ratings depend on seed, rank and step alone."""

    def __init__(self, seed: int) -> None:
        sys.path.append(str(_EXAMPLES))
        self._example = example = importlib.import_module("matrix_factorisation")
        self._user, self._film, self._rated = example.ratings(RATINGS)
        self._is_held_out = np.arange(RATINGS) % 10 == 9
        self._seed = seed
        self.tables = {"users": (example.USERS, example.DIM), "films": (example.FILMS, example.DIM)}

    def begin(self, kv: hotline.Worker) -> Step:
        random = np.random.default_rng((self._seed, kv.rank))
        for name, shape in self.tables.items():
            kv.init(random.normal(0, 0.1, shape).astype(np.float32), name)
        share = np.flatnonzero(~self._is_held_out)[kv.rank :: kv.size]

        def step(number: int) -> None:
            of_step = np.random.default_rng((self._seed, kv.rank, number))
            at = of_step.choice(share, self._example.BATCH, replace=False)
            self._example.step(kv, self._user[at], self._film[at], self._rated[at])

        return step

    def result(self, kv: hotline.Worker) -> float:
        """Return the RMSE of the held-out ratings."""
        at = self._is_held_out
        users, films = kv.read("users")[self._user[at]], kv.read("films")[self._film[at]]
        return float(np.sqrt((self._example.error(users, films, self._rated[at]) ** 2).mean()))


@click.command()
@click.option("--rank", type=int, required=True)
@click.option("--workers", type=int, required=True)
@click.option("--log", type=click.Path(path_type=Path), required=True, help="File of the steps' times.")
@click.option("--rows", type=int, help="Train on random rows of a table with so many, and not on ratings.")
@click.option("--seed", default=1, help="Of the ratings' order.")
@click.option("--steps", type=int, help="Number of steps of the rank; without end by default.")
@click.option("--wait-ms", type=float, default=0, help="Time to wait after each step, in ms.")
def main(
    rank: int, workers: int, log: Path, rows: int | None, seed: int, steps: int | None, wait_ms: float
) -> None:
    """Train; then rank 0 prints the RMSE of held-out ratings, and the number of steps in the model."""
    training: RandomRows | Ratings = Ratings(seed) if rows is None else RandomRows(rows)
    begun, _ = read_times(log)
    one = np.ones(1, np.float32)
    tables = {COUNT: (workers, 1), **training.tables}
    with (
        log.open("ab", buffering=0) as events,
        hotline.Worker(tables, scale={COUNT: 1.0}, rank=rank) as kv,
    ):
        kv.init(np.zeros(workers, np.float32), COUNT)
        take_step = training.begin(kv)
        for number in count(len(begun)) if steps is None else range(len(begun), steps):
            with logged_step(events):
                take_step(number)
                kv.wait(kv.push([rank], one, COUNT))
            time.sleep(wait_ms / 1e3)
        kv.barrier()
        if rank == 0:
            print(json.dumps([training.result(kv), int(kv.read(COUNT).sum())]), flush=True)
        kv.barrier()


if __name__ == "__main__":
    main()
