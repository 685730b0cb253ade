"""A parameter server as a state machine without I/O: a datagram in, its answer out.

Exactly once: a caller reuses a slot only after its RPC was answered, so the last turn of each slot, and the
lanes added in it, is all there is to remember. An RPC that the switch has served in part arrives with those
lanes marked.

A caller whose switch is gone comes back with another epoch and asks what has become of a push that was not
answered: an EMPTY with the push's `seq` as `iteration` and its epoch as `t0`. The answer's `refused` are the
lanes that were not added, and never will be.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hosts.ps.journal import FROM_WORKER, note
from hosts.ps.share import locate
from hosts.ps.state import AWAY, Server, find_caller, find_job, needs_room
from native.compile import compiled, entry_point, int64
from native.libc import memcpy
from native.reference import borrowed
from native.words import ones, swap16, swap32, swap64
from protocol.header import (
    HEADER_BYTES,
    RESPONSE,
    SLOT_MASK,
    VALUE_BYTES,
    VALUES,
    VERSION,
    WINDOW_BITS,
    Header,
)
from protocol.rpc import ALL, CONTROL, EMPTY, PULL, PUSH, Rpc, decode, well_formed

NOTHING = 0
IS_CONTROL, IS_FOREIGN = -1, -2
_FOREIGN_TOLD = 8
"""Datagrams of other versions that somebody is told of; so that they do not take all the time."""


@compiled
def handle(server: Server, rpc: Rpc, length: int, arrival: int, answer: Rpc) -> int:
    """Answer a datagram that the kernel received at `arrival` (ns).

    Returns the answer's length, NOTHING when there is nothing to say, IS_CONTROL for the controller's, or
    IS_FOREIGN for one of another version of the wire, the first times.
    """
    me = server.me
    if length >= HEADER_BYTES and rpc.version != VERSION:
        me.malformed += 1
        me.foreign += 1
        return IS_FOREIGN if me.foreign <= _FOREIGN_TOLD else NOTHING
    if length >= HEADER_BYTES and rpc.op == CONTROL:
        return IS_CONTROL
    h = decode(rpc)
    if length < HEADER_BYTES or not well_formed(h, length):
        me.malformed += 1
        return NOTHING
    j = find_job(server, h.job)
    if j < 0 or h.ps != me.ps or h.flags & RESPONSE:
        me.misdirected += 1
        return NOTHING
    job, caller = server.jobs[j], server.callers[find_caller(server, h.job, h.worker, h.epoch)]
    job.packets += 1
    job.bytes += length
    note_contact(server, arrival, h)
    slot, turn = h.seq & SLOT_MASK, h.seq >> WINDOW_BITS
    last = int64(caller.turns[slot])
    if turn < last or turn == 0:
        job.stale += 1
        return NOTHING
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
def note_contact(server: Server, arrival: int, h: Header) -> None:
    """Add a request to the connection log."""
    contact = server.contacts[server.me.contacts]
    contact.arrival, contact.worker, contact.job = arrival, h.worker, h.job
    server.me.contacts += 1


@compiled
def lanes_to_serve(h: Header) -> int:
    """Bitmap of the lanes that the switch has left to the PS."""
    return h.live & ~h.served


@compiled
def lanes_left(rpc: Rpc) -> int:
    """How many lanes of a request these are."""
    return int64(ones(int64(rpc.live) & ~int64(rpc.served)))


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


@compiled
def write_answer(answer: Rpc, rpc: Rpc, h: Header, refused: int) -> int:
    """The answer but for the two times; returns its length."""
    flags = RESPONSE | VALUES if h.op == PULL else RESPONSE
    answer.version, answer.op, answer.flag_bits = rpc.version, rpc.op, swap16(flags)
    answer.job, answer.worker, answer.epoch, answer.ps = rpc.job, rpc.worker, rpc.epoch, rpc.ps
    answer.count, answer.reserved, answer.seq, answer.iteration = rpc.count, 0, rpc.seq, rpc.iteration
    answer.live, answer.served, answer.refused = rpc.live, rpc.served, swap32(refused)
    answer.t0, answer.residence = rpc.t0, rpc.residence
    return HEADER_BYTES + VALUE_BYTES * h.count if h.op == PULL else HEADER_BYTES


@compiled
def stamp(server: Server, answer: Rpc, ps_proc: int, ps_queue: int) -> None:
    """Write the PS's two latencies (ns) into an answer, and add the first to what its job has cost."""
    answer.ps_proc, answer.ps_queue = swap32(min(ps_proc, ALL)), swap32(min(max(ps_queue, 0), ALL))
    server.jobs[find_job(server, swap16(answer.job))].proc_wall_ns += ps_proc


@entry_point
def handle_one(server: Server, rpcs: Any, length: int, arrival: int) -> int:
    """`handle` the datagram in rpcs[0], the answer to rpcs[1]."""
    server = borrowed(server)
    return handle(server, rpcs[0], length, arrival, rpcs[1])


@entry_point
def take_in(server: Server, rpcs: Any, notes: Any, done: Any) -> None:
    """Handle again what workers have sent, up to another's note, or until there is no room.

    `done` has the place in the notes, and how many have been taken in.
    """
    server = borrowed(server)
    while done[0] < len(notes) and not needs_room(server, 1):
        at = int64(done[0])
        head = notes[at : at + 16].view(np.int64)
        if head[0] != FROM_WORKER:
            return
        length = int64(head[1])
        memcpy(int64(rpcs.ctypes.data), int64(notes.ctypes.data) + at + 16, length)
        handle(server, rpcs[0], length, 0, rpcs[1])
        done[0] = at + 16 + (length + 7 & ~7)
        done[1] += 1


@entry_point
def stamp_one(server: Server, rpcs: Any, ps_proc: int, ps_queue: int) -> None:
    """`stamp` the answer in rpcs[1]."""
    stamp(borrowed(server), rpcs[1], ps_proc, ps_queue)
