"""A worker that sends an operation's keys to their servers, in as few RPCs as possible."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.logs.rpc_row import RpcRow
from foundation.protocol.codec import Caller
from foundation.protocol.header import MAX_VALUES, QUAD, SLOT_MASK, WINDOW, lanes_of_dim
from foundation.protocol.rpc import EMPTY, PULL, PUSH, Rpc, decode, ps_of
from hosts.keys import KeyRange, KeySpace, key_ranges
from hotline_agents.interface import NOTHING, WorkerOps, register_worker_ops
from hotline_agents.worker.rpcs import (
    RpcCall,
    RpcsHeader,
    copy_row,
    dim_of,
    find_rows,
    is_expected,
    key_of,
    peer,
    row_start,
    set_dims,
    space_of,
    write_head,
)
from hotline_agents.worker.window import (
    Slot,
    earliest_deadline,
    free_slot,
    log_answer,
    mark_in_flight,
    next_resend,
    octets,
    open_calls,
    retransmit,
    take_slot,
    time_round_trip,
)
from nativekit.bits import swap32, swap64
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Records, Words, one_record, records


class RequestsHeader(RpcsHeader):
    first_unsent: int  # the first call of the operation that has not been sent


class PsCall(RpcCall):
    """One RPC: the keys `order[first : first + count]` of the operation, in lanes from 0 on."""

    first: int
    count: int


class UnsentKeys:
    """Keys of an operation for a PS that are in no call yet, as a range of `order`."""

    first: int
    count: int


class Requests(NamedTuple):
    """A worker's calls for one job (`WindowState`, `RpcsState`, `OperandState`), of up to B keys each."""

    header: RequestsHeader
    slots: Records[Slot]
    sent: Records[Rpc]
    free: Ints
    resends: Ints
    calls: Records[PsCall]  # [B / fewest lanes + n_ps * dims]
    order: NDArray[np.int32]  # int32[B]: indexes of the operation's keys, grouped by server
    unsent_keys: Records[UnsentKeys]  # [n_ps]
    keys: NDArray[np.uint64]  # uint64[B]: keys of the operation
    positions: Ints
    ranges: Records[KeyRange]
    row_starts: Ints
    deltas: Words
    values: Words
    answered: NDArray[np.bool_]
    in_flight: Ints
    space: NDArray[np.uint64]
    log: Records[RpcRow]


def make_requests(caller: Caller, n_ps: int, space: KeySpace, max_keys: int, window: int) -> Requests:
    header, largest_dim = one_record(RequestsHeader), max(space.dims)
    header.n_ps = n_ps
    set_dims(header, space)
    return Requests(
        header=header,
        calls=records(max_keys // lanes_of_dim(largest_dim) + n_ps * len(space.dims), PsCall),
        order=np.zeros(max_keys, np.int32),
        unsent_keys=records(n_ps, UnsentKeys),
        keys=np.zeros(max_keys, np.uint64),
        in_flight=np.zeros(WINDOW + 1, np.int64),
        space=space_of(space.sparse),
        ranges=key_ranges(space),
        row_starts=np.zeros(max_keys + 1, np.int64),
        **open_calls(header, caller, max_keys, window, dim=largest_dim),
    )


@compiled
def start(state: Requests, op: int, iteration: int, n_keys: int) -> None:
    header = state.header
    header.op, header.iteration, header.n_calls, header.first_unsent = op, iteration, 0, 0
    if op == EMPTY:
        header.n_keys, header.pending = 0, 1
        _add_call(state, n_keys, 1, 0, 0)  # no keys: `n_keys` is the number of the PS that an EMPTY goes to
        return
    header.n_keys = header.pending = n_keys
    find_rows(state, n_keys)
    for i in range(n_keys):
        state.keys[i] = key_of(state, i)
    first, dim = int64(0), int64(1)
    while dim <= header.dims:
        if header.dims & dim:
            first = _add_calls(state, n_keys, dim, first)
        dim *= 2


@compiled
def _add_calls(state: Requests, n_keys: int, dim: int, first: int) -> int:
    """Add the calls of the rows of one dim, whose keys go to `order` from `first` on; return the end."""
    end, lanes, has_more = _sort_by_ps(state, n_keys, dim, first), MAX_VALUES // max(dim, QUAD), True
    while has_more:  # one call for each PS in turn
        has_more = False
        for ps in range(state.header.n_ps):
            unsent_of_ps = state.unsent_keys[ps]
            count = min(unsent_of_ps.count, lanes)
            if count:
                _add_call(state, ps, dim, unsent_of_ps.first, count)
                unsent_of_ps.first += count
                unsent_of_ps.count -= count
                has_more = True
    return end


@compiled
def _sort_by_ps(state: Requests, n_keys: int, dim: int, first: int) -> int:
    """Fill `order` and `unsent_keys` by a counting sort of the rows of one dim; return the end in `order`."""
    n_ps, has_one_dim = state.header.n_ps, state.header.dim != 0
    for ps in range(n_ps):
        state.unsent_keys[ps].count = 0
    for i in range(n_keys):
        if has_one_dim or dim_of(state, i) == dim:
            state.unsent_keys[ps_of(state.keys[i], n_ps)].count += 1
    for ps in range(n_ps):
        unsent_of_ps = state.unsent_keys[ps]
        unsent_of_ps.first = first
        first += unsent_of_ps.count
        unsent_of_ps.count = 0
    for i in range(n_keys):
        if has_one_dim or dim_of(state, i) == dim:
            unsent_of_ps = state.unsent_keys[ps_of(state.keys[i], n_ps)]
            state.order[unsent_of_ps.first + unsent_of_ps.count] = i
            unsent_of_ps.count += 1
    return first


@compiled
def _add_call(state: Requests, ps: int, dim: int, first: int, count: int) -> None:
    call = state.calls[state.header.n_calls]
    call.ps, call.dim, call.first, call.count = ps, dim, first, count
    state.header.n_calls += 1


@compiled
def transmit(state: Requests, now: int) -> int:
    header, s = state.header, next_resend(state)
    if s != NOTHING or header.first_unsent == header.n_calls or header.n_free == 0:
        return s
    c = header.first_unsent
    header.first_unsent += 1
    s = take_slot(state, c, now)
    slot = state.slots[s]
    slot.length = _encode(state, state.calls[c], state.sent[s], slot.seq, now)
    mark_in_flight(state, s)
    return s


@compiled
def _encode(state: Requests, call: PsCall, rpc: Rpc, seq: int, now: int) -> int:
    op, count, dim = state.header.op, call.count, call.dim
    # A push carries its number among the pushes to its table, which servers with optimisers need.
    iteration = state.header.push_number if op == PUSH else state.header.iteration
    epoch, live = state.header.epoch, (1 << count) - 1
    length = write_head(state, rpc, op, call, count, epoch, seq, live, iteration, now)
    for lane in range(count):
        rpc.keys[lane] = swap64(state.keys[state.order[call.first + lane]])
    # The deltas follow `count` keys of two words.
    is_scalar = state.header.dim == 1  # without loops over a row
    for lane in range(count if op == PUSH and is_scalar else 0):
        rpc.words[2 * count + lane] = swap32(int64(state.deltas[state.order[call.first + lane]]))
    for lane in range(count if op == PUSH and not is_scalar else 0):
        start = row_start(state, int64(state.order[call.first + lane]))
        copy_row(rpc.words, 2 * count + lane * dim, state.deltas, start, dim)
    return length


@compiled
def wake(state: Requests, now: int) -> None:
    if now >= state.header.due:
        retransmit(state, now)
        state.header.due = earliest_deadline(state)


@compiled
def receive(state: Requests, rpc: Rpc, length: int, arrival: int, read: int) -> int:
    header, h = state.header, decode(rpc)
    if not is_expected(state, rpc, h, length):
        return NOTHING
    if h.refused:  # expected 0, as every key is at its server
        header.unexpected += 1
        return NOTHING
    slot = state.slots[h.seq & SLOT_MASK]
    time_round_trip(state, slot, read)
    row = log_answer(state, slot, h, length, arrival, read)
    state.log[row].iteration = header.iteration
    call = state.calls[slot.call]
    for lane in range(call.count):
        i = int64(state.order[call.first + lane])
        if h.op == PULL:
            copy_row(state.values, row_start(state, i), rpc.words, lane * h.dim, h.dim)
        else:
            state.answered[i] = True
    header.pending -= 1 if h.op == EMPTY else call.count
    free_slot(state, slot)
    return row


WORKER = register_worker_ops(
    Requests,
    WorkerOps(
        start=start,
        transmit=transmit,
        octets=octets,
        peer=peer,
        wake=wake,
        deadline=earliest_deadline,
        receive=receive,
    ),
)
