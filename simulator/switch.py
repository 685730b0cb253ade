"""The switch: every frame passes through the real P4 program, in the machine code that softswitch runs."""

from __future__ import annotations

import numpy as np

from native.compile import compiled, int64
from native.libc import memcpy
from simulator.links import address_of, carry, free_frame, new_frame
from simulator.state import AT_HOST, World
from softswitch.memory.output import HEAD, HEAD_BYTES, record_bytes
from softswitch.native import call_process, carray, pointer

_NS_PER_US = 1000
_record_bytes = compiled(record_bytes)


@compiled
def pass_through(world: World, h: int, f: int, now: int) -> int:
    """One pass of frame `f`, come from host `h`; what leaves goes to the links. Returns when that is."""
    me, frame, link = world.me, world.frames[f], world.up[h]
    me.passes += 1
    link.delivered += 1
    link.delivered_bytes += frame.length
    us = np.uint64(now // _NS_PER_US)
    count = call_process(
        int64(me.process), int64(me.memory), np.uint32(h + 1), address_of(frame), np.uint32(frame.length),
        us, us, int64(me.out), np.uint32(me.out_bytes),
    )  # fmt: skip
    free_frame(world, f)
    at, leaves = int64(me.out), now
    for _ in range(count):
        head = carray(pointer(at), 1, HEAD)[0]
        port, length = int64(head.kind), int64(head.length)
        if 1 <= port <= len(world.down):
            if world.costs.inline:
                leaves = now + int64(world.costs.program) + (int64(world.costs.hit) if port == h + 1 else 0)
            g = new_frame(world)
            out = world.frames[g]
            memcpy(address_of(out), at + HEAD_BYTES, length)
            out.length = length
            carry(world, world.down[port - 1], g, leaves, AT_HOST, port - 1)
        at += _record_bytes(length)
    return leaves
