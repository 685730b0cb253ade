"""Frames and the cables that they travel: bandwidth, propagation, a queue with drop tail and mark, faults."""

from __future__ import annotations

import numpy as np

from nativekit.compile import compiled, int64
from nativekit.libc import memcpy
from nativekit.records import Octets
from simulator.events import put_event
from simulator.state import Frame, Link, World
from softswitch.queues.fifo import WIRE_OVERHEAD

_TOS, _CHECKSUM = 15, 24
"""Places in a frame: of the byte with the ECN bits, and of IPv4's checksum."""


@compiled
def draw(world: World) -> float:
    """The next random number from 0 to below 1 (splitmix64)."""
    me = world.me
    me.random += np.uint64(0x9E3779B97F4A7C15)
    z = me.random
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * 2.0**-53


@compiled
def new_frame(world: World) -> int:
    """A frame that nobody has."""
    me = world.me
    me.free -= 1
    return int64(world.free[me.free])


@compiled
def free_frame(world: World, f: int) -> None:
    """Give a frame back."""
    me = world.me
    world.free[me.free] = f
    me.free += 1


@compiled
def put_aside(world: World, a: int, f: int) -> None:
    """Leave frame `f` to Python, which stands for host `a`, or for the controller."""
    me = world.me
    world.aside[me.aside, 0], world.aside[me.aside, 1] = a, f
    me.aside += 1


@compiled
def address_of(frame: Frame) -> int:
    """Where its bytes are."""
    return int64(frame.head.ctypes.data)


@compiled
def carry(world: World, link: Link, f: int, now: int, kind: int, who: int) -> None:
    """Put frame `f` into the queue of a link at `now`; it arrives as an event, if it does."""
    frame = world.frames[f]
    length = int64(frame.length)
    link.frames += 1
    link.bytes += length
    begins = max(int64(link.free_at), now)
    queued = 0 if link.ps_per_byte == 0 else (begins - now) * 1000 // int64(link.ps_per_byte)
    if queued + length > link.limit:
        link.dropped += 1
        link.dropped_bytes += length
        free_frame(world, f)
        return
    link.longest = max(int64(link.longest), queued + length)
    link.waited += begins - now
    if queued > link.mark and mark_congestion(frame.head):
        link.marked += 1
    leaves = begins + (length + WIRE_OVERHEAD) * int64(link.ps_per_byte) // 1000
    link.free_at = leaves
    link.carried += leaves - begins
    arrives = leaves + int64(link.delay)
    if link.down:
        _lose(world, link, f)
        return
    if link.impaired:
        if draw(world) < link.loss:
            _lose(world, link, f)
            return
        if draw(world) < link.duplication:
            other = new_frame(world)
            copy = world.frames[other]
            memcpy(address_of(copy), address_of(frame), length)
            copy.length = length
            link.doubled += 1
            link.doubled_bytes += length
            put_event(world, arrives, kind, who, other)
        if draw(world) < link.reordering:
            link.late += 1
            arrives += int64(draw(world) * link.late_ns)
    put_event(world, arrives, kind, who, f)


@compiled
def _lose(world: World, link: Link, f: int) -> None:
    link.lost += 1
    link.lost_bytes += world.frames[f].length
    free_frame(world, f)


@compiled
def mark_congestion(head: Octets) -> bool:
    """Set ECN's *congestion experienced* in a frame whose transport knows it (RFC 3168); whether it does."""
    bits = int64(head[_TOS]) & 3
    if bits == 0:
        return False
    if bits != 3:
        head[_TOS] |= 3
        # RFC 1624: HC' = ~(~HC + ~m + m') with m the word of the byte.
        old = int64(head[_TOS - 1]) << 8 | int64(head[_TOS]) & ~3 | bits
        new = int64(head[_TOS - 1]) << 8 | int64(head[_TOS])
        total = (~(int64(head[_CHECKSUM]) << 8 | int64(head[_CHECKSUM + 1])) & 0xFFFF) + (~old & 0xFFFF) + new
        total = (total & 0xFFFF) + (total >> 16)
        total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        head[_CHECKSUM], head[_CHECKSUM + 1] = total >> 8, total & 0xFF
    return True


@compiled
def finish_head(head: Octets, datagram: int) -> None:
    """Lengths and IPv4 checksum of a frame that carries so many bytes of UDP payload."""
    total = int64(0)
    head[16], head[17] = 28 + datagram >> 8, 28 + datagram & 0xFF
    head[_CHECKSUM] = head[_CHECKSUM + 1] = 0
    for k in range(14, 34, 2):
        total += int64(head[k]) << 8 | int64(head[k + 1])
    total = (total & 0xFFFF) + (total >> 16)
    total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    head[_CHECKSUM], head[_CHECKSUM + 1] = total >> 8, total & 0xFF
    head[38], head[39], head[40], head[41] = 8 + datagram >> 8, 8 + datagram & 0xFF, 0, 0


@compiled
def turn_round(head: Octets, request: Octets) -> None:
    """The head of an answer to a frame: addresses and ports change places."""
    for k in range(len(head)):
        head[k] = request[k]
    for k in range(6):
        head[k], head[6 + k] = request[6 + k], request[k]
    for k in range(4):
        head[26 + k], head[30 + k] = request[30 + k], request[26 + k]
    for k in range(2):
        head[34 + k], head[36 + k] = request[36 + k], request[34 + k]
