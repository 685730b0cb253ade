"""The replay of one log by one policy: hits, moves, and the keys in the switch at sampled mini-batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from hotline_policies.log import PULL, Accesses, PolicyLog, make_log
from hotline_policies.policy import Levels, PolicySpec
from nativekit.compile import int64
from nativekit.records import Ints

BINS = 100
"""Maximum number of sections of the scored part whose hits are counted separately."""
UPDATES, PULLS = 0, 1  # kinds of accesses


@dataclass(frozen=True, slots=True)
class ReplayResult:
    hits: NDArray[np.int64]
    """[sizes, bins, kinds]: scored accesses that found their key in the switch."""
    accesses: NDArray[np.int64]
    """[bins, kinds]: scored accesses."""
    table_hits: NDArray[np.int64]
    """[sizes, tables]: scored updates that found their key in the switch."""
    moves: NDArray[np.int64]
    """[2, sizes]: installs and evictions in the scored part."""
    sampled_levels: dict[int, Levels]  # step -> levels of its accesses
    cpu_s: float
    """CPU time in s of the policy alone, without compilation."""
    accesses_replayed: int
    """Accesses served in `cpu_s`, including training accesses if the policy warms up."""


def replay(
    log: PolicyLog,
    spec: PolicySpec,
    sizes: Sequence[int],
    period: int,
    sampled_steps: Sequence[int] = (),
    progress: Callable[[int], None] = lambda accesses: None,
) -> ReplayResult:
    """Let a policy serve a log with periods of `period` steps; record the levels of `sampled_steps`."""
    _compile(spec, sizes)
    start_s = time.thread_time()
    policy = spec.make(log, sizes)
    cpu_s, accesses_replayed = time.thread_time() - start_s, 0
    scored_steps = log.steps - log.training_steps
    # Accesses by bin, kind and level; the last level is that of misses.
    tally = np.zeros((min(BINS, scored_steps), 2, len(sizes) + 1), np.int64)
    table_tally = np.zeros((len(log.tables), len(sizes) + 1), np.int64)
    sampled_levels: dict[int, Levels] = {}
    moves_before = policy.moves.copy()
    for first_step, end_step in log.spans(0 if spec.warms_up else log.training_steps, period):
        starts = log.starts[first_step : end_step + 1]
        accesses = np.array(log.accesses[starts[0] : starts[-1]])
        levels = np.empty(len(accesses), np.uint8)
        start_s = time.thread_time()
        policy.serve(accesses, levels)
        if end_step % period == 0:
            policy.end_period()
        cpu_s += time.thread_time() - start_s
        accesses_replayed += len(accesses)
        if first_step >= log.training_steps:
            starts = starts - starts[0]
            _tally(tally, levels, accesses, starts, first_step - log.training_steps, scored_steps)
            if log.tables:
                _tally_tables(table_tally, levels, accesses, log.table_of)
            for step in sampled_steps:
                if first_step <= step < end_step:
                    sampled_levels[step] = levels[starts[step - first_step] : starts[step - first_step + 1]]
        elif end_step == log.training_steps:
            moves_before = policy.moves.copy()
        progress(len(accesses))
    hits = np.cumsum(tally[:, :, :-1], axis=2).transpose(2, 0, 1)
    table_hits = np.cumsum(table_tally[:, :-1], axis=1).T
    return ReplayResult(
        hits,
        tally.sum(axis=2),
        table_hits,
        policy.moves - moves_before,
        sampled_levels,
        cpu_s,
        accesses_replayed,
    )


def updates_by_table(log: PolicyLog) -> NDArray[np.int64]:
    updates = np.zeros((len(log.tables), 1), np.int64)
    for chunk in log.chunks(log.training_accesses, len(log.accesses)) if log.tables else ():
        _tally_tables(updates, np.zeros(len(chunk), np.uint8), chunk, log.table_of)
    return updates[:, 0]


def _compile(spec: PolicySpec, sizes: Sequence[int]) -> None:
    # A first replay of three accesses compiles all functions, so that `cpu_s` has no compilation.
    log, spec = make_log([[1, 2], [1]]), spec.stand_in or spec
    policy = spec.make(log, sizes)
    policy.serve(log.accesses, np.empty(len(log.accesses), np.uint8))
    policy.end_period()


@entry_point
def _tally_tables(
    table_tally: NDArray[np.int64], levels: Levels, accesses: Accesses, table_of: NDArray[np.uint16]
) -> None:
    for i in range(len(accesses)):
        if accesses[i] < PULL:
            table_tally[int64(table_of[accesses[i]]), int64(levels[i])] += 1


@entry_point
def _tally(
    tally: Ints, levels: Levels, accesses: Accesses, starts: Ints, first_step: int, steps: int
) -> None:
    for step in range(len(starts) - 1):
        bin_tally = tally[(first_step + step) * len(tally) // steps]
        for i in range(starts[step], starts[step + 1]):
            bin_tally[int64(accesses[i] >= PULL), int64(levels[i])] += 1
