"""The switch: every frame passes through the real P4 program, in the machine code that softswitch runs.

Ingress and egress are one pass, whose frames wait before their cables; or, with its traffic manager, packets
wait at their port in between, in the queues that softswitch has there, so that the program sees their depths.
A switch that takes time has a queue before it, and the pass is when a frame has come through.
"""

from __future__ import annotations

import numpy as np

from foundation.protocol.addressing import CPU_PORT
from nativekit.compile import carray, compiled, int64
from nativekit.libc import memcpy
from nativekit.memory import pointer
from simulator.events import put_event
from simulator.links import address_of, free_frame, new_frame, put_aside
from simulator.racks import arrived_over, send_down
from simulator.state import DEPARTS_FROM, NOBODY, THROUGH_SWITCH, World
from softswitch.memory.output import HEAD, HEAD_BYTES, WAITING, record_bytes
from softswitch.memory.process import DEPARTS
from softswitch.memory.waiting import QUEUE_HEAD
from softswitch.native import call_process
from softswitch.queues.fifo import put, take_from
from softswitch.queues.state import NONE
from softswitch.v1model import PORT_NUMBERS

_NS_PER_US = _PS_PER_NS = 1000
_record_bytes = compiled(record_bytes)


@compiled
def pass_through(world: World, h: int, f: int, now: int) -> int:
    """One pass of frame `f`, come from host `h`; what leaves goes to the links. Returns when that is."""
    return pass_from(world, int64(world.ports[h]), f, now)


@compiled
def pass_from(world: World, port: int, f: int, now: int) -> int:
    """`pass_through` of a frame that has come in by a port."""
    return pass_once(world, port, f, now, now)


@compiled
def pass_once(world: World, port: int, f: int, came: int, now: int) -> int:
    """One pass at `now` of a frame that `came` to the switch before."""
    frame = world.frames[f]
    if world.me.is_off:
        world.me.refused += 1
        free_frame(world, f)
        return now
    world.me.passes += 1
    count = _process(world, port, address_of(frame), int64(frame.length), came, now)
    free_frame(world, f)
    return _let_out(world, port, count, now)


@compiled
def come_up(world: World, h: int, f: int, now: int) -> None:
    """Frame `f` of host `h` has come to the switch."""
    rack = int64(world.me.rack)
    behind_rack = rack > 0 and h < world.me.workers
    arrived_over(world.racks_up[h // rack] if behind_rack else world.up[h], world.frames[f])
    if world.me.switch_latency or world.me.switch_ps:
        _wait_for_switch(world, h, f, now)
    else:
        pass_through(world, h, f, now)


@compiled
def _wait_for_switch(world: World, h: int, f: int, now: int) -> None:
    """Frames begin one after the other, and come through together with the time that each takes."""
    me, comes = world.me, now * _PS_PER_NS
    begins = max(int64(me.switch_free_ps), comes)
    me.switch_free_ps = begins + me.switch_ps
    me.switch_waited += begins // _PS_PER_NS - now
    world.frames[f].arrival = now
    put_event(world, begins // _PS_PER_NS + int64(me.switch_latency), THROUGH_SWITCH, h, f)


@compiled
def come_through(world: World, h: int, f: int, now: int) -> None:
    """Frame `f` of host `h` has taken its time in the switch, which the program sees."""
    pass_once(world, int64(world.ports[h]), f, int64(world.frames[f].arrival), now)


@compiled
def depart(world: World, q: int, now: int) -> None:
    """The next packet of a port, by the first host there, leaves its queue and goes through egress."""
    s = take_from(world.port_queues, q, now)
    if s != NONE:
        record = _record_at(world, s)
        head, slot = carray(pointer(record + HEAD_BYTES), 1, QUEUE_HEAD)[0], world.port_queues.slots[s]
        head.enq_qdepth, head.deq_qdepth = slot.enq_qdepth, slot.deq_qdepth
        length = int64(carray(pointer(record), 1, HEAD)[0].length)
        count = _process(world, DEPARTS, record + HEAD_BYTES, length, now, now)
        _let_out(world, NOBODY, count, now)
    if world.port_queues.queues[q, 0].packets:
        put_event(world, int64(world.port_queues.ports[q].due), DEPARTS_FROM, q, NOBODY)


@compiled
def _process(world: World, port: int, address: int, length: int, came: int, now: int) -> int:
    me = world.me
    count: int = call_process(
        int64(me.process), int64(me.memory), np.uint32(port), address, np.uint32(length),
        np.uint64(came // _NS_PER_US), np.uint64(now // _NS_PER_US), int64(me.out), np.uint32(me.out_bytes),
    )  # fmt: skip
    return count


@compiled
def _let_out(world: World, port: int, count: int, now: int) -> int:
    """Hand over what the program has made of a frame that came in by a port."""
    costs, at, leaves = world.costs, int64(world.me.out), now
    for _ in range(count):
        head = carray(pointer(at), 1, HEAD)[0]
        kind, length = int64(head.kind), int64(head.length)
        if kind == WAITING:
            _enqueue(world, at, length, now)
        elif kind < PORT_NUMBERS:
            if costs.inline:
                leaves = now + int64(costs.program) + (int64(costs.hit) if kind == port else 0)
            g = new_frame(world)
            out = world.frames[g]
            memcpy(address_of(out), at + HEAD_BYTES, length)
            out.length = length
            if kind == CPU_PORT:
                put_aside(world, NOBODY, g)
            else:
                send_down(world, kind, g, leaves)
        at += _record_bytes(length)
    return leaves


@compiled
def _enqueue(world: World, record: int, length: int, now: int) -> None:
    """Put a packet into the queue of its port, where there is room and anybody to send it to."""
    head = carray(pointer(record + HEAD_BYTES), 1, QUEUE_HEAD)[0]
    number = int64(head.port)
    q = int64(world.at_port[number]) if number < PORT_NUMBERS else NOBODY
    if q == NOBODY:
        return
    s = put(world.port_queues, q, 0, int64(head.length), now)
    if s == NONE:
        return
    memcpy(_record_at(world, s), record, HEAD_BYTES + length)
    if world.port_queues.queues[q, 0].packets == 1:
        put_event(world, int64(world.port_queues.ports[q].due), DEPARTS_FROM, q, NOBODY)


@compiled
def _record_at(world: World, s: int) -> int:
    """Where the record of a slot is kept."""
    address: int = int64(world.waiting.ctypes.data) + s * world.waiting.shape[1]
    return address
