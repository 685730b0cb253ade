"""A plain model of the values that a history allows, without any of the agents' code.

As in Jepsen, operations are invoked and completed on one clock; some never complete. A key's final value is
the sum of all acknowledged pushes to it, modulo 2^32, or what else its design makes of them
(`foundation.designs.combination`); a push that a killed worker got no answer to may have been added once, or
not at all. A pull returns at least the sum of pushes acknowledged before its invocation,
and at most the sum of those invoked before its completion (the bounds of Jepsen's counter). Where servers
publish values, the lower bound is the value that the latest earlier pull of the same worker returned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.compiled import entry_point
from foundation.designs import combination
from foundation.designs.combination import MIN_CODE
from foundation.designs.compiled_combination import combine
from foundation.protocol.codec import MAX_U32
from foundation.protocol.rpc import PULL, PUSH
from hotline_simulator.faults.operations import (
    KEYS,
    OperationsHeader,
    WorkerOperation,
    WorkerOperations,
    WorkerProgress,
    delta_of,
    is_torn,
)
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Records, RecordTable, Words

_MAX_UNKNOWN = 12  # maximum number of a key's unacknowledged pushes whose 2^n subsets are tried
_MAX_UNACKED = 4096  # unacknowledged lanes of a history that are considered
NO_BLIND_SPANS = np.array([[0, 0]], np.int64)  # an interval that overlaps no pull
_SIGN = 1 << 31
_EARLY, _LATE = 0, 1  # indices into counts of pulled values out of bounds


class Judgement(NamedTuple):
    sent: int  # lanes of pushes that were acknowledged
    lost: int  # keys whose final value is too small
    doubled: int  # keys whose final value is too large
    early: int  # pulled values that lack an acknowledged push
    late: int  # pulled values that contain more than the pushes invoked before
    torn: int  # rows, pulled or final, with a push in some of their values only

    @property
    def holds(self) -> bool:
        return not (self.lost or self.doubled or self.early or self.late or self.torn)


def judge(
    operations: WorkerOperations,
    final_values: NDArray[np.uint32],
    blind_spans: NDArray[np.int64] = NO_BLIND_SPANS,
    uncertain_pushes: Iterable[tuple[int, int]] = (),
    servers_publish: bool = False,
) -> Judgement:
    """Judge a history by the rows after it, `final_values`, one after the other.

    `uncertain_pushes` are further (key, delta) pairs that may or may not have been added.
    `blind_spans` are intervals, int64[n, 2], in which a pull may lack acknowledged pushes, because
    workers replay what a dead switch had. If `servers_publish`, servers publish values: then a pull in such
    an interval has no bounds, because a value may contain an unanswered push twice until settled.
    """
    sums, unknown_deltas, sent = _sums_by_key(operations)
    final_first_values = np.zeros(KEYS, np.uint32)
    torn = _first_values(final_values, operations.dims, final_first_values) + int(operations.header.torn)
    for key, delta in uncertain_pushes:
        unknown_deltas.setdefault(key, []).append(delta)
    lost = doubled = 0
    code = int(operations.header.combination)
    for key in range(KEYS):
        value, possible_values = int(final_first_values[key]), {int(sums[key])}
        for delta in unknown_deltas.get(key, [])[:_MAX_UNKNOWN]:
            possible_values |= {combination.combine(code, each, delta & MAX_U32) for each in possible_values}
        if value not in possible_values:
            is_larger = (value - int(sums[key])) % 2**32 < 2**31  # the difference, as a signed integer
            is_doubled = is_larger == (code != MIN_CODE)
            lost, doubled = lost + (not is_doubled), doubled + is_doubled
    early = late = 0
    if not operations.header.is_extreme:  # sums of extreme values wrap, so bounds mean nothing
        early, late = _pulls_out_of_bounds(*operations[:-1], blind_spans, servers_publish).tolist()
    return Judgement(sent, lost, doubled, early, late, torn)


def _sums_by_key(operations: WorkerOperations) -> tuple[NDArray[np.int64], dict[int, list[int]], int]:
    sums = np.zeros(KEYS, np.int64)
    unacked = np.full((_MAX_UNACKED, 2), -1, np.int64)
    sent, n_unacked = (int(number) for number in _add_acknowledged_pushes(*operations[:-1], sums, unacked))
    unknown_deltas: dict[int, list[int]] = {}
    for key, delta in unacked[:n_unacked].tolist():
        unknown_deltas.setdefault(key, []).append(delta)
    return sums, unknown_deltas, sent


@entry_point
def _first_values(values: Words, dims: Ints, result: Words) -> int:
    """Write the first values of rows, which follow one another in `values`; return how many rows are torn."""
    start, torn = int64(0), int64(0)
    for key in range(len(dims)):
        result[key] = values[start]
        torn += is_torn(values, start, int64(dims[key]))
        start += int64(dims[key])
    return torn


@entry_point
def _add_acknowledged_pushes(
    header: OperationsHeader,
    progress: Records[WorkerProgress],
    history: RecordTable[WorkerOperation],
    _pulled: Words,
    sums: Ints,
    unacked: Ints,
) -> Ints:
    sent, n_unacked = int64(0), int64(0)
    for w in range(len(progress)):
        for k in range(progress[w].operations):
            operation = history[w, k]
            if operation.kind == PUSH:
                for key in range(KEYS):
                    if _has(operation.added, key):
                        pushed = delta_of(header, w, k, key) & MAX_U32
                        sums[key] = combine(header.combination, sums[key], pushed)
                        sent += 1
                    elif _has(operation.mask, key) and n_unacked < len(unacked):
                        unacked[n_unacked, 0], unacked[n_unacked, 1] = key, delta_of(header, w, k, key)
                        n_unacked += 1
    return np.array([sent, n_unacked])


@entry_point
def _pulls_out_of_bounds(
    header: OperationsHeader,
    progress: Records[WorkerProgress],
    history: RecordTable[WorkerOperation],
    pulled: Words,
    blind_spans: Ints,
    servers_publish: bool,
) -> Ints:
    counts, code = np.zeros(2, np.int64), header.combination
    sign = -1 if code == MIN_CODE else 1  # values fall, and the bounds change places
    for w in range(len(progress)):
        previous_values = np.zeros(KEYS, np.int64)
        for k in range(progress[w].operations):
            pull = history[w, k]
            if pull.kind != PULL or pull.completed == 0:
                continue
            lower_bounds, upper_bounds = np.zeros(KEYS, np.int64), np.zeros(KEYS, np.int64)
            for v in range(len(progress)):
                for j in range(progress[v].operations):
                    push = history[v, j]
                    if push.kind == PUSH and push.invoked < pull.completed:
                        is_before = push.completed != 0 and push.completed <= pull.invoked
                        for key in range(KEYS):
                            if _has(push.mask & pull.mask, key):
                                delta = delta_of(header, v, j, key) & MAX_U32
                                upper_bounds[key] = combine(code, upper_bounds[key], delta)
                                if is_before:
                                    lower_bounds[key] = combine(code, lower_bounds[key], delta)
            is_blind = _overlaps(blind_spans, pull.invoked, pull.completed)
            for key in range(KEYS):
                if _has(pull.mask, key):
                    value = sign * _signed(int64(pulled[w, k, key]))
                    lower_bound = sign * _signed(lower_bounds[key])
                    if servers_publish:
                        lower_bound = previous_values[key]
                    previous_values[key] = value
                    is_above = value > sign * _signed(upper_bounds[key])
                    counts[_EARLY] += value < lower_bound and not is_blind
                    counts[_LATE] += is_above and not (is_blind and servers_publish)
    return counts


@compiled
def _signed(word: int) -> int:
    return (word ^ _SIGN) - _SIGN


@compiled
def _has(mask: np.uint64, key: int) -> bool:
    return bool((mask >> np.uint64(key)) & np.uint64(1))


@compiled
def _overlaps(spans: Ints, begin: int, end: int) -> bool:
    is_overlap = False
    for n in range(len(spans)):
        is_overlap |= begin < spans[n, 1] and end > spans[n, 0]
    return is_overlap
