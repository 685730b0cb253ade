"""The model of `hotline_agents.hotset.worker.packing`, with lists and exhaustive search."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import LANES
from foundation.protocol.register_packing import Packing, packing

COST_AT_PS = 2


class Packed(NamedTuple):
    """RPCs, and for each the bitmap of the lanes whose keys are there by their hash."""

    rpcs: Packing
    hashed: list[int]


class _Rpc:
    def __init__(self, ps: int) -> None:
        self.ps = ps
        self.keys: dict[int, int] = {}
        self.hashed = 0

    def ride(self, lane: int, key: int) -> None:
        self.keys[lane] = key
        self.hashed |= 1 << lane


def pack(
    ps: NDArray[np.uint16], lane: NDArray[np.uint8], hinted: NDArray[np.bool_], lane_count: int = LANES
) -> Packed:
    """Assign keys to lanes by PS, hash lane and hint (all of shape [size])."""
    indices = range(len(ps))
    hot = {each: [i for i in indices if hinted[i] and lane[i] == each] for each in range(lane_count)}
    cold = {each: [i for i in indices if not hinted[i] and ps[i] == each] for each in range(max(ps) + 1)}
    hot_only, calls = share_out(
        [len(keys) for keys in hot.values()], {p: len(cold[p]) for p in cold}, lane_count
    )
    room = {p: calls[p] * lane_count - len(cold[p]) for p in cold}
    turns = range(max(calls.values(), default=0))
    shared = [_Rpc(p) for turn in turns for p in sorted(cold) if calls[p] > turn]
    order = sorted(hot, key=lambda each: (-len(hot[each]), each))
    left = Counter(rpc.ps for rpc in shared)
    for rpc in shared:
        waiting = [each for each in order if len(hot[each]) > hot_only]
        riding = min(-(-room[rpc.ps] // left[rpc.ps]), len(waiting))
        room[rpc.ps] -= riding
        left[rpc.ps] -= 1
        # Of equals the last ones, which keeps the order.
        least = min((len(hot[each]) for each in waiting[:riding]), default=0)
        taller = [each for each in waiting if len(hot[each]) > least]
        equal = [each for each in waiting if len(hot[each]) == least]
        for each in taller[:riding] + equal[len(equal) - (riding - len(taller)) :]:
            rpc.ride(each, hot[each].pop(0))
    for rpc in shared:
        for free in sorted(set(range(lane_count)) - set(rpc.keys)):
            if cold[rpc.ps]:
                rpc.keys[free] = cold[rpc.ps].pop(0)
    own = []
    while any(hot.values()):
        rpc = _Rpc(int(ps[next(keys[0] for keys in hot.values() if keys)]))
        for each in hot:
            if hot[each]:
                rpc.ride(each, hot[each].pop(0))
        own.append(rpc)
    return _packed(len(ps), [rpc for rpc in shared if rpc.keys] + own)


def share_out(hot: list[int], cold: dict[int, int], lane_count: int = LANES) -> tuple[int, dict[int, int]]:
    """Return the number of RPCs with hot keys only, and the number for each PS."""
    calls = {p: -(-n // lane_count) for p, n in cold.items()}
    room = lane_count * sum(calls.values()) - sum(cold.values())
    riding = {hot_only: sum(max(0, n - hot_only) for n in hot) for hot_only in range(max(hot) + 1)}
    more = {hot_only: -(-max(0, n - room) // lane_count) for hot_only, n in riding.items()}
    possible = [hot_only for hot_only in more if max(hot) - hot_only <= sum(calls.values()) + more[hot_only]]
    best = min(possible, key=lambda hot_only: (hot_only + COST_AT_PS * more[hot_only], -hot_only))
    for _ in range(more[best]):
        wide = [p for p in cold if cold[p] > calls[p]]
        if wide:
            calls[min(wide, key=lambda p: (calls[p] * lane_count - cold[p], p))] += 1
    return best, calls


def _packed(size: int, rpcs: list[_Rpc]) -> Packed:
    position = np.full((len(rpcs), LANES), size, np.int32)
    for row, rpc in zip(position, rpcs, strict=True):
        row[list(rpc.keys)] = list(rpc.keys.values())
    ps = np.array([rpc.ps for rpc in rpcs], np.uint16)
    return Packed(packing(size, position, ps), [rpc.hashed for rpc in rpcs])
