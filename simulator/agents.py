"""What workers and servers have in common: frames that wait for them, bursts that leave, what it costs."""

from __future__ import annotations

from nativekit.compile import compiled, int64
from nativekit.libc import memcpy
from nativekit.records import Ints
from simulator.ahead import is_there
from simulator.cores import make_ready
from simulator.links import address_of, carry, draw, finish_head, free_frame, new_frame
from simulator.racks import arrived_over
from simulator.state import AT_RACK, AT_SWITCH, HEAD_BYTES, QUANTILES, World
from simulator.switch import pass_through


@compiled
def arrive(world: World, a: int, f: int, now: int) -> None:
    """Frame `f` has come to the host of agent `a`, which may be dead, or have a full buffer."""
    agent, ring, link = world.agents[a], world.inbox[a], world.down[a]
    arrived_over(link, world.frames[f])
    if agent.dead or agent.waiting == len(ring):
        agent.overflown += 1
        free_frame(world, f)
        return
    world.frames[f].arrival = now
    is_there(world, a, f)
    ring[(agent.first + agent.waiting) & (len(ring) - 1)] = f
    agent.waiting += 1
    make_ready(world, a, now)


@compiled
def take_frame(world: World, a: int) -> int:
    """The frame that has waited longest for agent `a`; there must be one."""
    agent, ring = world.agents[a], world.inbox[a]
    f = int64(ring[agent.first & (len(ring) - 1)])
    agent.first += 1
    agent.waiting -= 1
    return f


@compiled
def frame_of(world: World, a: int, peer: int, datagram: int, length: int) -> int:
    """A frame of agent `a` to a peer, with the datagram of so many bytes at an address."""
    f = new_frame(world)
    frame, head = world.frames[f], world.heads[a, peer]
    for k in range(HEAD_BYTES):
        frame.head[k] = head[k]
    finish_head(frame.head, length)
    memcpy(address_of(frame) + HEAD_BYTES, datagram, length)
    frame.length = HEAD_BYTES + length
    return f


@compiled
def flush(world: World, a: int, n: int, now: int, cost: int) -> int:
    """Send the first `n` frames of the burst, each for `cost` ns; returns when the last has been sent."""
    for k in range(n):
        now += cost
        f = int64(world.burst[k])
        if world.costs.inline:
            link = world.up[a]
            link.frames += 1
            link.bytes += world.frames[f].length
            arrived_over(link, world.frames[f])
            now = pass_through(world, a, f, now)
        else:
            behind_rack = world.me.rack > 0 and a < world.me.workers
            carry(world, world.up[a], f, now, AT_RACK if behind_rack else AT_SWITCH, a)
    return now


@compiled
def drawn(world: World, quantiles: Ints) -> int:
    """A time from a distribution, ns."""
    return int64(quantiles[int64(draw(world) * QUANTILES)])
