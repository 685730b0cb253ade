"""Functions that workers and servers share: receive frames, send bursts, and draw durations."""

from __future__ import annotations

from hotline_simulator.cores import make_ready
from hotline_simulator.links import (
    address_of,
    count_delivery,
    defer_to_python,
    fill_head,
    free_frame,
    new_frame,
    prefetch_arrived,
    send_over_link,
)
from hotline_simulator.state import AT_RACK, AT_SWITCH, HEAD_BYTES, QUANTILES, World
from hotline_simulator.switch import pass_through
from nativekit.compile import compiled, int64
from nativekit.libc import memcpy
from nativekit.records import Ints
from softswitch.network.chance import next_random


@compiled
def deliver(world: World, a: int, f: int, now: int) -> None:
    """Put frame `f` into the inbox of agent `a`; lose it if the agent is dead or its inbox is full."""
    agent, ring, link = world.agents[a], world.inbox[a], world.down[a]
    count_delivery(link, world.frames[f])
    if agent.dead or agent.waiting == len(ring):
        free_frame(world, f)
        return
    if agent.is_external:
        defer_to_python(world, a, f)
        return
    world.frames[f].arrival = now
    prefetch_arrived(world, a, f)
    # The length of a ring is a power of two, so `&` computes the remainder.
    ring[(agent.first + agent.waiting) & (len(ring) - 1)] = f
    agent.waiting += 1
    make_ready(world, a, now)


@compiled
def take_frame(world: World, a: int) -> int:
    """Remove the oldest frame from the inbox of agent `a`, which must not be empty."""
    agent, ring = world.agents[a], world.inbox[a]
    f = int64(ring[agent.first & (len(ring) - 1)])
    agent.first += 1
    agent.waiting -= 1
    return f


@compiled
def build_frame(world: World, a: int, peer: int, datagram: int, length: int) -> int:
    """Return a new frame from agent `a` to a peer, with the `length` bytes at address `datagram`."""
    f = new_frame(world)
    frame, head = world.frames[f], world.heads[a, peer]
    for k in range(HEAD_BYTES):
        frame.head[k] = head[k]
    fill_head(frame.head, length)
    memcpy(address_of(frame) + HEAD_BYTES, datagram, length)
    frame.length = HEAD_BYTES + length
    return f


@compiled
def send_burst(world: World, a: int, n: int, now: int, cost: int) -> int:
    """Send the first `n` frames of the burst, each in `cost` ns of CPU time; return when the last leaves."""
    for k in range(n):
        now += cost
        f = int64(world.burst[k])
        if world.costs.program_runs_at_sender:
            # The frame crosses no cable, but its sender's cable counts it as if it did.
            link = world.up[a]
            link.frames += 1
            link.bytes += world.frames[f].length
            count_delivery(link, world.frames[f])
            now = pass_through(world, a, f, now)
        else:
            is_in_rack = world.header.workers_per_rack > 0 and a < world.header.workers
            send_over_link(world, world.up[a], f, now, AT_RACK if is_in_rack else AT_SWITCH, a)
    return now


@compiled
def draw_duration(world: World, quantiles: Ints) -> int:
    return int64(quantiles[int64(next_random(world.header) * QUANTILES)])
