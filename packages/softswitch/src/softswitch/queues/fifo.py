"""Compiled functions that enqueue and dequeue packets; they read no clock and allocate nothing.

As in BMv2 (queueing.h, QueueingLogicPriRL) a packet's earliest departure is set on arrival, from the rate of
its priority; of the packets that may depart, the one of the highest priority leaves. A port with a rate in
bits is also a link, which each packet occupies for its time on the wire.
"""

from __future__ import annotations

from nativekit.compile import compiled
from softswitch.queues.state import NEVER, NONE, Queue, Queues

WIRE_OVERHEAD = 24
"""Bytes of preamble, checksum and inter-frame gap of a frame (IEEE 802.3)."""
# In names of variables, `p` is the index of a port, and `s` that of a slot.
_BYTE_NS = 8 * 10**9  # time of a byte at 1 bit/s, ns


@compiled
def put(queues: Queues, p: int, priority: int, length: int, now: int) -> int:
    """Enqueue a packet of `length` bytes; return its slot, or NONE if it was dropped, which is counted."""
    queue, pool = queues.queues[p, priority], queues.pool
    if queue.packets >= queue.max_packets or queue.bytes + length > queue.max_bytes:
        queue.dropped += 1
        return NONE
    s = pool.free
    slot = queues.slots[s]
    pool.free = slot.following
    slot.port, slot.priority, slot.length, slot.following = p, priority, length, NONE
    slot.enq_qdepth = queue.packets
    queue.last_due = max(now, queue.last_due + queue.gap)
    slot.due = queue.last_due
    if queue.packets:
        queues.slots[queue.last].following = s
    else:
        queue.first = s
    queue.last = s
    queue.packets += 1
    queue.bytes += length
    _schedule(queues, p)
    return s


@compiled
def next_departure(queues: Queues) -> int:
    """Return the earliest time at which a packet may depart, in ns; NEVER if none waits."""
    p = _earliest_port(queues)
    return NEVER if p == NONE else queues.ports[p].due


@compiled
def take(queues: Queues, now: int) -> int:
    """Dequeue the next packet that may depart; return its slot, unchanged until the next `put`, or NONE."""
    p = _earliest_port(queues)
    return NONE if p == NONE else take_from(queues, p, now)


@compiled
def take_from(queues: Queues, p: int, now: int) -> int:
    if queues.ports[p].due > now:
        return NONE
    for position in range(queues.queues.shape[1]):
        priority = queues.queues.shape[1] - 1 - position
        queue = queues.queues[p, priority]
        if queue.packets and queues.slots[queue.first].due <= now:
            s = _dequeue_first(queues, queue)
            slot, port = queues.slots[s], queues.ports[p]
            if port.bits_per_s:
                start_ns = max(port.free_at, slot.due)
                port.free_at = start_ns + wire_time(slot.length, port.bits_per_s)
            _schedule(queues, p)
            return s
    return NONE


@compiled
def suspend_departures(queues: Queues, p: int) -> None:
    queues.ports[p].suspended = 1
    _schedule(queues, p)


@compiled
def allow_departures(queues: Queues, p: int) -> None:
    queues.ports[p].suspended = 0
    _schedule(queues, p)


@compiled
def occupy(queues: Queues, p: int, until: int) -> None:
    """Let no packet depart before `until`, when the caller's link is free again."""
    queues.ports[p].free_at = until
    _schedule(queues, p)


@compiled
def clear(queues: Queues) -> None:
    for p in range(len(queues.ports)):
        for priority in range(queues.queues.shape[1]):
            queue = queues.queues[p, priority]
            while queue.packets:
                _dequeue_first(queues, queue)
                queue.dropped += 1
        _schedule(queues, p)


@compiled
def wire_time(length: int, bits_per_s: int) -> int:
    """Return the time in ns that a frame occupies a link, rounded up."""
    return -(-(length + WIRE_OVERHEAD) * _BYTE_NS // bits_per_s)


@compiled
def _dequeue_first(queues: Queues, queue: Queue) -> int:
    s, pool = queue.first, queues.pool
    slot = queues.slots[s]
    queue.first = slot.following
    queue.packets -= 1
    queue.bytes -= slot.length
    slot.deq_qdepth = queue.packets
    slot.following = pool.free
    pool.free = s
    return s


@compiled
def _schedule(queues: Queues, p: int) -> None:
    due: int = NEVER
    for priority in range(queues.queues.shape[1]):
        queue = queues.queues[p, priority]
        if queue.packets:
            due = min(due, queues.slots[queue.first].due)
    port = queues.ports[p]
    port.due = NEVER if due == NEVER or port.suspended else max(due, port.free_at)


@compiled
def _earliest_port(queues: Queues) -> int:
    port: int = NONE
    due: int = NEVER
    for p in range(len(queues.ports)):
        if queues.ports[p].due < due:
            port, due = p, queues.ports[p].due
    return port
