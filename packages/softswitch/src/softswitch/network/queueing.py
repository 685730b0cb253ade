"""Queues before links: each interface has one for each priority, and the frame on the wire is in none."""

from __future__ import annotations

from nativekit.compile import compiled, int64
from softswitch.network.events import push_event
from softswitch.network.links import free_frame, send
from softswitch.network.state import ABSENT, DEPARTS, Fabric
from softswitch.queues.fifo import occupy, put, take_from
from softswitch.queues.state import NEVER, NONE

_PRIORITY = 0  # of the frames of hosts


@compiled
def enqueue(net: Fabric, i: int, priority: int, length: int, f: int, now: int) -> bool:
    """Queue a packet of `length` bytes, which buffer `f` has; return False if it was dropped."""
    s = put(net.queues, i, min(priority, net.queues.queues.shape[1] - 1), length, now)
    if s == NONE:
        free_frame(net, f)
        return False
    net.queued[s] = f
    schedule(net, i, now)
    return True


@compiled
def schedule(net: Fabric, i: int, now: int) -> None:
    """Have the next packet of interface `i` depart as soon as it may."""
    interface, due = net.interfaces[i], net.queues.ports[i].due
    if interface.is_scheduled or due == NEVER:
        return
    interface.is_scheduled = 1
    if due <= now:
        net.ready[net.header.ready] = i
        net.header.ready += 1
    else:
        push_event(net, due, DEPARTS, i, ABSENT)


@compiled
def take_departing(net: Fabric, i: int, now: int) -> int:
    """Return the slot of a packet that leaves the queues of interface `i`, or NONE."""
    net.interfaces[i].is_scheduled = 0
    s = take_from(net.queues, i, now)
    if s != NONE:
        net.links[i].waited += now - net.queues.slots[s].due
    return s


@compiled
def finish_departure(net: Fabric, i: int, now: int) -> None:
    """Let the next packet of interface `i` wait until the link is free."""
    occupy(net.queues, i, net.links[i].free_at)
    schedule(net, i, now)


@compiled
def send_from_host(net: Fabric, i: int, f: int, now: int) -> None:
    """Send a frame of a host at once if the link is free, or queue it."""
    if net.links[i].free_at <= now and net.queues.ports[i].due == NEVER:
        send(net, i, f, now)
        occupy(net.queues, i, net.links[i].free_at)
    else:
        enqueue(net, i, _PRIORITY, net.frames[f].length, f, now)


@compiled
def depart_from_host(net: Fabric, i: int, now: int) -> None:
    s = take_departing(net, i, now)
    if s != NONE:
        send(net, i, int64(net.queued[s]), now)
    finish_departure(net, i, now)
