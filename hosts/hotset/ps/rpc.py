"""A parameter server as a state machine without I/O: a datagram in, its answer out.

Exactly once: a caller reuses a slot only after its RPC was answered, so the last turn of each slot, and the
lanes added in it, is all there is to remember. An RPC that the switch has served in part arrives with those
lanes marked.

A caller whose switch is gone comes back with another epoch and asks what has become of a push that was not
answered: an EMPTY with the push's `seq` as `iteration` and its epoch as `t0`. The answer's `refused` are the
lanes that were not added, and never will be.
"""

from __future__ import annotations

from designs.interface import COMMAND, SILENT
from hosts.hotset.ps.state import AWAY, Server
from hosts.ps.journal import FROM_WORKER, note
from hosts.ps.rpcs import find_caller, find_job, foreign, note_contact, write_answer
from hosts.ps.share import locate
from native.compile import compiled, int64
from native.words import ones, swap32, swap64
from protocol.header import HEADER_BYTES, RESPONSE, SLOT_MASK, VALUES, WINDOW_BITS, Header
from protocol.rpc import ALL, CONTROL, EMPTY, PULL, PUSH, Rpc, decode, well_formed


@compiled
def handle(server: Server, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    """Answer a datagram that the kernel received at `arrival` (ns).

    Returns the answer's length, SILENT when there is nothing to say, COMMAND for the controller's, or FOREIGN
    for one of another version of the wire, the first times."""
    me, mark = server.me, foreign(server, rpc, length)
    if mark <= 0:
        return mark
    if length >= HEADER_BYTES and rpc.op == CONTROL:
        return COMMAND
    h = decode(rpc)
    if length < HEADER_BYTES or not well_formed(h, length):
        me.malformed += 1
        return SILENT
    j = find_job(server, h.job)
    if j < 0 or h.ps != me.ps or h.flags & RESPONSE:
        me.misdirected += 1
        return SILENT
    job, caller = server.jobs[j], server.callers[find_caller(server, h.job, h.worker, h.epoch)]
    job.packets += 1
    job.bytes += length
    note_contact(server, arrival, h)
    slot, turn = h.seq & SLOT_MASK, h.seq >> WINDOW_BITS
    last = int64(caller.turns[slot])
    if turn < last or turn == 0:
        job.stale += 1
        return SILENT
    is_new = turn > last
    if is_new:
        job.rpcs += 1
    else:
        job.duplicates += 1
    job.in_burst += 1

    refused, added = int64(0), int64(0)
    if h.op == PULL:
        refused = pull(server, j, h, rpc, answer)
    elif h.op == PUSH:
        added = push(server, j, h, rpc) if is_new else int64(caller.added[slot])
        refused = h.live & ~h.served & ~added
    elif h.op == EMPTY and h.iteration:
        refused = ALL & ~close(server, h)
    if is_new:
        caller.turns[slot] = turn
        caller.added[slot] = added
        job.refused_lanes += ones(refused & h.live)
    if me.is_durable and ((is_new and h.op == PUSH) or (h.op == EMPTY and h.iteration)):
        note(server, FROM_WORKER, rpc, length)
    return write_answer(answer, rpc, h, refused)


@compiled
def close(server: Server, h: Header) -> int:
    """The lanes that were added of the push that an EMPTY asks about; no copy of it will add any more."""
    earlier = server.callers[find_caller(server, h.job, h.worker, h.t0 & ALL)]
    slot, turn = h.iteration & SLOT_MASK, h.iteration >> WINDOW_BITS
    if earlier.turns[slot] < turn:
        earlier.turns[slot] = turn
        earlier.added[slot] = 0
    return int64(earlier.added[slot]) if earlier.turns[slot] == turn else int64(0)


@compiled
def lanes_to_serve(h: Header) -> int:
    """Bitmap of the lanes that the switch has left to the PS."""
    return h.live & ~h.served


@compiled
def locate_lanes(server: Server, rpc: Rpc, count: int, wanted: int) -> None:
    """Places of the wanted lanes' keys to `me.at`: all look-ups first, so that memory fetches side by side.

    Keys of other shares are nobody's here, as is what is not wanted, and so are refused.
    """
    at, nobodys = server.me.at, int64(server.share.me.places)
    for lane in range(count):
        at[lane] = locate(server.share, swap64(rpc.keys[lane])) if wanted >> lane & 1 else nobodys


@compiled
def pull(server: Server, j: int, h: Header, rpc: Rpc, answer: Rpc) -> int:
    """Write all values, the switch's for the lanes that it served; returns the lanes refused."""
    brought = h.served if h.flags & VALUES else int64(0)
    refused = int64(0)
    locate_lanes(server, rpc, h.count, ~brought)
    for lane in range(h.count):
        if brought >> lane & 1:
            answer.words[lane] = rpc.words[2 * h.count + lane]
        else:
            cell = server.cells[j, server.me.at[lane]]
            answer.words[lane] = swap32(cell.value)
            if cell.updates >= AWAY:
                refused |= 1 << lane
    return refused & lanes_to_serve(h)


@compiled
def push(server: Server, j: int, h: Header, rpc: Rpc) -> int:
    """Add what is this PS's; returns the lanes added."""
    wanted, added, overflow = lanes_to_serve(h), int64(0), int64(0)
    locate_lanes(server, rpc, h.count, wanted)
    for lane in range(h.count):
        cell = server.cells[j, server.me.at[lane]]
        if cell.updates < AWAY:
            held, delta = int64(cell.value), swap32(rpc.words[2 * h.count + lane])
            total = held + delta & ALL
            overflow |= (held ^ total) & (delta ^ total)
            cell.value = total
            cell.updates += 1
            added |= 1 << lane
    server.jobs[j].applied_lanes += ones(added)
    server.jobs[j].overflows += overflow >> 31
    return added
