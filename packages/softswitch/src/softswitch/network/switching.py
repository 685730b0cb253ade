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
from softswitch.network.state import ABSENT, AT_CONTROLLER, IS_PROCESSED, NOTICE, NetworkState
from softswitch.queues.state import NONE
from softswitch.v1model import PORT_NUMBERS

_NS_PER_US = 1000
_record_bytes = compiled(record_bytes)


@compiled
def arrive_at_switch(net: NetworkState, i: int, f: int, now: int) -> None:
    """Process a frame that has arrived at interface `i`, or wait until its switch has time for it."""
    switch = net.switches[net.interfaces[i].switch]
    if switch.is_off:
        switch.refused += 1
        free_frame(net, f)
    elif switch.latency or switch.gap:
        begin = max(switch.free_at, now)
        switch.free_at = begin + switch.gap
        net.frames[f].arrival = now
        push_event(net, begin + switch.latency, IS_PROCESSED, i, f)
    else:
        enter_switch(net, i, f, now, now)


@compiled
def enter_switch(net: NetworkState, i: int, f: int, arrival: int, now: int) -> None:
    """Run the program at `now` on a frame that arrived at interface `i` at `arrival`."""
    interface, frame = net.interfaces[i], net.frames[f]
    switch = net.switches[interface.switch]
    switch.passes += 1
    count = call_process(
        switch.process, switch.state, np.uint32(interface.port), address_of(net, f),
        np.uint32(frame.length), np.uint64(arrival // _NS_PER_US), np.uint64(now // _NS_PER_US),
        net.header.out, np.uint32(net.header.out_bytes),
    )  # fmt: skip
    flow, sent = frame.flow, frame.sent
    free_frame(net, f)
    _take_outputs(net, interface.switch, count, flow, sent, now)


@compiled
def depart_from_switch(net: NetworkState, i: int, now: int) -> None:
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
        _take_outputs(net, interface.switch, count, flow, sent, now)
    finish_departure(net, i, now)


@compiled
def _take_outputs(net: NetworkState, s: int, count: int, flow: int, sent: int, now: int) -> None:
    """Send or queue the outputs of a pass, which all count as frames of the same flow."""
    at, switch = net.header.out, net.switches[s]
    for _ in range(count):
        head = carray(pointer(at), 1, HEAD)[0]
        kind, length, data = int64(head.kind), int64(head.length), at + HEAD_BYTES
        if kind > WAITING:
            _defer_notice(net, s, at, length)
        elif length > net.header.frame_stride or net.header.free == 0:
            switch.oversize += 1
        else:
            f = new_frame(net, length, flow, sent)
            memcpy(address_of(net, f), data, length)
            if kind == WAITING:
                _queue_packet(net, s, f, now)
            else:  # the kind of a frame is its egress port
                _send_from_port(net, s, kind, f, now)
        at += _record_bytes(length)


@compiled
def _queue_packet(net: NetworkState, s: int, f: int, now: int) -> None:
    head = carray(pointer(address_of(net, f)), 1, QUEUE_HEAD)[0]
    i = _interface_at(net, s, int64(head.port))
    if i == ABSENT:
        free_frame(net, f)
    else:
        enqueue(net, i, int64(head.priority), int64(head.length), f, now)


@compiled
def _send_from_port(net: NetworkState, s: int, port: int, f: int, now: int) -> None:
    i = _interface_at(net, s, port)
    if i == ABSENT:
        free_frame(net, f)
    elif net.interfaces[i].peer == ABSENT:
        defer_to_python(net, AT_CONTROLLER, s, f)
    else:
        send(net, i, f, now)


@compiled
def _interface_at(net: NetworkState, s: int, port: int) -> int:
    """Return the interface at a port; count the frame if there is none."""
    i = int64(net.ports[s, port]) if port < PORT_NUMBERS else ABSENT
    if i == ABSENT:
        net.switches[s].no_such_port += 1
    return i


@compiled
def _defer_notice(net: NetworkState, s: int, record: int, length: int) -> None:
    """Let Python have a digest or log record with its head."""
    if HEAD_BYTES + length > net.header.frame_stride or net.header.free == 0:
        net.switches[s].lost_notices += 1
        return
    f = new_frame(net, HEAD_BYTES + length, ABSENT, 0)
    memcpy(address_of(net, f), record, HEAD_BYTES + length)
    defer_to_python(net, NOTICE, s, f)
