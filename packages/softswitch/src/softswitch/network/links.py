"""Frames and links: bandwidth, propagation delay, impairments and outages."""

from __future__ import annotations

from nativekit.compile import compiled, int64
from nativekit.libc import memcpy
from softswitch.network.chance import next_random
from softswitch.network.events import push_event
from softswitch.network.state import ABSENT, ARRIVES, CAPTURED, MAX_DEFERRED, TRACED, LinkState, NetworkState

_PICOSECONDS_PER_NS = 1000
_BITS_PER_BYTE = 8


@compiled
def new_frame(net: NetworkState, length: int, flow: int, sent: int) -> int:
    header = net.header
    header.free -= 1
    f = int64(net.free[header.free])
    frame = net.frames[f]
    frame.length, frame.flow, frame.sent = length, flow, sent
    return f


@compiled
def free_frame(net: NetworkState, f: int) -> None:
    header = net.header
    net.free[header.free] = f
    header.free += 1


@compiled
def address_of(net: NetworkState, f: int) -> int:
    return net.header.frames_at + f * net.header.frame_stride


@compiled
def copy_frame(net: NetworkState, f: int) -> int:
    frame = net.frames[f]
    g = new_frame(net, frame.length, frame.flow, frame.sent)
    memcpy(address_of(net, g), address_of(net, f), frame.length)
    return g


@compiled
def defer_to_python(net: NetworkState, kind: int, target: int, f: int) -> None:
    """Let Python have frame `f`; drop it if too many wait already, which `loop.run` prevents."""
    header = net.header
    if header.deferred == MAX_DEFERRED:
        free_frame(net, f)
        return
    deferred = net.deferred[header.deferred]
    deferred.kind, deferred.target, deferred.frame = kind, target, f
    header.deferred += 1


@compiled
def send(net: NetworkState, i: int, f: int, now: int) -> None:
    """Send frame `f` out of interface `i` at `now`, its link being free; its arrival becomes an event."""
    link = net.links[i]
    length = net.frames[f].length
    if link.is_captured and net.header.free:
        defer_to_python(net, CAPTURED, i, copy_frame(net, f))
    traced = net.header.traced
    if traced != ABSENT and net.frames[f].flow == traced and net.header.free:
        defer_to_python(net, TRACED, i, copy_frame(net, f))
    link.frames += 1
    link.bytes += length
    wire_bytes = length + link.overhead
    departure = now + wire_bytes * link.picoseconds_per_byte // _PICOSECONDS_PER_NS
    link.free_at = departure
    link.busy += departure - now
    arrival, peer = departure + link.delay, net.interfaces[i].peer
    if link.down_count:
        _lose(net, link, f)
        return
    if link.is_impaired:
        if next_random(net.header) < link.loss:
            _lose(net, link, f)
            return
        if next_random(net.header) < link.corruption:
            _corrupt(net, link, f)
        if next_random(net.header) < link.duplication and net.header.free:
            link.doubled += 1
            push_event(net, arrival, ARRIVES, peer, copy_frame(net, f))
        if next_random(net.header) < link.reordering:
            link.delayed += 1
            arrival += int64(next_random(net.header) * link.max_extra_delay)
    push_event(net, arrival, ARRIVES, peer, f)


@compiled
def _lose(net: NetworkState, link: LinkState, f: int) -> None:
    link.lost += 1
    free_frame(net, f)


@compiled
def _corrupt(net: NetworkState, link: LinkState, f: int) -> None:
    """Change one bit of a frame, drawn at random."""
    length = net.frames[f].length
    bit = int64(next_random(net.header) * (length * _BITS_PER_BYTE))
    net.octets[f, bit // _BITS_PER_BYTE] ^= 1 << bit % _BITS_PER_BYTE
    link.corrupted += 1


@compiled
def count_delivery(net: NetworkState, i: int, f: int) -> None:
    """Count frame `f`, which has arrived at interface `i`, for the link that it came over."""
    peer = net.interfaces[i].peer
    if peer != ABSENT:
        net.links[peer].delivered += 1
        net.links[peer].delivered_bytes += net.frames[f].length
