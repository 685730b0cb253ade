"""Racks: workers that share a port of the P4 switch, behind a switch of the rack that only forwards."""

from __future__ import annotations

from foundation.protocol.addressing import HOSTS_PER_BLOCK
from nativekit.compile import compiled, int64
from simulator.links import DESTINATION_IP, free_frame, send_over_link
from simulator.prefetch import prefetch_departed
from simulator.state import ABSENT, AT_HOST, AT_SWITCH, FROM_RACK, Frame, Link, World


@compiled
def count_delivery(link: Link, frame: Frame) -> None:
    link.delivered += 1
    link.delivered_bytes += frame.length


@compiled
def forward_up(world: World, w: int, f: int, now: int) -> None:
    count_delivery(world.up[w], world.frames[f])
    send_over_link(world, world.racks_up[w // int64(world.header.workers_per_rack)], f, now, AT_SWITCH, w)


@compiled
def forward_down(world: World, r: int, f: int, now: int) -> None:
    frame, workers_per_rack = world.frames[f], int64(world.header.workers_per_rack)
    count_delivery(world.racks_down[r], frame)
    # The second byte of the address is the block of workers, the fourth the number in it, from 1.
    w = HOSTS_PER_BLOCK * int64(frame.head[DESTINATION_IP + 1]) + int64(frame.head[DESTINATION_IP + 3]) - 1
    if w // workers_per_rack == r and w < world.header.workers:
        send_over_link(world, world.down[w], f, now, AT_HOST, w)
    else:
        free_frame(world, f)


@compiled
def send_to_port(world: World, port: int, f: int, now: int) -> None:
    """Send frame `f` from the P4 switch out of a port; drop it if no host is there."""
    host, workers_per_rack = int64(world.host_at_port[port]), int64(world.header.workers_per_rack)
    if host == ABSENT:
        free_frame(world, f)
    elif workers_per_rack and host < world.header.workers:
        send_over_link(
            world, world.racks_down[host // workers_per_rack], f, now, FROM_RACK, host // workers_per_rack
        )
    else:
        prefetch_departed(world, host, f)
        send_over_link(world, world.down[host], f, now, AT_HOST, host)
