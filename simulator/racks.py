"""Racks: workers that share a port of the P4 switch, behind a switch of their own that only forwards."""

from __future__ import annotations

from foundation.protocol.addressing import BLOCK
from nativekit.compile import compiled, int64
from simulator.ahead import is_coming
from simulator.links import carry, free_frame
from simulator.state import AT_HOST, AT_SWITCH, FROM_RACK, NOBODY, Frame, Link, World

_ADDRESS = 30
"""Place of the IPv4 destination in a frame."""


@compiled
def arrived_over(link: Link, frame: Frame) -> None:
    """A frame has come out of a cable."""
    link.delivered += 1
    link.delivered_bytes += frame.length


@compiled
def go_up(world: World, w: int, f: int, now: int) -> None:
    """Frame `f` of worker `w` has come to the switch of its rack."""
    arrived_over(world.up[w], world.frames[f])
    carry(world, world.racks_up[w // int64(world.me.rack)], f, now, AT_SWITCH, w)


@compiled
def go_down(world: World, r: int, f: int, now: int) -> None:
    """Frame `f` has come from the P4 switch to rack `r`, whose switch knows workers by their addresses."""
    frame, rack = world.frames[f], int64(world.me.rack)
    arrived_over(world.racks_down[r], frame)
    w = BLOCK * int64(frame.head[_ADDRESS + 1]) + int64(frame.head[_ADDRESS + 3]) - 1
    if w // rack == r and w < world.me.workers:
        carry(world, world.down[w], f, now, AT_HOST, w)
    else:
        free_frame(world, f)


@compiled
def send_down(world: World, port: int, f: int, now: int) -> None:
    """Let frame `f` leave the P4 switch by a port, where there may be nobody."""
    to, rack = int64(world.at_port[port]), int64(world.me.rack)
    if to == NOBODY:
        free_frame(world, f)
    elif rack and to < world.me.workers:
        carry(world, world.racks_down[to // rack], f, now, FROM_RACK, to // rack)
    else:
        is_coming(world, to, f)
        carry(world, world.down[to], f, now, AT_HOST, to)
