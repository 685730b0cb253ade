"""Cores that agents share: ready agents wait in order; an agent runs until it blocks or its slice ends."""

from __future__ import annotations

import numpy as np

from hotline_agents.interface import NEVER
from hotline_simulator.state import ALARM, BLOCKED, READY, RUNNING, STEP, World
from nativekit.compile import compiled, int64
from softswitch.network.chance import next_random
from softswitch.network.events import push_event
from softswitch.network.state import ABSENT

CONTINUES, YIELDS = 0, 1
"""A STEP event has as `frame`: the agent continues, or its slice has ended and the next agent runs."""


@compiled
def make_ready(world: World, a: int, now: int) -> None:
    """Queue agent `a` for its core, unless it is dead, of Python, queued or running."""
    agent = world.agents[a]
    if agent.state != BLOCKED or agent.dead or agent.is_external:
        return
    agent.queued_at = now
    agent.waits += 1
    _enqueue(world, a)
    agent.woke_idle_core = world.cores[agent.core].running == ABSENT
    if agent.woke_idle_core:
        _run_next(world, agent.core, now, _slowed(world, a, world.costs.idle_ns))


@compiled
def occupy_core(world: World, a: int, now: int, until: int) -> None:
    """Occupy the core of running agent `a` until a time; then it continues, or yields after its slice."""
    agent = world.agents[a]
    core = world.cores[agent.core]
    agent.used_ns += until - now
    until += _draw_interruption_ns(world, until - now)
    is_slice_over = core.waiting > 0 and until - core.running_since >= world.costs.slice_ns
    push_event(world, until, STEP, a, YIELDS if is_slice_over else CONTINUES)


@compiled
def yield_core(world: World, a: int, now: int) -> None:
    world.agents[a].queued_at = now
    _enqueue(world, a)
    _switch_from(world, a, now)


@compiled
def block(world: World, a: int, now: int, until: int) -> None:
    """Block the running agent `a` until a frame comes or the alarm at time `until`."""
    agent = world.agents[a]
    agent.state = BLOCKED
    if until < agent.alarm:
        agent.alarm = until
        push_event(world, max(until, now), ALARM, a, ABSENT)
    _switch_from(world, a, now)


@compiled
def leave_core(world: World, a: int, now: int) -> None:
    # Unlike `block`, this sets no alarm: agent `a` is dead.
    world.agents[a].state = BLOCKED
    _switch_from(world, a, now)


@compiled
def fire_alarm(world: World, a: int, now: int) -> None:
    """Wake agent `a`. An alarm that an earlier alarm has replaced wakes it too, for a step without effect."""
    agent = world.agents[a]
    if agent.alarm <= now:
        agent.alarm = NEVER
    make_ready(world, a, now)


@compiled
def _draw_interruption_ns(world: World, busy_ns: int) -> int:
    mean_interval_ns = world.costs.noise_every_ns
    # At most one interruption, with a probability in proportion to the busy time.
    if mean_interval_ns == 0 or next_random(world.header) * mean_interval_ns >= busy_ns:
        return 0
    # The argument of the logarithm is never 0.
    return int64(-np.log(1.0 - next_random(world.header)) * float(world.costs.noise_ns))


@compiled
def _enqueue(world: World, a: int) -> None:
    agent = world.agents[a]
    agent.state = READY
    core, ring = world.cores[agent.core], world.run_queues[agent.core]
    ring[(core.first + core.waiting) & (len(ring) - 1)] = a
    core.waiting += 1


@compiled
def _switch_from(world: World, a: int, now: int) -> None:
    """Let the next agent run on the core of agent `a`, whose CPU time has the cost of the switch."""
    cost = _slowed(world, a, world.costs.wake_ns)
    world.agents[a].used_ns += cost
    _run_next(world, world.agents[a].core, now, cost + _draw_interruption_ns(world, cost))


@compiled
def _slowed(world: World, a: int, ns: int) -> int:
    return int64(float(ns) * world.agents[a].slowdown)


@compiled
def _run_next(world: World, c: int, now: int, delay: int) -> None:
    core, ring = world.cores[c], world.run_queues[c]
    core.running = ABSENT
    if core.waiting == 0:
        return
    a = int64(ring[core.first & (len(ring) - 1)])
    core.first += 1
    core.waiting -= 1
    core.running = a
    agent = world.agents[a]
    agent.state = RUNNING
    agent.queued_ns += now - agent.queued_at
    core.running_since = now + delay
    push_event(world, now + delay, STEP, a, CONTINUES)
