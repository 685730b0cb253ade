"""Searches for the best schedule, exhaustive or by beam; buffers are sent in order, as soon as possible."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nativekit.compile import compiled, int64
from nativekit.records import Ints
from studies.compile import entry_point
from studies.dense import DenseError
from studies.dense.alpha_beta import AlphaBetaModel, Constants, Schedule, admit, constants, drain, simulate
from studies.dense.layers import Layers, Values

MAX_LAYERS = 12
"""Maximum number of layers of an exhaustive search, which tries 2^11 ways to merge them."""
MIN_WIDTH, MAX_WIDTH, _WORK = 8, 64, 2_000_000
"""Bounds of the beam's width, and the number of search steps, width · n² for n layers, that it aims at."""
_TIE_WEIGHTS = (0.0, 1e-6)
"""Weights of a state's own end, which breaks ties; both are tried, since neither is always better."""
_TOLERANCE = 1e-6
"""Largest difference, in µs or bytes, of states that count as equal."""


def optimum(layers: Layers, network: AlphaBetaModel) -> Schedule:
    """Return the best schedule by trying all; raises `DenseError` for more than 12 layers."""
    sizes, ready = layers.gradients()
    if len(sizes) > MAX_LAYERS:
        raise DenseError(f"expected at most {MAX_LAYERS} layers, got {len(sizes)}")
    candidates = [
        (*_try_all(ready, sizes.astype(np.float64), at_once, constants(network)), at_once)
        for at_once in range(1, network.max_at_once + 1)
    ]
    _, mask, at_once = min(candidates)
    n = len(sizes)
    return Schedule("optimum", tuple(i for i in range(n) if i == n - 1 or mask >> i & 1), at_once)


def beam(layers: Layers, network: AlphaBetaModel, at_once: int) -> Schedule:
    """Search by prefixes: for each number of gradients sent, go on from the most promising network states."""
    # A state is judged by its end if the remaining gradients were one buffer. With one all-reduce at a time a
    # single state suffices, as an earlier end is never worse: this is dynamic programming.
    weights = _TIE_WEIGHTS if at_once > 1 else _TIE_WEIGHTS[:1]
    schedules = [_beam_search(layers, network, at_once, tie_weight) for tie_weight in weights]
    return min(schedules, key=lambda schedule: simulate(layers, network, schedule).end_us)


def _beam_search(layers: Layers, network: AlphaBetaModel, at_once: int, tie_weight: float) -> Schedule:
    sizes, ready = layers.gradients()
    sums = np.concatenate(([0.0], np.cumsum(sizes, dtype=np.float64)))
    n = len(sizes)
    width = 1 if at_once == 1 else min(max(_WORK // n**2, MIN_WIDTH), MAX_WIDTH)
    parents = np.zeros((n + 1, width, 2), np.int64)
    _beam(ready, sums, at_once, constants(network), tie_weight, parents)
    last_gradients, at, state = list[int](), n, 0
    while at:
        last_gradients.append(at - 1)
        at, state = (int(each) for each in parents[at, state])
    return Schedule("beam", tuple(reversed(last_gradients)), at_once)


@entry_point
def _try_all(ready: Values, sizes: Values, at_once: int, network: Constants) -> tuple[float, int]:
    """Return the earliest end, and its mask: bit i is set if gradient i is the last of a buffer."""
    n = len(ready)
    under_way, work, no_times = np.zeros(at_once, np.int64), np.zeros((at_once, 2)), np.zeros(0)
    earliest, best_mask = np.inf, int64(0)
    for mask in range(int64(1) << (n - 1)):
        now, number, buffered = 0.0, int64(0), 0.0
        for i in range(n):
            buffered += sizes[i]
            if i == n - 1 or mask >> i & 1:
                now, number = admit(
                    work, under_way, number, at_once, now, ready[i], network, no_times, 0, buffered
                )
                buffered = 0.0
        end = drain(work, under_way, number, now, network, no_times)
        if end < earliest:
            earliest, best_mask = end, mask
    return earliest, best_mask


class _States(NamedTuple):
    ends: Values
    """float64[n + 1, width]: end if the remaining gradients were one buffer, inf in a free place."""
    times: Values  # float64[n + 1, width]: start of the latest buffer
    numbers: Ints  # int64[n + 1, width]: all-reduces under way
    work: Values  # float64[n + 1, width, at_once, 2]: their remaining work
    parents: Ints  # int64[n + 1, width, 2]: prefix and state that each continues


@entry_point
def _beam(
    ready: Values, sums: Values, at_once: int, network: Constants, tie_weight: float, parents: Ints
) -> None:
    n, width = len(ready), parents.shape[1]
    states = _States(
        np.full((n + 1, width), np.inf), np.zeros((n + 1, width)), np.zeros((n + 1, width), np.int64),
        np.zeros((n + 1, width, at_once, 2)), parents,
    )  # fmt: skip
    work, trial = np.zeros((at_once, 2)), np.zeros((at_once, 2))
    under_way, no_times = np.zeros(at_once, np.int64), np.zeros(0)
    states.ends[0, 0] = 0.0
    for j in range(1, n + 1):
        for i in range(j):
            for w in range(width):
                if states.ends[i, w] == np.inf:
                    break
                work[:] = states.work[i, w]
                now, number = admit(
                    work, under_way, states.numbers[i, w], at_once, states.times[i, w], ready[j - 1], network,
                    no_times, 0, sums[j] - sums[i],
                )  # fmt: skip
                trial[:] = work
                end = drain(trial, under_way, number, now, network, no_times)
                if j < n and at_once > 1:
                    trial[:] = work
                    start, under_way_later = admit(
                        trial, under_way, number, at_once, now, ready[n - 1], network, no_times, 0,
                        sums[n] - sums[j],
                    )  # fmt: skip
                    end = (
                        drain(trial, under_way, under_way_later, start, network, no_times) + tie_weight * end
                    )
                if end < states.ends[j, width - 1] and not _is_duplicate(states, j, now, number, work):
                    _insert(states, j, end, now, number, work, i, w)


@compiled
def _is_duplicate(states: _States, j: int, now: float, number: int, work: Values) -> bool:
    for k in range(states.ends.shape[1]):
        if states.ends[j, k] == np.inf:
            return False
        if states.numbers[j, k] == number and abs(states.times[j, k] - now) <= _TOLERANCE:
            difference = 0.0
            for a in range(number):
                for b in range(2):
                    difference = max(difference, abs(states.work[j, k, a, b] - work[a, b]))
            if difference <= _TOLERANCE:
                return True
    return False


@compiled
def _insert(
    states: _States, j: int, end: float, now: float, number: int, work: Values, i: int, w: int
) -> None:
    at = states.ends.shape[1] - 1
    while at > 0 and states.ends[j, at - 1] > end:
        states.ends[j, at], states.times[j, at] = states.ends[j, at - 1], states.times[j, at - 1]
        states.numbers[j, at] = states.numbers[j, at - 1]
        states.work[j, at], states.parents[j, at] = states.work[j, at - 1], states.parents[j, at - 1]
        at -= 1
    states.ends[j, at], states.times[j, at], states.numbers[j, at] = end, now, number
    states.work[j, at] = work
    states.parents[j, at, 0], states.parents[j, at, 1] = i, w
