"""One policy over one log: hits, moves, and what the sampled mini-batches found in the switch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from studies.policies.compiling import entry_point, int64
from studies.policies.log import PULL, Log, log_of
from studies.policies.policy import Kind

BINS = 100
"""Parts of the scored part, over which shares are told; fewer where it has fewer steps."""
UPDATES, PULLS = 0, 1
"""Kinds of access."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What has come of a policy with several sizes."""

    hits: NDArray[np.int64]
    """[sizes, bins, kinds]: accesses that found their key, of the scored part."""
    accesses: NDArray[np.int64]
    """[bins, kinds]"""
    moves: NDArray[np.int64]
    """[2, sizes]: installs and evictions in the scored part."""
    found: dict[int, NDArray[np.uint8]]
    """Step -> levels of its accesses, of the sampled ones."""
    cpu_s: float
    """CPU time of the policy alone, once it is compiled."""
    served: int
    """Accesses in it, those that are learnt from included where the policy goes through them."""


def replay(
    log: Log,
    kind: Kind,
    sizes: Sequence[int],
    period: int,
    sampled: Sequence[int] = (),
    progress: Callable[[int], None] = lambda accesses: None,
) -> Replayed:
    """Let a policy serve a log, with periods of so many steps; `progress` hears of accesses done."""
    _compile(kind, sizes)
    began = time.thread_time()
    policy = kind.make(log, sizes)
    cpu_s, served = time.thread_time() - began, 0
    bins = bins_of(log)
    tally = np.zeros((bins, 2, len(sizes) + 1), np.int64)
    found: dict[int, NDArray[np.uint8]] = {}
    before = policy.moves.copy()
    for first, last in log.spans(0 if kind.warms else log.learnt, period):
        starts = log.starts[first : last + 1]
        accesses = np.array(log.accesses[starts[0] : starts[-1]])
        levels = np.empty(len(accesses), np.uint8)
        began = time.thread_time()
        policy.serve(accesses, levels)
        if last % period == 0:
            policy.turn()
        cpu_s += time.thread_time() - began
        served += len(accesses)
        if first >= log.learnt:
            _tally(tally, levels, accesses, starts - starts[0], first - log.learnt, log.steps - log.learnt)
            for step in sampled:
                if first <= step < last:
                    found[step] = levels[log.starts[step] - starts[0] : log.starts[step + 1] - starts[0]]
        elif last == log.learnt:
            before = policy.moves.copy()
        progress(len(accesses))
    hits = np.cumsum(tally[:, :, :-1], axis=2).transpose(2, 0, 1)
    return Replayed(hits, tally.sum(axis=2), policy.moves - before, found, cpu_s, served)


def _compile(kind: Kind, sizes: Sequence[int]) -> None:
    """Have all of a policy compiled, which takes seconds once."""
    log = log_of([[1, 2], [1]])
    policy = kind.make(log, sizes)
    policy.serve(log.accesses, np.empty(len(log.accesses), np.uint8))
    policy.turn()


def bins_of(log: Log) -> int:
    """Into how many parts the scored part is cut."""
    return min(BINS, log.steps - log.learnt)


@entry_point
def _tally(tally: Any, levels: Any, accesses: Any, starts: Any, first: int, steps: int) -> None:
    """Count accesses by bin, kind and level; `starts` are those of the steps from `first` on."""
    for step in range(len(starts) - 1):
        part = tally[(first + step) * len(tally) // steps]
        for i in range(starts[step], starts[step + 1]):
            part[int64(accesses[i] >= PULL), int64(levels[i])] += 1
