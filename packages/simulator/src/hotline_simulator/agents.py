"""Functions that workers and servers share: receive frames, send bursts, and draw durations."""

from __future__ import annotations

from hotline_simulator.cores import make_ready
from hotline_simulator.links import fill_head, head_of, prefetch_arrived
from hotline_simulator.state import HEAD_BYTES, QUANTILES, World
from nativekit.compile import compiled, int64
from nativekit.libc import memcpy
from nativekit.records import Ints
from softswitch.network.chance import next_random
from softswitch.network.links import (
    address_of,
    count_delivery,
    defer_to_python,
    free_frame,
    new_frame,
    send,
)
from softswitch.network.state import ABSENT, AT_HOST
from softswitch.network.switching import enter_switch


@compiled
def deliver(world: World, a: int, f: int, now: int) -> None:
    """Put frame `f` into the inbox of agent `a`; lose it if the agent is dead or its inbox is full."""
    agent, ring = world.agents[a], world.inbox[a]
    if agent.dead or agent.waiting == len(ring):
        free_frame(world, f)
        return
    if agent.is_external:
        defer_to_python(world, AT_HOST, a, f)
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
    f = new_frame(world, HEAD_BYTES + length, ABSENT, 0)
    head, peer_head = head_of(world, f), world.heads[a, peer]
    for k in range(HEAD_BYTES):
        head[k] = peer_head[k]
    fill_head(head, length)
    memcpy(address_of(world, f) + HEAD_BYTES, datagram, length)
    return f


@compiled
def send_burst(world: World, a: int, n: int, now: int, cost: int) -> int:
    """Send the first `n` frames of the burst, each in `cost` ns of CPU time; return when the last leaves."""
    for k in range(n):
        now += cost
        f = int64(world.burst[k])
        if world.costs.program_runs_at_sender:
            # The frame crosses no cable, but its sender's cable counts it as if it did.
            link, i = world.links[a], int64(world.interfaces[a].peer)
            link.frames += 1
            link.bytes += world.frames[f].length
            count_delivery(world, i, f)
            now = enter_switch(world, i, f, now, now)
        else:
            send(world, a, f, now)
    return now


@compiled
def draw_duration(world: World, quantiles: Ints) -> int:
    return int64(quantiles[int64(next_random(world.header) * QUANTILES)])
