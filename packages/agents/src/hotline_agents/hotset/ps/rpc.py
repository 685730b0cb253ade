"""The server's handling of an RPC: a datagram in, its answer out, without I/O.

Exactly once: a caller reuses a slot only after its RPC was answered, so the server stores only the last turn
of each slot and the lanes added in it. An RPC that the switch has served in part arrives with the served
lanes marked.

A caller whose switch was lost continues with another epoch, and asks about each push that was not answered,
by an EMPTY with the `seq` of the push as `iteration` and its epoch as `t0`. The answer's `refused` are the
lanes that were not added, and never will be.
"""

from __future__ import annotations

from foundation.protocol.header import HEADER_BYTES, SLOT_MASK, WINDOW_BITS, Header
from foundation.protocol.rpc import ALL_LANES, CONTROL, EMPTY, PULL, PUSH, Rpc, decode
from hotline_agents.hotset.ps.state import OffloadingState
from hotline_agents.interface import COMMAND, NO_REPLY, NOTHING
from hotline_agents.ps.journal import append_note
from hotline_agents.ps.rpcs import (
    NEW,
    SAME_VERSION,
    STALE,
    admit,
    caller_of,
    check_version,
    find_caller,
    record_result,
    write_answer,
)
from hotline_agents.ps.values import lanes_to_serve, pull, push
from nativekit.compile import compiled, int64


@compiled
def handle(server: OffloadingState, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    header, status = server.header, check_version(server, rpc, length)
    if status != SAME_VERSION:
        return status
    if length >= HEADER_BYTES and rpc.op == CONTROL:
        return COMMAND
    h = decode(rpc)
    j, c, request_kind = admit(server, h, length, arrival)
    if request_kind == STALE:
        return NO_REPLY
    slot, caller, is_new = h.seq & SLOT_MASK, server.callers[c], request_kind == NEW
    refused_lanes, added_lanes = int64(0), int64(0)
    if h.op == PULL:
        refused_lanes = pull(server, j, h, rpc, answer)
    elif h.op == PUSH:
        added_lanes = push(server, j, h, rpc) if is_new else int64(caller.added[slot])
        refused_lanes = lanes_to_serve(h) & ~added_lanes
    elif h.op == EMPTY and h.iteration:
        previous = find_previous_caller(server, h)
        if previous == NOTHING:
            server.jobs[j].stale += 1
            return NO_REPLY
        refused_lanes = ALL_LANES & ~close_turn(server, h, previous)
    if is_new:
        record_result(server, j, c, h, added_lanes, refused_lanes)
    if header.is_durable and ((is_new and h.op == PUSH) or (h.op == EMPTY and h.iteration)):
        append_note(server, rpc, length)
    return write_answer(answer, rpc, h, refused_lanes)


@compiled
def find_previous_caller(server: OffloadingState, h: Header) -> int:
    """Return the index of the row of the epoch that is asked about; NOTHING unless that epoch is earlier."""
    return find_caller(server, h.job, caller_of(h), h.t0) if 0 <= h.t0 < h.epoch else NOTHING


@compiled
def close_turn(server: OffloadingState, h: Header, previous: int) -> int:
    previous_caller = server.callers[previous]
    slot, turn = h.iteration & SLOT_MASK, h.iteration >> WINDOW_BITS
    # If the push comes after this query, it is a duplicate, and none of its lanes is added.
    if previous_caller.turns[slot] < turn:
        previous_caller.turns[slot] = turn
        previous_caller.added[slot] = 0
    return int64(previous_caller.added[slot]) if previous_caller.turns[slot] == turn else 0
