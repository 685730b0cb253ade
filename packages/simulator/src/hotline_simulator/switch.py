"""The switch: every frame passes through the real P4 program, in the machine code that softswitch runs.

Without a traffic manager, ingress and egress are one pass, and frames queue at their links. With it, packets
queue at their port between ingress and egress, as in softswitch, so that the program sees queue depths.
Frames also queue before a switch with a latency or a packet rate; the program runs when the latency is over.
"""

from __future__ import annotations

import numpy as np

from foundation.protocol.addressing import CPU_PORT
from hotline_simulator.links import (
    address_of,
    count_delivery,
    defer_to_python,
    free_frame,
    new_frame,
    send_to_port,
)
from hotline_simulator.state import ABSENT, DEPARTS_FROM, SWITCH_LATENCY_OVER, World
from nativekit.compile import carray, compiled, int64
from nativekit.libc import memcpy
from nativekit.memory import pointer
from softswitch.memory.output import HEAD, HEAD_BYTES, WAITING, record_bytes
from softswitch.memory.process import DEPARTURE_PORT
from softswitch.memory.waiting import QUEUE_HEAD
from softswitch.native import call_process
from softswitch.network.events import push_event
from softswitch.queues.fifo import put, take_from
from softswitch.queues.state import NONE
from softswitch.v1model import PORT_NUMBERS

_NS_PER_US = _PICOSECONDS_PER_NS = 1000
_PRIORITY = 0  # the only one: each port has one queue
_record_bytes = compiled(record_bytes)


@compiled
def pass_through(world: World, h: int, f: int, now: int) -> int:
    return pass_once(world, int64(world.ports[h]), f, now, now)


@compiled
def pass_once(world: World, port: int, f: int, arrival: int, now: int) -> int:
    """Run the program at `now` on a frame that reached the switch at `arrival`; return when it is done."""
    frame = world.frames[f]
    if world.header.is_switch_off:
        world.header.refused += 1
        free_frame(world, f)
        return now
    world.header.passes += 1
    count = _process(world, port, address_of(frame), frame.length, arrival, now)
    free_frame(world, f)
    return _forward_outputs(world, port, count, now)


@compiled
def arrive_at_switch(world: World, h: int, f: int, now: int) -> None:
    workers_per_rack = world.header.workers_per_rack
    is_in_rack = workers_per_rack > 0 and h < world.header.workers
    count_delivery(world.racks_up[h // workers_per_rack] if is_in_rack else world.up[h], world.frames[f])
    if world.header.switch_latency or world.header.switch_interval_ps:
        _wait_for_switch(world, h, f, now)
    else:
        pass_through(world, h, f, now)


@compiled
def _wait_for_switch(world: World, h: int, f: int, now: int) -> None:
    header, arrival_ps = world.header, now * _PICOSECONDS_PER_NS
    begin_ps = max(header.switch_free_ps, arrival_ps)
    header.switch_free_ps = begin_ps + header.switch_interval_ps
    header.switch_waited += begin_ps // _PICOSECONDS_PER_NS - now
    world.frames[f].arrival = now
    push_event(world, begin_ps // _PICOSECONDS_PER_NS + header.switch_latency, SWITCH_LATENCY_OVER, h, f)


@compiled
def finish_switch_latency(world: World, h: int, f: int, now: int) -> None:
    pass_once(world, int64(world.ports[h]), f, world.frames[f].arrival, now)


@compiled
def send_queued_packet(world: World, q: int, now: int) -> None:
    s = take_from(world.port_queues, q, now)
    if s != NONE:
        record = _record_at(world, s)
        head, slot = carray(pointer(record + HEAD_BYTES), 1, QUEUE_HEAD)[0], world.port_queues.slots[s]
        head.enq_qdepth, head.deq_qdepth = slot.enq_qdepth, slot.deq_qdepth
        length = int64(carray(pointer(record), 1, HEAD)[0].length)
        count = _process(world, DEPARTURE_PORT, record + HEAD_BYTES, length, now, now)
        _forward_outputs(world, ABSENT, count, now)
    if world.port_queues.queues[q, _PRIORITY].packets:
        push_event(world, world.port_queues.ports[q].due, DEPARTS_FROM, q, ABSENT)


@compiled
def _process(world: World, port: int, address: int, length: int, arrival: int, now: int) -> int:
    header = world.header
    count: int = call_process(
        header.packet_function, header.memory, np.uint32(port), address, np.uint32(length),
        np.uint64(arrival // _NS_PER_US), np.uint64(now // _NS_PER_US), header.out,
        np.uint32(header.out_bytes),
    )  # fmt: skip
    return count


@compiled
def _forward_outputs(world: World, port: int, count: int, now: int) -> int:
    costs, at, departure = world.costs, world.header.out, now
    for _ in range(count):
        head = carray(pointer(at), 1, HEAD)[0]
        # The kind of a frame is its egress port.
        kind, length = int64(head.kind), int64(head.length)
        if kind == WAITING:
            _enqueue(world, at, length, now)
        elif kind < PORT_NUMBERS:
            if costs.program_runs_at_sender:
                departure = now + costs.program_ns + _extra_ns(world, port, kind)
            g = new_frame(world)
            out = world.frames[g]
            memcpy(address_of(out), at + HEAD_BYTES, length)
            out.length = length
            if kind == CPU_PORT:
                defer_to_python(world, ABSENT, g)
            else:
                send_to_port(world, kind, g, departure)
        at += _record_bytes(length)
    return departure


@compiled
def _extra_ns(world: World, port: int, out: int) -> int:
    """Return the program's extra time for a frame that came in at `port` and goes out at port `out`."""
    # The switch answers an RPC at the port it came from.
    is_answered = out == port
    is_from_server = port >= 0 and world.host_at_port[port] >= world.header.workers
    costs = world.costs
    return (costs.hit_ns if is_answered else 0) + (costs.answer_ns if is_from_server else costs.lookup_ns)


@compiled
def _enqueue(world: World, record: int, length: int, now: int) -> None:
    head = carray(pointer(record + HEAD_BYTES), 1, QUEUE_HEAD)[0]
    number = int64(head.port)
    q = int64(world.host_at_port[number]) if number < PORT_NUMBERS else ABSENT
    if q == ABSENT:
        return
    s = put(world.port_queues, q, _PRIORITY, int64(head.length), now)
    if s == NONE:
        return
    memcpy(_record_at(world, s), record, HEAD_BYTES + length)
    if world.port_queues.queues[q, _PRIORITY].packets == 1:  # otherwise its departure is already scheduled
        push_event(world, world.port_queues.ports[q].due, DEPARTS_FROM, q, ABSENT)


@compiled
def _record_at(world: World, s: int) -> int:
    address: int = int64(world.waiting.ctypes.data) + s * world.waiting.shape[1]
    return address
