"""The switch: every frame passes through the real P4 program, in the machine code that softswitch runs."""

from __future__ import annotations

import numpy as np

from native.compile import compiled, int64
from native.libc import memcpy
from protocol.addressing import CPU_PORT
from simulator.links import address_of, carry, free_frame, new_frame
from simulator.state import AT_HOST, NOBODY, World
from softswitch.memory.output import HEAD, HEAD_BYTES, record_bytes
from softswitch.native import call_process, carray, pointer

_NS_PER_US = 1000
_record_bytes = compiled(record_bytes)


def port_of(h: int) -> int:
    """Port of host `h`, from 0 on."""
    return h + 1 if h + 1 < CPU_PORT else h + 2


def host_at(port: int) -> int:
    """The host at a port, or NOBODY."""
    return NOBODY if port == CPU_PORT else port - 1 if port < CPU_PORT else port - 2


_port_of = compiled(port_of)
_host_at = compiled(host_at)


@compiled
def pass_through(world: World, h: int, f: int, now: int) -> int:
    """One pass of frame `f`, come from host `h`; what leaves goes to the links. Returns when that is."""
    me, frame, link = world.me, world.frames[f], world.up[h]
    me.passes += 1
    link.delivered += 1
    link.delivered_bytes += frame.length
    us, port_in = np.uint64(now // _NS_PER_US), np.uint32(_port_of(h))
    count = call_process(
        int64(me.process), int64(me.memory), port_in, address_of(frame), np.uint32(frame.length),
        us, us, int64(me.out), np.uint32(me.out_bytes),
    )  # fmt: skip
    free_frame(world, f)
    at, leaves = int64(me.out), now
    for _ in range(count):
        head = carray(pointer(at), 1, HEAD)[0]
        to, length = _host_at(int64(head.kind)), int64(head.length)
        if 0 <= to < len(world.down):
            if world.costs.inline:
                leaves = now + int64(world.costs.program) + (int64(world.costs.hit) if to == h else 0)
            g = new_frame(world)
            out = world.frames[g]
            memcpy(address_of(out), at + HEAD_BYTES, length)
            out.length = length
            carry(world, world.down[to], g, leaves, AT_HOST, to)
        at += _record_bytes(length)
    return leaves
