"""Passes of frames through the programs of switches, which are softswitch's machine code."""

from __future__ import annotations

import numpy as np

from nativekit.compile import carray, compiled, int64
from nativekit.libc import memcpy
from nativekit.memory import pointer
from softswitch.memory.output import HEAD, HEAD_BYTES, WAITING, record_bytes
from softswitch.memory.process import DEPARTURE_PORT
from softswitch.memory.waiting import QUEUE_HEAD
from softswitch.native import call_process
from softswitch.network.events import push_event
from softswitch.network.links import address_of, defer_to_python, free_frame, new_frame, send
from softswitch.network.queueing import enqueue, finish_departure, take_departing
from softswitch.network.state import ABSENT, AT_CONTROLLER, IS_PROCESSED, NOTICE, Fabric
from softswitch.queues.state import NONE
from softswitch.v1model import PORT_NUMBERS

_NS_PER_US = _PICOSECONDS_PER_NS = 1000
_record_bytes = compiled(record_bytes)


@compiled
def arrive_at_switch(net: Fabric, i: int, f: int, now: int) -> None:
    """Process a frame that has arrived at interface `i`, or wait until its switch has time for it."""
    switch = net.switches[net.interfaces[i].switch]
    if switch.latency or switch.gap_ps:
        begin_ps = max(switch.free_ps, now * _PICOSECONDS_PER_NS)
        switch.free_ps = begin_ps + switch.gap_ps
        switch.waited += begin_ps // _PICOSECONDS_PER_NS - now
        net.frames[f].arrival = now
        push_event(net, begin_ps // _PICOSECONDS_PER_NS + switch.latency, IS_PROCESSED, i, f)
    else:
        enter_switch(net, i, f, now, now)


@compiled
def enter_switch(net: Fabric, i: int, f: int, arrival: int, now: int) -> int:
    """Run the program at `now` on a frame that arrived at interface `i` at `arrival`; return when it ends."""
    interface, frame = net.interfaces[i], net.frames[f]
    switch = net.switches[interface.switch]
    if switch.is_off:
        switch.refused += 1
        free_frame(net, f)
        return now
    switch.passes += 1
    count = call_process(
        switch.process, switch.state, np.uint32(interface.port), address_of(net, f),
        np.uint32(frame.length), np.uint64(arrival // _NS_PER_US), np.uint64(now // _NS_PER_US),
        net.header.out, np.uint32(net.header.out_bytes),
    )  # fmt: skip
    flow, sent = int64(frame.flow), int64(frame.sent)
    free_frame(net, f)
    return _take_outputs(net, interface.switch, i, count, flow, sent, now)


@compiled
def depart_from_switch(net: Fabric, i: int, now: int) -> None:
    """Run egress of the packet that leaves the queues of interface `i`."""
    s = take_departing(net, i, now)
    if s != NONE:
        interface, f, slot = net.interfaces[i], int64(net.queued[s]), net.queues.slots[s]
        frame, switch = net.frames[f], net.switches[interface.switch]
        head = carray(pointer(address_of(net, f)), 1, QUEUE_HEAD)[0]
        head.enq_qdepth, head.deq_qdepth = slot.enq_qdepth, slot.deq_qdepth
        switch.departures += 1
        count = call_process(
            switch.process, switch.state, np.uint32(DEPARTURE_PORT), address_of(net, f),
            np.uint32(frame.length), np.uint64(now // _NS_PER_US), np.uint64(now // _NS_PER_US),
            net.header.out, np.uint32(net.header.out_bytes),
        )  # fmt: skip
        flow, sent = int64(frame.flow), int64(frame.sent)
        free_frame(net, f)
        _take_outputs(net, interface.switch, ABSENT, count, flow, sent, now)
    finish_departure(net, i, now)


@compiled
def _take_outputs(net: Fabric, s: int, i: int, count: int, flow: int, sent: int, now: int) -> int:
    """Send or queue the outputs of a pass, which all count as frames of the same flow.

    The frame came in at interface `i`, or left its queue if that is ABSENT. Return when the last one leaves.
    """
    at, switch, departure = net.header.out, net.switches[s], now
    for _ in range(count):
        head = carray(pointer(at), 1, HEAD)[0]
        kind, length, data = int64(head.kind), int64(head.length), at + HEAD_BYTES
        if kind > WAITING:
            if switch.has_listener:
                _defer_notice(net, s, at, length)
        elif length > net.header.frame_room or net.header.free == 0:
            switch.oversize += 1
        else:
            f = new_frame(net, length, flow, sent)
            memcpy(address_of(net, f), data, length)
            if kind == WAITING:
                _queue_packet(net, s, f, now)
            else:  # the kind of a frame is its egress port
                departure = _send_from_port(net, s, kind, i, f, now)
        at += _record_bytes(length)
    return departure


@compiled
def _queue_packet(net: Fabric, s: int, f: int, now: int) -> None:
    head = carray(pointer(address_of(net, f)), 1, QUEUE_HEAD)[0]
    i = _interface_at(net, s, int64(head.port))
    if i == ABSENT:
        free_frame(net, f)
    else:
        enqueue(net, i, int64(head.priority), int64(head.length), f, now)


@compiled
def _send_from_port(net: Fabric, s: int, port: int, came_in: int, f: int, now: int) -> int:
    """Send frame `f` out of a port when the pass is over, which it returns."""
    i = _interface_at(net, s, port)
    if came_in != ABSENT:
        now += net.interfaces[came_in].pass_ns
        if i == came_in:
            now += net.switches[s].reflect_ns
    if i == ABSENT:
        free_frame(net, f)
    elif net.interfaces[i].peer == ABSENT:
        defer_to_python(net, AT_CONTROLLER, s, f)
    else:
        send(net, i, f, now)
    return now


@compiled
def _interface_at(net: Fabric, s: int, port: int) -> int:
    """Return the interface at a port; count the frame if there is none."""
    i = int64(net.ports[s, port]) if port < PORT_NUMBERS else ABSENT
    if i == ABSENT:
        net.switches[s].no_such_port += 1
    return i


@compiled
def _defer_notice(net: Fabric, s: int, record: int, length: int) -> None:
    """Let Python have a digest or log record with its head."""
    if HEAD_BYTES + length > net.header.frame_room or net.header.free == 0:
        net.switches[s].lost_notices += 1
        return
    f = new_frame(net, HEAD_BYTES + length, ABSENT, 0)
    memcpy(address_of(net, f), record, HEAD_BYTES + length)
    defer_to_python(net, NOTICE, s, f)
