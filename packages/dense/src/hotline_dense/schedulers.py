"""Schedulers: which gradients to merge, and how many all-reduces to have under way.

MG-WFBP and ASC-WFBP merge as the later code of their authors does (lzhangbv/dear_pytorch at 43138d8,
`dear/hv_distributed_optimizer.py`, `_generate_groups_mgwfbp` and `_generate_groups_asc`). [ASC]'s full text
was not available: the choice of the `at_once` with the earliest end is our reading of its abstract.

The best schedule is searched exhaustively or by beam; buffers are sent in order, as soon as possible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from foundation.compiled import entry_point
from hotline_dense import DenseError
from hotline_dense.alpha_beta import (
    BYTES,
    STARTUP,
    AlphaBetaModel,
    Constants,
    GradientSchedule,
    admit,
    constants,
    drain,
    simulate,
)
from hotline_dense.fusion import PRESETS, fuse
from hotline_dense.layers import Layers, Values
from nativekit.compile import compiled, int64
from nativekit.records import Ints

MAX_LAYERS = 12
"""Maximum number of layers of an exhaustive search, which tries 2^11 ways to merge them."""
MIN_WIDTH, MAX_WIDTH, _SEARCH_STEPS = 8, 64, 2_000_000
"""Bounds of the beam's width, and the target number of search steps, which are width · n² for n layers."""
_TIE_WEIGHTS = (0.0, 1e-6)
"""Weights in a state's score of the end of its buffers, which breaks ties; neither is always better."""
_NO_BUFFER = 0  # number of any buffer in calls with `no_times`, which records none
_TOLERANCE = 1e-6  # largest difference, in µs or bytes, of states that count as equal
Scheduler = Callable[[Layers, AlphaBetaModel], GradientSchedule]
MIN_BUFFER_BYTES = 4 * 8192
"""Smallest buffer of MG-WFBP: 8,192 values of four bytes."""


def optimum(layers: Layers, network: AlphaBetaModel) -> GradientSchedule:
    """Return the best schedule by trying all; raises `DenseError` for more than 12 layers."""
    sizes, ready_times = layers.gradients()
    if len(sizes) > MAX_LAYERS:
        raise DenseError(f"expected at most {MAX_LAYERS} layers, got {len(sizes)}")
    candidates = [
        (*_try_all(ready_times, sizes.astype(np.float64), at_once, constants(network)), at_once)
        for at_once in range(1, network.max_at_once + 1)
    ]
    _, mask, at_once = min(candidates)
    n = len(sizes)
    return GradientSchedule("optimum", tuple(i for i in range(n) if i == n - 1 or mask >> i & 1), at_once)


def beam(layers: Layers, network: AlphaBetaModel, at_once: int) -> GradientSchedule:
    """Search by prefixes: for each number of gradients sent, go on from the most promising network states."""
    # A state's score is the time at which all would end if the remaining gradients were sent as one buffer.
    # With one all-reduce at a time it is the time at which the state's buffers end. Then a single state
    # suffices, as an earlier end is never worse: this is dynamic programming.
    weights = _TIE_WEIGHTS if at_once > 1 else _TIE_WEIGHTS[:1]
    schedules = [_beam_search(layers, network, at_once, tie_weight) for tie_weight in weights]
    return min(schedules, key=lambda schedule: simulate(layers, network, schedule).end_us)


def _beam_search(
    layers: Layers, network: AlphaBetaModel, at_once: int, tie_weight: float
) -> GradientSchedule:
    sizes, ready_times = layers.gradients()
    sums = np.concatenate(([0.0], np.cumsum(sizes, dtype=np.float64)))
    n = len(sizes)
    width = 1 if at_once == 1 else min(max(_SEARCH_STEPS // n**2, MIN_WIDTH), MAX_WIDTH)
    parents = np.zeros((n + 1, width, 2), np.int64)
    _extend_states(ready_times, sums, at_once, constants(network), tie_weight, parents)
    last_gradients, prefix, state = list[int](), n, 0
    while prefix:
        last_gradients.append(prefix - 1)
        prefix, state = (int(each) for each in parents[prefix, state])
    return GradientSchedule("beam", tuple(reversed(last_gradients)), at_once)


@entry_point
def _try_all(ready_times: Values, sizes: Values, at_once: int, network: Constants) -> tuple[float, int]:
    """Return the earliest end and its schedule as a mask: bit i is set if gradient i is a buffer's last."""
    n = len(ready_times)
    under_way, work, no_times = np.zeros(at_once, np.int64), np.zeros((at_once, 2)), np.zeros(0)
    earliest, best_mask = np.inf, int64(0)
    for mask in range(int64(1) << (n - 1)):
        now, active_count, buffered = 0.0, int64(0), 0.0
        for i in range(n):
            buffered += sizes[i]
            if i == n - 1 or mask >> i & 1:
                now, active_count = admit(
                    work,
                    under_way,
                    active_count,
                    at_once,
                    now,
                    ready_times[i],
                    network,
                    no_times,
                    _NO_BUFFER,
                    buffered,
                )
                buffered = 0.0
        end = drain(work, under_way, active_count, now, network, no_times)
        if end < earliest:
            earliest, best_mask = end, mask
    return earliest, best_mask


class _States(NamedTuple):
    scores: Values
    """float64[n + 1, width]: the lower, the better (see `beam`); inf in a free place."""
    times: Values  # float64[n + 1, width]: start of the latest buffer
    active_counts: Ints  # int64[n + 1, width]: all-reduces under way
    work: Values  # float64[n + 1, width, at_once, 2]: remaining work of the all-reduces under way
    parents: Ints  # int64[n + 1, width, 2]: prefix and state that each state continues


@entry_point
def _extend_states(
    ready_times: Values, sums: Values, at_once: int, network: Constants, tie_weight: float, parents: Ints
) -> None:
    n, width = len(ready_times), parents.shape[1]
    states = _States(
        np.full((n + 1, width), np.inf), np.zeros((n + 1, width)), np.zeros((n + 1, width), np.int64),
        np.zeros((n + 1, width, at_once, 2)), parents,
    )  # fmt: skip
    work, trial_work = np.zeros((at_once, 2)), np.zeros((at_once, 2))
    under_way, no_times = np.zeros(at_once, np.int64), np.zeros(0)
    states.scores[0, 0] = 0.0
    # Add a buffer of gradients i to j - 1 to each state w in which the gradients before i are sent.
    for j in range(1, n + 1):
        for i in range(j):
            for w in range(width):
                if states.scores[i, w] == np.inf:
                    break
                work[:] = states.work[i, w]
                now, active_count = admit(
                    work, under_way, states.active_counts[i, w], at_once, states.times[i, w],
                    ready_times[j - 1], network, no_times, _NO_BUFFER, sums[j] - sums[i],
                )  # fmt: skip
                trial_work[:] = work
                score = end = drain(trial_work, under_way, active_count, now, network, no_times)
                if j < n and at_once > 1:
                    trial_work[:] = work
                    start, active_count_later = admit(
                        trial_work, under_way, active_count, at_once, now, ready_times[n - 1], network,
                        no_times, _NO_BUFFER, sums[n] - sums[j],
                    )  # fmt: skip
                    score = (
                        drain(trial_work, under_way, active_count_later, start, network, no_times)
                        + tie_weight * end
                    )
                if score < states.scores[j, width - 1] and not _is_duplicate(
                    states, j, now, active_count, work
                ):
                    _insert(states, j, score, now, active_count, work, i, w)


@compiled
def _is_duplicate(states: _States, j: int, now: float, active_count: int, work: Values) -> bool:
    for k in range(states.scores.shape[1]):
        if states.scores[j, k] == np.inf:
            return False
        if states.active_counts[j, k] == active_count and abs(states.times[j, k] - now) <= _TOLERANCE:
            difference = 0.0
            for a in range(active_count):
                for b in (STARTUP, BYTES):
                    difference = max(difference, abs(states.work[j, k, a, b] - work[a, b]))
            if difference <= _TOLERANCE:
                return True
    return False


@compiled
def _insert(
    states: _States,
    j: int,
    score: float,
    now: float,
    active_count: int,
    work: Values,
    parent_prefix: int,
    parent_place: int,
) -> None:
    place = states.scores.shape[1] - 1
    while place > 0 and states.scores[j, place - 1] > score:
        states.scores[j, place] = states.scores[j, place - 1]
        states.times[j, place] = states.times[j, place - 1]
        states.active_counts[j, place] = states.active_counts[j, place - 1]
        states.work[j, place] = states.work[j, place - 1]
        states.parents[j, place] = states.parents[j, place - 1]
        place -= 1
    states.scores[j, place], states.times[j, place], states.active_counts[j, place] = score, now, active_count
    states.work[j, place] = work
    states.parents[j, place, 0], states.parents[j, place, 1] = parent_prefix, parent_place


def wfbp(layers: Layers, network: AlphaBetaModel) -> GradientSchedule:
    """Send each gradient by itself, one after the other (wait-free back-propagation)."""
    return GradientSchedule("WFBP", tuple(range(len(layers.gradients()[0]))))


def fixed_buffers(layers: Layers, network: AlphaBetaModel, preset: str = "horovod-0.20") -> GradientSchedule:
    # Gradients and buffers are matched by the bytes up to their ends.
    sizes = layers.gradients()[0].cumsum().tolist()
    end_sizes = fuse(layers, PRESETS[preset])[0].cumsum().tolist()
    return GradientSchedule("fixed buffers", tuple(sizes.index(end) for end in end_sizes))


def mg_wfbp(layers: Layers, network: AlphaBetaModel) -> GradientSchedule:
    """Merge where the link is busy or waiting costs less than α, and send one at a time (MG-WFBP)."""
    return GradientSchedule("MG-WFBP", _merge_gradients(layers, network, may_wait=True))


def asc_wfbp(layers: Layers, network: AlphaBetaModel) -> GradientSchedule:
    """Merge if the next gradient is ready before the link is free; several all-reduces at once (ASC-WFBP)."""
    base_schedule = GradientSchedule("ASC-WFBP", _merge_gradients(layers, network, may_wait=False))
    schedules = [replace(base_schedule, at_once=at_once) for at_once in range(1, network.max_at_once + 1)]
    return min(schedules, key=lambda schedule: simulate(layers, network, schedule).end_us)


def best(layers: Layers, network: AlphaBetaModel) -> GradientSchedule:
    schedules = [beam(layers, network, at_once) for at_once in range(1, network.max_at_once + 1)]
    schedules += [scheduler(layers, network) for scheduler in SCHEDULERS.values() if scheduler is not best]
    fastest = min(schedules, key=lambda schedule: simulate(layers, network, schedule).end_us)
    return replace(fastest, scheduler="best")


SCHEDULERS: dict[str, Scheduler] = {
    "wfbp": wfbp,
    "fixed": fixed_buffers,
    "mg-wfbp": mg_wfbp,
    "asc-wfbp": asc_wfbp,
    "best": best,
}


def _merge_gradients(layers: Layers, network: AlphaBetaModel, may_wait: bool) -> tuple[int, ...]:
    """Return `GradientSchedule.last_gradients`[b] of one all-reduce at a time.

    `may_wait` allows waits up to α.
    """
    sizes, ready_times = (each.tolist() for each in layers.gradients())
    last_gradients, free_at, buffer_bytes = list[int](), 0.0, 0
    for i, next_ready in enumerate(ready_times[1:]):
        buffer_bytes += sizes[i]
        start = max(free_at, ready_times[i])
        end = start + network.uncontended_us(buffer_bytes)
        merges = next_ready < end and (
            next_ready < start or (may_wait and next_ready - start < network.alpha_us)
        )
        if not merges and not (may_wait and buffer_bytes < MIN_BUFFER_BYTES):
            last_gradients.append(i)
            free_at, buffer_bytes = end, 0
    return (*last_gradients, len(sizes) - 1)
