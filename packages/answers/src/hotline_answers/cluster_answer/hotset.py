"""The updates that a cluster's hot set is chosen from, and the later mini-batches that it is scored on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from controller.hotset import choice
from experiment.defaults import MAX_VALUES_OF_MODEL
from experiment.phases.workload import generate_trace
from experiment.progress import Reporter
from foundation.errors import DataError
from foundation.logs.time_split import training_length
from foundation.text import pluralize
from hosts.keys import KeySpace
from hosts.workload import data_files
from hosts.workload.trace import Trace, prefix_sums
from hotline_simulator.config import SimulationConfig

_MIN_STEPS = 4
"""Minimum number of mini-batches that a worker replays."""


class ReadLog(NamedTuple):
    """A log whose first part a hot set is chosen from."""

    steps: int  # mini-batches of the whole log
    training_steps: int  # of the first part; 0 if the log has only one mini-batch, which is scored as well
    updates: NDArray[np.int64]  # of each position of the key space in the first part
    scored: Trace  # of one worker: the mini-batches that follow


def split_log(trace: Trace) -> ReadLog:
    """Split a log that was read for one worker."""
    training_steps = training_length(trace.steps)
    if not training_steps:
        return ReadLog(trace.steps, 0, _count_updates(trace.position, trace.space), trace)
    end = trace.key_start[training_steps]
    scored = replace(
        trace,
        steps=trace.steps - training_steps,
        key_start=trace.key_start[training_steps:] - end,
        position=trace.position[end:],
        samples=None,
    )
    return ReadLog(trace.steps, training_steps, _count_updates(trace.position[:end], trace.space), scored)


class ScoredWorkload(NamedTuple):
    """The trace of a configuration's workers, and the updates that its hot set is chosen from."""

    trace: Trace
    updates: NDArray[np.int64]  # of each position of the key space

    @property
    def first_step(self) -> int:
        """First step of each worker that the hot set is scored on."""
        return self.trace.profile_steps


def workload_for(
    config: SimulationConfig,
    log: ReadLog | None,
    reporter: Reporter,
    note: data_files.Note = lambda sentence: None,
) -> ScoredWorkload:
    """Return a workload without samples: what a simulation takes does not depend on the values pushed.

    `note` hears which mini-batches of the log are left out.
    """
    with reporter.phase("workload", 1.0) as phase:
        if log is None:
            trace = generate_trace(config, phase.update, has_samples=False)
            first_batches = trace.steps * np.arange(trace.workers)
            stops = trace.key_start[first_batches + trace.profile_steps]
            pairs = zip(trace.key_start[first_batches], stops, strict=True)
            parts = [trace.position[start:stop] for start, stop in pairs]
            return ScoredWorkload(trace, _count_updates(np.concatenate(parts), trace.space))
        assert config.data is not None
        if log.steps < config.workers:
            raise DataError(
                f"{config.data}: expected at least {config.workers} mini-batches, one for each worker, "
                f"got {log.steps}"
            )
        scored = log.scored if log.scored.steps >= config.workers else _repeat(log.scored, config.workers)
        dealt = data_files.deal(replace(scored, samples=None), config.workers, config.data, note)
        return ScoredWorkload(dealt, log.updates)


def simulated_part(workload: ScoredWorkload, top_k: int) -> ScoredWorkload:
    """Return the workload, or fewer of its mini-batches if simulations could not allocate all of its rows."""
    trace = workload.trace
    if trace.space.n_values <= MAX_VALUES_OF_MODEL:
        return workload
    values_of_step = trace.space.count_values(trace.position) / trace.steps  # of all workers
    return shorten(workload, trace.workers, max(int(MAX_VALUES_OF_MODEL / values_of_step), _MIN_STEPS), top_k)


def shorten(workload: ScoredWorkload, workers: int, steps: int, top_k: int) -> ScoredWorkload:
    """Return the first workers' first scored mini-batches, and updates of the `top_k` hottest keys only.

    The key space has the keys of these mini-batches, because simulations allocate all rows of it. If none of
    them is hot, it also has the hottest key, because a hot set has at least one.
    """
    trace, first = workload.trace, workload.first_step
    steps = min(steps, trace.steps - first)
    batches = (np.arange(steps) + first + trace.steps * np.arange(workers)[:, None]).ravel()
    parts = [trace.position[trace.key_start[b] : trace.key_start[b + 1]] for b in batches]
    accesses = np.concatenate(parts)
    hottest = np.argsort(-workload.updates, kind="stable")[:top_k]
    updates = np.zeros_like(workload.updates)
    updates[hottest] = workload.updates[hottest]
    used = np.unique(accesses)
    if not updates[used].any():
        used = np.union1d(used, hottest[:1])
    position = np.searchsorted(used, accesses)
    short = replace(
        trace, workers=workers, steps=steps, profile_steps=0, samples=None, space=trace.space.restrict(used),
        key_start=prefix_sums([len(part) for part in parts]), position=position.astype(np.uint32),
    )  # fmt: skip
    return ScoredWorkload(short, updates[used])


def short_log_warning(log: ReadLog | None, workers: int) -> str | None:
    """Return a sentence on a log that is too short to score a hot set as longer logs do, or None."""
    if log is None:
        return None
    if not log.training_steps:
        return (
            "This log has only one mini-batch: the hot set is scored on the keys that it was chosen from, "
            "and would serve less of later ones."
        )
    if log.scored.steps < workers:
        scored = pluralize(log.scored.steps, "mini-batch follows", "mini-batches follow")
        return (
            f"This log is short: {scored} those that the hot set is chosen from, fewer than the "
            f"{workers:,} workers, so that some workers replay the same ones."
        )
    return None


@contextmanager
def hot_set_file(workload: ScoredWorkload, top_k: int) -> Iterator[Path]:
    """Yield a file with the `top_k` most updated keys, which a simulation loads into its switch."""
    space = workload.trace.space
    counts = pl.DataFrame(
        {"key": space.keys(np.arange(space.size)), "updates": workload.updates},
        schema_overrides={"updates": pl.UInt64},
    )
    updated = counts.filter(pl.col("updates") > 0)
    hot_set = choice.choose(updated, min(top_k, updated.height), workload.trace.name, space.key_ranges)
    with TemporaryDirectory(prefix="hotline-") as folder:
        file = Path(folder) / "hotset.parquet"
        choice.write(hot_set, file)
        yield file


def _count_updates(positions: NDArray[np.uint32], space: KeySpace) -> NDArray[np.int64]:
    return np.bincount(positions, minlength=space.size)


def _repeat(trace: Trace, steps: int) -> Trace:
    """Return a trace with as many mini-batches of its worker, repeated from the first."""
    order = np.arange(steps) % trace.steps
    parts = [trace.position[trace.key_start[b] : trace.key_start[b + 1]] for b in order]
    return replace(
        trace,
        steps=steps,
        key_start=prefix_sums([len(part) for part in parts]),
        position=np.concatenate(parts),
    )
