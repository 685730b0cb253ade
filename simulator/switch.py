"""The switch: every frame passes through the real P4 program, in the machine code that softswitch runs."""

from __future__ import annotations

import numpy as np

from native.compile import compiled, int64
from native.libc import memcpy
from simulator.links import address_of, free_frame, new_frame
from simulator.racks import arrived_over, send_down
from simulator.state import World
from softswitch.memory.output import HEAD, HEAD_BYTES, record_bytes
from softswitch.native import call_process, carray, pointer
from softswitch.v1model import PORT_NUMBERS

_NS_PER_US = 1000
_record_bytes = compiled(record_bytes)


@compiled
def pass_through(world: World, h: int, f: int, now: int) -> int:
    """One pass of frame `f`, come from host `h`; what leaves goes to the links. Returns when that is."""
    me, costs, frame, port = world.me, world.costs, world.frames[f], int64(world.ports[h])
    me.passes += 1
    us = np.uint64(now // _NS_PER_US)
    count = call_process(
        int64(me.process), int64(me.memory), np.uint32(port), address_of(frame), np.uint32(frame.length),
        us, us, int64(me.out), np.uint32(me.out_bytes),
    )  # fmt: skip
    free_frame(world, f)
    at, leaves = int64(me.out), now
    for _ in range(count):
        head = carray(pointer(at), 1, HEAD)[0]
        to, length = int64(head.kind), int64(head.length)
        if to < PORT_NUMBERS:
            if costs.inline:
                leaves = now + int64(costs.program) + (int64(costs.hit) if to == port else 0)
            g = new_frame(world)
            out = world.frames[g]
            memcpy(address_of(out), at + HEAD_BYTES, length)
            out.length = length
            send_down(world, to, g, leaves)
        at += _record_bytes(length)
    return leaves


@compiled
def come_up(world: World, h: int, f: int, now: int) -> None:
    """Frame `f` of host `h` has come to the switch."""
    rack = int64(world.me.rack)
    behind_rack = rack > 0 and h < world.me.workers
    arrived_over(world.racks_up[h // rack] if behind_rack else world.up[h], world.frames[f])
    pass_through(world, h, f, now)
