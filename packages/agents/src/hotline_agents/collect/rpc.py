"""The server's RPC handler: that of `hotset`, with replays, SET pushes and answers to collections."""

from __future__ import annotations

from foundation.protocol.header import COLLECTOR_BASE, HEADER_BYTES, REPLAY, SET, SLOT_MASK, VERSION, Header
from foundation.protocol.rpc import PUSH, Rpc, decode
from hotline_agents.collect.collector import receive
from hotline_agents.collect.schedule import place_of_cell
from hotline_agents.collect.state import CHANGED, CollectServer
from hotline_agents.hotset.ps.rpc import handle as handle_request
from hotline_agents.interface import NO_REPLY
from hotline_agents.ps.journal import append_note
from hotline_agents.ps.rpcs import NEW, STALE, admit, find_job, record_result, write_answer
from hotline_agents.ps.share import HEAD_CELLS
from hotline_agents.ps.values import NOT_OWNED, UPDATE_COUNT_MASK, lanes_to_serve, locate_lanes
from nativekit.bits import popcount, swap32
from nativekit.compile import compiled, int64


@compiled
def handle(server: CollectServer, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    if length < HEADER_BYTES or rpc.version != VERSION:
        return handle_request(server, rpc, length, arrival, answer)
    h = decode(rpc)
    if h.worker == COLLECTOR_BASE + server.header.ps:
        receive(server, rpc, h, length, arrival)
        return NO_REPLY
    if h.op != PUSH:
        return handle_request(server, rpc, length, arrival, answer)
    if h.flags & REPLAY:
        return take_replay(server, rpc, h, length, arrival, answer)
    if h.flags & SET:
        return set_words(server, rpc, h, length, arrival, answer)
    reply_length = handle_request(server, rpc, length, arrival, answer)
    if reply_length > 0:
        collector = server.collectors[find_job(server, h.job)]
        collector.step = max(collector.step, h.iteration + 1)
    return reply_length


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
    lanes, added_lanes = lanes_to_serve(h), 0
    locate_lanes(server, h, rpc, lanes)  # sets `header.cell_indices`
    for lane in range(h.count):
        row = int64(server.header.cell_indices[lane])
        if lanes >> lane & 1 and row < server.share.header.outside_cell:
            # The values follow `count` keys of two words.
            for v in range(h.dim):
                units = swap32(rpc.words[2 * h.count + lane * h.dim + v])
                server.unsettled[j, row + HEAD_CELLS + v] += units
            added_lanes |= 1 << lane
    server.jobs[j].applied_lanes += popcount(added_lanes)
    return added_lanes


@compiled
def set_words(server: CollectServer, rpc: Rpc, h: Header, length: int, arrival: int, answer: Rpc) -> int:
    """Set values or words of optimiser state; the next collections of keys in the switch publish them."""
    j, lanes_in_switch = find_job(server, h.job), 0
    if j < 0 or h.count > len(server.header.cell_indices):  # the handler counts it, and does not answer
        return handle_request(server, rpc, length, arrival, answer)
    locate_lanes(server, h, rpc, lanes_to_serve(h))
    outside_cell = server.share.header.outside_cell
    # The handler sets only keys that this PS owns, so keys in the switch are marked as owned meanwhile:
    # NOT_OWNED is the top bit of `updates`.
    for lane in range(h.count):
        row = int64(server.header.cell_indices[lane])
        if row < outside_cell and server.cells[j, row].word >= NOT_OWNED:
            server.cells[j, row].word &= UPDATE_COUNT_MASK
            lanes_in_switch |= 1 << lane
    reply_length = handle_request(server, rpc, length, arrival, answer)
    for lane in range(h.count):
        if lanes_in_switch >> lane & 1:
            row = int64(server.header.cell_indices[lane])
            server.cells[j, row].word |= NOT_OWNED
            copy = server.copies[j, place_of_cell(server, row)]
            copy.marks = copy.marks | CHANGED
    return reply_length
