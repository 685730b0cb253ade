"""Rings of all-reduces on virtual time's links: every frame of every step, on the way from host to host.

Each host sends a part of a buffer to the next one, and what it has got, summed up, goes on in the next
step. Steps that are due share a host's link frame by frame, in turn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from nativekit.compile import compiled, int64
from nativekit.records import record
from simulator.events import drop_event, put_event
from simulator.links import carry, free_frame, new_frame
from simulator.state import HEAD_BYTES
from studies.dense.compile import entry_point

DUE, FREE, AT_SWITCH, AT_HOST, READY = range(5)
"""Events: a step may be sent; a link is free; a frame is at the switch, at a host; a buffer is ready."""
WIRE_FRAME = record(("head", np.uint8, (HEAD_BYTES,)), "length", "buffer")


class Wires(NamedTuple):
    """n hosts at one switch, b buffers, up to f frames; ns. The first four are as links want them."""

    me: Any
    heap: Any
    frames: Any
    """WIRE_FRAME[f]"""
    free: Any
    up: Any
    """LINK[n]"""
    down: Any
    """LINK[n]"""
    ready: Any
    """int64[b]: when each host has a buffer's gradients."""
    parts: Any
    """int64[b]: bytes of what is sent in a step."""
    add: Any
    """int64[b]: to add one part."""
    due: Any
    """int64[b, n]: frames that each host may have sent."""
    sent: Any
    """int64[b, n]: frames that it has."""
    got: Any
    """int64[b, n]: frames that it has received."""
    starts: Any
    """int64[b, n]"""
    ends: Any
    """int64[b, n]"""
    begun: Any
    """int64[n]: buffers that each host has begun; the first so many."""
    under_way: Any
    """int64[n]"""
    busy: Any
    """int64[n]: whether its link is."""
    turn: Any
    """int64[n]: the buffer that was sent of last."""


@entry_point
def run_rings(wires: Any, payload: int, startup: int, at_once: int) -> None:
    """Until all is done. A step's `startup` is before each of its messages."""
    me, heap = wires.me, wires.heap
    for b in range(len(wires.ready)):
        for h in range(len(wires.up)):
            put_event(wires, int64(wires.ready[b]), READY, h, b)
    while me.events:
        now, kind = int64(heap[0].time), int64(heap[0].kind)
        h, f = int64(heap[0].who), int64(heap[0].frame)
        drop_event(wires)
        if kind == READY:
            _begin(wires, h, now, startup, at_once)
        elif kind == DUE:
            wires.due[f, h] += _frames(wires, f, payload)
            if not wires.busy[h]:
                _send(wires, h, now, payload)
        elif kind == FREE:
            _send(wires, h, now, payload)
        elif kind == AT_SWITCH:
            to = (h + 1) % len(wires.up)
            carry(wires, wires.down[to], f, now, AT_HOST, to)
        else:
            b = int64(wires.frames[f].buffer)
            free_frame(wires, f)
            _receive(wires, b, h, now, payload, startup, at_once)


@compiled
def _frames(wires: Any, b: int, payload: int) -> int:
    """Of a step's message."""
    return (int64(wires.parts[b]) + payload - 1) // payload


@compiled
def _begin(wires: Any, h: int, now: int, startup: int, at_once: int) -> None:
    """Begin what is ready, in order, as far as there is room."""
    while wires.under_way[h] < at_once and wires.begun[h] < len(wires.ready):
        b = int64(wires.begun[h])
        if wires.ready[b] > now:
            return
        wires.begun[h] += 1
        wires.under_way[h] += 1
        wires.starts[b, h] = now
        put_event(wires, now + startup, DUE, h, b)


@compiled
def _send(wires: Any, h: int, now: int, payload: int) -> None:
    """A frame of the next buffer in turn that has any to send; the link is free."""
    count = len(wires.ready)
    wires.busy[h] = 0
    b = int64(wires.turn[h])
    for _ in range(count):
        b = (b + 1) % count
        if wires.sent[b, h] < wires.due[b, h]:
            break
    if wires.sent[b, h] >= wires.due[b, h]:
        return
    wires.turn[h] = b
    each = _frames(wires, b, payload)
    last = wires.sent[b, h] % each == each - 1
    wires.sent[b, h] += 1
    f = new_frame(wires)
    frame = wires.frames[f]
    frame.length = HEAD_BYTES + (int64(wires.parts[b]) - (each - 1) * payload if last else payload)
    frame.buffer = b
    carry(wires, wires.up[h], f, now, AT_SWITCH, h)
    wires.busy[h] = 1
    put_event(wires, int64(wires.up[h].free_at), FREE, h, 0)


@compiled
def _receive(wires: Any, b: int, h: int, now: int, payload: int, startup: int, at_once: int) -> None:
    """A frame of a buffer: the last of a step lets the next one go, and the last of all ends the buffer."""
    hosts = len(wires.up)
    wires.got[b, h] += 1
    each = _frames(wires, b, payload)
    if wires.got[b, h] % each:
        return
    steps = wires.got[b, h] // each
    added = int64(wires.add[b]) if steps <= hosts - 1 else int64(0)
    if steps < 2 * (hosts - 1):
        put_event(wires, now + added + startup, DUE, h, b)
        return
    wires.ends[b, h] = now
    wires.under_way[h] -= 1
    _begin(wires, h, now, startup, at_once)
