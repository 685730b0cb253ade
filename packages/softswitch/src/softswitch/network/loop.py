"""The event loop: handle one event after the other, until Python is needed."""

from __future__ import annotations

from nativekit.compile import compiled, int64
from nativekit.reference import as_ref, write_words
from softswitch.native import entry_point
from softswitch.network.events import pop_event, push_event
from softswitch.network.flows import arrive_at_host, send_next
from softswitch.network.handlers import schedule_wake, wake
from softswitch.network.links import count_delivery
from softswitch.network.queueing import depart_from_host, schedule, send_from_host
from softswitch.network.state import (
    ABSENT,
    ARRIVES,
    DEPARTS,
    SENDS,
    WAKES,
    NetworkState,
)
from softswitch.network.switching import arrive_at_switch, depart_from_switch, enter_switch

NO_EVENTS, TIME_REACHED, OUT_OF_ROOM, LOG_FULL, DEFERRED, PAUSED, STUCK, FAILED = range(8)
"""Why the loop returns: no event is left; the time is reached; there may be too few free frames; the log of
receipts is full; frames or notices wait for Python; `MAX_STEPS` events were handled, so that signals can be;
`MAX_AT_ONCE` events were handled and no time has passed; the handler of a host has failed."""
MAX_STEPS = 1_000_000
MAX_AT_ONCE = 5_000_000
MARGIN = 1024
"""Frames that are free before each event. A pass that makes more loses the rest, which is counted."""

write_network = entry_point(write_words)


@entry_point
def run(net: NetworkState, until: int) -> int:
    return _run_until_needed(as_ref(net), until)


@compiled
def _run_until_needed(net: NetworkState, until: int) -> int:
    header, steps = net.header, 0
    while header.events:
        if header.deferred:
            return DEFERRED
        event = net.heap[0]
        now, kind, target, f = event.time, int64(event.kind), int64(event.target), event.frame
        if now > until:
            header.now = until
            return TIME_REACHED
        if header.free < MARGIN:
            return OUT_OF_ROOM
        if header.receipts + MARGIN > len(net.receipts):
            return LOG_FULL
        steps += 1
        if steps > MAX_STEPS:
            return STUCK if header.events_at_once > MAX_AT_ONCE else PAUSED
        header.events_at_once = header.events_at_once + 1 if now == header.now else 0
        header.now = now
        pop_event(net)
        header.handled_events += 1
        if kind == ARRIVES:
            _arrive(net, target, f, now)
        elif kind == DEPARTS:
            _depart(net, target, now)
        elif kind == SENDS:
            send_next(net, target, now)
        elif kind == WAKES:
            wake(net, target, f, now)
        else:
            enter_switch(net, target, f, net.frames[f].arrival, now)
        while header.ready:
            header.ready -= 1
            _depart(net, int64(net.ready[header.ready]), now)
        if header.failed_host != ABSENT:
            return FAILED
    return DEFERRED if header.deferred else NO_EVENTS


@compiled
def _arrive(net: NetworkState, i: int, f: int, now: int) -> None:
    count_delivery(net, i, f)
    interface = net.interfaces[i]
    if interface.switch == ABSENT:
        arrive_at_host(net, interface.host, f, now)
    else:
        arrive_at_switch(net, i, f, now)


@compiled
def _depart(net: NetworkState, i: int, now: int) -> None:
    if net.interfaces[i].switch == ABSENT:
        depart_from_host(net, i, now)
    else:
        depart_from_switch(net, i, now)


@entry_point
def transmit(net: NetworkState, i: int, f: int) -> None:
    """Send frame `f`, which Python has written, from the host at interface `i`."""
    net = as_ref(net)
    send_from_host(net, i, f, net.header.now)


@entry_point
def inject(net: NetworkState, i: int, f: int) -> None:
    """Have frame `f`, which Python has written, arrive at interface `i`."""
    net = as_ref(net)
    push_event(net, net.header.now, ARRIVES, i, f)


@entry_point
def begin_flow(net: NetworkState, k: int, at: int) -> None:
    push_event(as_ref(net), at, SENDS, k, ABSENT)


@entry_point
def set_handler(net: NetworkState, h: int, handler: int, state: int, items: int, at: int) -> None:
    """Have host `h` call a handler for the frames it receives, and first at `at`."""
    net = as_ref(net)
    host = net.hosts[h]
    host.handler, host.handler_state, host.handler_items = handler, state, items
    schedule_wake(net, h, at)


@entry_point
def reschedule(net: NetworkState, i: int) -> None:
    """Take new rates of the queues of interface `i` into account."""
    net = as_ref(net)
    schedule(net, i, int64(net.header.now))
