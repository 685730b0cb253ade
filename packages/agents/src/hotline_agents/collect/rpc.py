"""The server's RPC handler: that of `hotset`, with replays, SET pushes and answers to collections."""

from __future__ import annotations

from foundation.protocol.header import COLLECTOR_BASE, HEADER_BYTES, REPLAY, SET, SLOT_MASK, VERSION, Header
from foundation.protocol.rpc import PULL, PUSH, Rpc, decode
from hotline_agents.collect.collector import receive
from hotline_agents.collect.exchanges import exchange_of, first_exchange, mark_changed
from hotline_agents.collect.schedule import place_of_cell
from hotline_agents.collect.state import GIVEN, CollectServer
from hotline_agents.hotset.ps.rpc import handle as handle_request
from hotline_agents.interface import NO_REPLY, NOTHING
from hotline_agents.ps.journal import append_note
from hotline_agents.ps.rpcs import NEW, STALE, admit, find_job, is_number_of, record_result, write_answer
from hotline_agents.ps.share import HEAD_CELLS
from hotline_agents.ps.values import NOT_OWNED, UPDATE_COUNT_MASK, lanes_to_serve, locate_lanes
from nativekit.bits import popcount, swap32
from nativekit.compile import compiled, int64


@compiled
def handle(server: CollectServer, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    if length < HEADER_BYTES or rpc.version != VERSION:
        return handle_request(server, rpc, length, arrival, answer)
    h = decode(rpc)
    if h.worker == COLLECTOR_BASE + h.ps and is_number_of(server, h.ps):
        receive(server, rpc, h, length, arrival)
        return NO_REPLY
    j = find_job(server, h.job)
    is_known = j >= 0 and is_number_of(server, h.ps) and h.count <= len(server.header.cell_indices)
    if h.op == PUSH and h.flags & REPLAY:
        return take_replay(server, rpc, h, length, arrival, answer)
    if h.op == PUSH and h.flags & SET and is_known:
        return set_words(server, j, rpc, h, length, arrival, answer)
    opened_lanes = int64(0)
    if server.header.last_home and is_known and (h.op == PULL or h.op == PUSH):
        opened_lanes = open_lanes(server, j, rpc, h, exchange_of(server, j, h.ps))
    reply_length = handle_request(server, rpc, length, arrival, answer)
    if opened_lanes:
        close_lanes(server, j, rpc, h, opened_lanes)
    if h.op == PUSH and reply_length > 0:
        collector = server.collectors[first_exchange(server, j)]
        collector.step = max(collector.step, h.iteration + 1)
    return reply_length


@compiled
def open_lanes(server: CollectServer, j: int, rpc: Rpc, h: Header, e: int) -> int:
    """Have the handler serve rows that homes have, but not the home of exchange `e`; NOTHING: all such rows.

    Return the bitmap of these lanes, for `close_lanes`. The handler serves only rows that no home has.
    """
    lanes, opened_lanes = lanes_to_serve(h), 0
    locate_lanes(server, h, rpc, lanes)
    for lane in range(h.count):
        row = int64(server.header.cell_indices[lane])
        is_in_share = row < server.share.header.outside_cell
        if is_in_share and server.cells[j, row].word >= NOT_OWNED and not is_given(server, e, row):
            server.cells[j, row].word &= UPDATE_COUNT_MASK  # NOT_OWNED is the top bit of `updates`
            opened_lanes |= 1 << lane
    return opened_lanes


@compiled
def is_given(server: CollectServer, e: int, row: int) -> bool:
    """Return whether the home of an exchange has a row; NOTHING is the exchange of no home."""
    return e != NOTHING and bool(int64(server.copies[e, place_of_cell(server, row)].marks) & GIVEN)


@compiled
def close_lanes(server: CollectServer, j: int, rpc: Rpc, h: Header, opened_lanes: int) -> None:
    """Have the handler refuse the rows of lanes again, after it may have changed them."""
    locate_lanes(server, h, rpc, opened_lanes)
    for lane in range(h.count):
        if opened_lanes >> lane & 1:
            row = int64(server.header.cell_indices[lane])
            server.cells[j, row].word |= NOT_OWNED
            if h.op == PUSH:
                mark_changed(server, j, place_of_cell(server, row))


@compiled
def take_replay(server: CollectServer, rpc: Rpc, h: Header, length: int, arrival: int, answer: Rpc) -> int:
    """Store a worker's replayed updates until all workers have replayed (`Command.SETTLE`)."""
    j, c, request_kind = admit(server, h, length, arrival)
    if request_kind == STALE:
        return NO_REPLY
    added_lanes = int64(server.callers[c].added[h.seq & SLOT_MASK])
    if request_kind == NEW:
        added_lanes = add_unsettled(server, j, h, rpc)
        record_result(server, j, c, h, added_lanes, lanes_to_serve(h) & ~added_lanes)
        if server.header.is_durable:
            append_note(server, rpc, length)
    return write_answer(answer, rpc, h, lanes_to_serve(h) & ~added_lanes)


@compiled
def add_unsettled(server: CollectServer, j: int, h: Header, rpc: Rpc) -> int:
    """Add replayed updates to the unsettled sums; return the bitmap of lanes whose keys belong to this PS."""
    lanes, added_lanes, e = lanes_to_serve(h), 0, exchange_of(server, j, h.ps)
    locate_lanes(server, h, rpc, lanes)  # sets `header.cell_indices`
    for lane in range(h.count):
        row = int64(server.header.cell_indices[lane])
        if lanes >> lane & 1 and row < server.share.header.outside_cell:
            # The values follow `count` keys of two words.
            for v in range(h.dim):
                units = swap32(rpc.words[2 * h.count + lane * h.dim + v])
                server.unsettled[e, row + HEAD_CELLS + v] += units
            added_lanes |= 1 << lane
    server.jobs[j].applied_lanes += popcount(added_lanes)
    return added_lanes


@compiled
def set_words(
    server: CollectServer, j: int, rpc: Rpc, h: Header, length: int, arrival: int, answer: Rpc
) -> int:
    """Set values or words of optimiser state; the next collections of keys in the switch publish them."""
    opened_lanes = open_lanes(server, j, rpc, h, NOTHING)
    reply_length = handle_request(server, rpc, length, arrival, answer)
    close_lanes(server, j, rpc, h, opened_lanes)
    return reply_length
