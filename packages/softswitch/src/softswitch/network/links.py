"""Frames and links: bandwidth, delay, a queue with a limit and ECN marks, impairments and outages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from nativekit.compile import carray, compiled, int64
from nativekit.generic import generics
from nativekit.libc import memcpy
from nativekit.memory import pointer
from nativekit.records import Octets
from softswitch.network.chance import next_random
from softswitch.network.events import push_event
from softswitch.network.state import (
    ABSENT,
    ARRIVES,
    CAPTURED,
    MAX_DEFERRED,
    TRACED,
    Fabric,
    LinkState,
    Medium,
)

_PICOSECONDS_PER_NS = 1000
_BITS_PER_BYTE = 8
_TOS, _CHECKSUM, _IPV4_END = 15, 24, 34
"""Offsets in a frame with IPv4: `_TOS` has the ECN bits, `_CHECKSUM` is the header's."""
_ECN_BITS = 3  # all of them set mean *congestion experienced*


class LinkHooks(NamedTuple):
    """Functions that the compiled engine calls in the form for the class of its state."""

    announce: Callable[[Any, int, int], None]
    """Prepare for frame `f`, which interface `i` is about to send: `announce(state, i, f)`."""


LINK_HOOKS = generics(LinkHooks)
announce = LINK_HOOKS.announce


@compiled
def new_frame(net: Medium, length: int, flow: int, sent: int) -> int:
    header = net.header
    header.free -= 1
    f = int64(net.free[header.free])
    frame = net.frames[f]
    frame.length, frame.flow, frame.sent = length, flow, sent
    return f


@compiled
def free_frame(net: Medium, f: int) -> None:
    header = net.header
    net.free[header.free] = f
    header.free += 1


@compiled
def address_of(net: Medium, f: int) -> int:
    return net.header.frames_at + f * net.header.frame_stride


@compiled
def copy_frame(net: Medium, f: int) -> int:
    frame = net.frames[f]
    g = new_frame(net, frame.length, frame.flow, frame.sent)
    memcpy(address_of(net, g), address_of(net, f), frame.length)
    return g


@compiled
def defer_to_python(net: Fabric, kind: int, target: int, f: int) -> None:
    """Let Python have frame `f`; drop it if too many wait already, which `loop.run` prevents."""
    header = net.header
    if header.deferred == MAX_DEFERRED:
        free_frame(net, f)
        return
    deferred = net.deferred[header.deferred]
    deferred.kind, deferred.target, deferred.frame = kind, target, f
    header.deferred += 1


@compiled
def send(net: Fabric, i: int, f: int, now: int) -> None:
    """Send frame `f` out of interface `i` at `now`; its arrival at the other end becomes an event.

    The link is free, or has a queue of its own.
    """
    link = net.links[i]
    if link.is_captured and net.header.free:
        defer_to_python(net, CAPTURED, i, copy_frame(net, f))
    traced = net.header.traced
    if traced != ABSENT and net.frames[f].flow == traced and net.header.free:
        defer_to_python(net, TRACED, i, copy_frame(net, f))
    announce(net, i, f)
    send_over(net, link, f, now, ARRIVES, net.interfaces[i].peer)


@compiled
def send_over(net: Medium, link: LinkState, f: int, now: int, kind: int, target: int) -> None:
    """Send frame `f` over a link at `now`; unless it is dropped or lost, its arrival becomes an event."""
    length = net.frames[f].length
    link.frames += 1
    link.bytes += length
    begin, per_byte = now, link.picoseconds_per_byte
    if link.limit:
        begin = max(link.free_at, now)
        queued_bytes = 0 if per_byte == 0 else (begin - now) * _PICOSECONDS_PER_NS // per_byte
        if queued_bytes + length > link.limit:
            link.dropped += 1
            link.dropped_bytes += length
            free_frame(net, f)
            return
        link.longest_queue = max(link.longest_queue, queued_bytes + length)
        link.waited += begin - now
        if queued_bytes > link.ecn_threshold and mark_congestion(octets_at(address_of(net, f), _IPV4_END)):
            link.marked += 1
    departure = begin + (length + link.overhead) * per_byte // _PICOSECONDS_PER_NS
    link.free_at = departure
    link.busy += departure - begin
    arrival = departure + link.delay
    if link.down_count:
        _lose(net, link, f)
        return
    if link.is_impaired:
        if next_random(net.header) < link.loss:
            _lose(net, link, f)
            return
        if link.corruption and next_random(net.header) < link.corruption:
            _corrupt(net, link, f)
        if next_random(net.header) < link.duplication and net.header.free:
            link.doubled += 1
            link.doubled_bytes += length
            push_event(net, arrival, kind, target, copy_frame(net, f))
        if next_random(net.header) < link.reordering:
            link.delayed += 1
            arrival += int64(next_random(net.header) * link.max_extra_delay)
    push_event(net, arrival, kind, target, f)


@compiled
def _lose(net: Medium, link: LinkState, f: int) -> None:
    link.lost += 1
    link.lost_bytes += net.frames[f].length
    free_frame(net, f)


@compiled
def _corrupt(net: Medium, link: LinkState, f: int) -> None:
    """Change one bit of a frame, drawn at random."""
    length = net.frames[f].length
    bit = int64(next_random(net.header) * (length * _BITS_PER_BYTE))
    octets_at(address_of(net, f), length)[bit // _BITS_PER_BYTE] ^= 1 << bit % _BITS_PER_BYTE
    link.corrupted += 1


@compiled
def octets_at(address: int, length: int) -> Octets:
    octets: Octets = carray(pointer(address), length, np.uint8)
    return octets


@compiled
def mark_congestion(head: Octets) -> bool:
    """Set ECN's *congestion experienced*; return False if the packet is not ECN-capable (RFC 3168)."""
    ecn_bits = int64(head[_TOS]) & _ECN_BITS
    if ecn_bits == 0:
        return False
    if ecn_bits != _ECN_BITS:
        head[_TOS] |= _ECN_BITS
        # RFC 1624: HC' = ~(~HC + ~m + m') where m is the 16-bit word that contains the ECN bits.
        old = int64(head[_TOS - 1]) << 8 | int64(head[_TOS]) & ~_ECN_BITS | ecn_bits
        new = int64(head[_TOS - 1]) << 8 | int64(head[_TOS])
        total = (~(int64(head[_CHECKSUM]) << 8 | int64(head[_CHECKSUM + 1])) & 0xFFFF) + (~old & 0xFFFF) + new
        store_checksum(head, total)
    return True


@compiled
def store_checksum(head: Octets, total: int) -> None:
    """Write the checksum of an IPv4 header whose 16-bit words have the sum `total`."""
    total = (total & 0xFFFF) + (total >> 16)
    total = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    head[_CHECKSUM], head[_CHECKSUM + 1] = total >> 8, total & 0xFF


@compiled
def count_delivery(net: Fabric, i: int, f: int) -> None:
    """Count frame `f`, which has arrived at interface `i`, for the link that it came over."""
    peer = net.interfaces[i].peer
    if peer != ABSENT:
        net.links[peer].delivered += 1
        net.links[peer].delivered_bytes += net.frames[f].length
