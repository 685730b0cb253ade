"""Searches over plans: all of them where there are few layers, and a beam where there are many.

Both have each buffer sent as soon as it is ready and there is room, in the order of backward.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nativekit.compile import compiled, int64
from studies.dense.compile import entry_point
from studies.dense.errors import DenseError
from studies.dense.layers import Layers
from studies.dense.play import Collectives, Plan, admit, constants, drain, play

MOST_LAYERS = 12
"""That all plans are tried for: 2^11 ways to merge."""
NARROW, WIDE, _WORK = 8, 64, 2_000_000
"""States that the beam keeps for each prefix: as many as pairs of n layers leave time for."""
_TIES = (0.0, 1e-6)
"""What a state's own end weighs beside the end of all: both are tried, as neither is always better."""
_SAME = 1e-6
"""µs, and bytes, that two states are apart at most that are one."""


def optimum(layers: Layers, network: Collectives) -> Plan:
    """The best of all plans, by trying them; `DenseError` beyond 12 layers."""
    sizes, ready = layers.gradients()
    if len(sizes) > MOST_LAYERS:
        raise DenseError(f"{len(sizes)} layers: all plans are tried for up to {MOST_LAYERS}")
    found = [
        (*_try_all(ready, sizes.astype(np.float64), at_once, *constants(network)), at_once)
        for at_once in range(1, network.most + 1)
    ]
    _, mask, at_once = min(found)
    n = len(sizes)
    return Plan("optimum", tuple(i for i in range(n) if i == n - 1 or mask >> i & 1), at_once)


def beam(layers: Layers, network: Collectives, at_once: int) -> Plan:
    """By prefixes: the states of the network, with so many gradients sent, that look best.

    A state is judged by the end if all that is left were one buffer. With one at a time one state is
    enough, as an earlier end is never worse: that is dynamic programming.
    """
    weights = _TIES if at_once > 1 else _TIES[:1]
    plans = [_found(layers, network, at_once, ties) for ties in weights]
    return min(plans, key=lambda plan: play(layers, network, plan).end_us)


def _found(layers: Layers, network: Collectives, at_once: int, ties: float) -> Plan:
    sizes, ready = layers.gradients()
    sums = np.concatenate(([0.0], np.cumsum(sizes, dtype=np.float64)))
    n = len(sizes)
    width = 1 if at_once == 1 else min(max(_WORK // n**2, NARROW), WIDE)
    before = np.zeros((n + 1, width, 2), np.int64)
    _beam(ready, sums, at_once, *constants(network), ties, before)
    lasts, at, which = list[int](), n, 0
    while at:
        lasts.append(at - 1)
        at, which = (int(each) for each in before[at, which])
    return Plan("beam", tuple(reversed(lasts)), at_once)


@entry_point
def _try_all(
    ready: Any, sizes: Any, at_once: int, alpha: float, beta: float, sharing: float
) -> tuple[float, int]:
    """(the earliest end, in whose bits i says that gradient i is the last of a buffer)."""
    n = len(ready)
    under_way, left, nowhere = np.zeros(at_once, np.int64), np.zeros((at_once, 2)), np.zeros(0)
    earliest, found = np.inf, int64(0)
    for mask in range(int64(1) << (n - 1)):
        now, number, held = 0.0, int64(0), 0.0
        for i in range(n):
            held += sizes[i]
            if i == n - 1 or mask >> i & 1:
                now, number = admit(
                    left, under_way, number, at_once, now, ready[i], alpha, beta, sharing, nowhere, 0, held
                )
                held = 0.0
        end = drain(left, under_way, number, now, beta, sharing, nowhere)
        if end < earliest:
            earliest, found = end, mask
    return earliest, found


@entry_point
def _beam(
    ready: Any, sums: Any, at_once: int, alpha: float, beta: float, sharing: float, ties: float, before: Any
) -> None:
    """Fill `before`: [prefix, state] -> the prefix and state that it goes on from."""
    n, width = len(ready), before.shape[1]
    ends = np.full((n + 1, width), np.inf)
    nows, numbers = np.zeros((n + 1, width)), np.zeros((n + 1, width), np.int64)
    lefts = np.zeros((n + 1, width, at_once, 2))
    left, trial = np.zeros((at_once, 2)), np.zeros((at_once, 2))
    under_way, nowhere = np.zeros(at_once, np.int64), np.zeros(0)
    ends[0, 0] = 0.0
    for j in range(1, n + 1):
        for i in range(j):
            for w in range(width):
                if ends[i, w] == np.inf:
                    break
                left[:] = lefts[i, w]
                now, number = admit(
                    left, under_way, numbers[i, w], at_once, nows[i, w], ready[j - 1],
                    alpha, beta, sharing, nowhere, 0, sums[j] - sums[i],
                )  # fmt: skip
                trial[:] = left
                end = drain(trial, under_way, number, now, beta, sharing, nowhere)
                if j < n and at_once > 1:
                    trial[:] = left
                    later, many = admit(
                        trial, under_way, number, at_once, now, ready[n - 1],
                        alpha, beta, sharing, nowhere, 0, sums[n] - sums[j],
                    )  # fmt: skip
                    end = drain(trial, under_way, many, later, beta, sharing, nowhere) + ties * end
                if end < ends[j, width - 1] and not _is_there(
                    ends[j], nows[j], numbers[j], lefts[j], now, number, left
                ):
                    _insert(ends[j], nows[j], numbers[j], lefts[j], before[j], end, now, number, left, i, w)


@compiled
def _is_there(ends: Any, nows: Any, numbers: Any, lefts: Any, now: float, number: int, left: Any) -> bool:
    """Whether one of a prefix's states is the same: as much of the same is left at the same time."""
    for k in range(len(ends)):
        if ends[k] == np.inf:
            return False
        if numbers[k] == number and abs(nows[k] - now) <= _SAME:
            apart = 0.0
            for a in range(number):
                apart = max(apart, abs(lefts[k, a, 0] - left[a, 0]), abs(lefts[k, a, 1] - left[a, 1]))
            if apart <= _SAME:
                return True
    return False


@compiled
def _insert(
    ends: Any, nows: Any, numbers: Any, lefts: Any, before: Any,
    end: float, now: float, number: int, left: Any, i: int, w: int,
) -> None:  # fmt: skip
    """Put a state among those of its prefix, which stand by their ends; the last falls out."""
    at = len(ends) - 1
    while at > 0 and ends[at - 1] > end:
        ends[at], nows[at], numbers[at] = ends[at - 1], nows[at - 1], numbers[at - 1]
        lefts[at], before[at] = lefts[at - 1], before[at - 1]
        at -= 1
    ends[at], nows[at], numbers[at] = end, now, number
    lefts[at] = left
    before[at, 0], before[at, 1] = i, w
