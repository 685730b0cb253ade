"""Cores that agents take turns on: who is ready waits in order, and runs until it blocks or time is up."""

from __future__ import annotations

import numpy as np

from foundation.designs.interface import NEVER
from nativekit.compile import compiled, int64
from simulator.events import put_event
from simulator.links import draw
from simulator.state import ALARM, BLOCKED, NOBODY, READY, RUNNING, STEP, World

CONTINUES, YIELDS = 0, 1
"""How a step begins: the agent goes on; its time is up, and the core goes to the next."""


@compiled
def make_ready(world: World, a: int, now: int) -> None:
    """Agent `a` has something to do: it runs as soon as its core is free."""
    agent = world.agents[a]
    if agent.state != BLOCKED or agent.dead:
        return
    agent.queued_at = now
    _enqueue(world, a)
    agent.cold = world.cores[agent.core].running == NOBODY
    if agent.cold:
        _run_next(world, int64(agent.core), now, int64(world.costs.idle))


@compiled
def go_on(world: World, a: int, now: int, until: int) -> None:
    """Agent `a`, which runs, is busy until a time; then it goes on, unless others wait and its time is up."""
    agent = world.agents[a]
    core = world.cores[agent.core]
    agent.used_ns += until - now
    until += _disturbance(world, until - now)
    is_over = core.waiting > 0 and until - core.since >= world.costs.slice
    put_event(world, until, STEP, a, YIELDS if is_over else CONTINUES)


@compiled
def take_turns(world: World, a: int, now: int) -> None:
    """Agent `a`, which runs, goes to the end of its core's queue."""
    world.agents[a].queued_at = now
    _enqueue(world, a)
    _run_next(world, int64(world.agents[a].core), now, int64(world.costs.wake))


@compiled
def block(world: World, a: int, now: int, until: int) -> None:
    """Agent `a`, which runs, has nothing to do until something comes, or until a time."""
    agent = world.agents[a]
    agent.state = BLOCKED
    if until < agent.alarm:
        agent.alarm = until
        put_event(world, max(until, now), ALARM, a, NOBODY)
    _run_next(world, int64(agent.core), now, int64(world.costs.wake))


@compiled
def leave_core(world: World, a: int, now: int) -> None:
    """Agent `a`, which runs, is dead."""
    world.agents[a].state = BLOCKED
    _run_next(world, int64(world.agents[a].core), now, int64(world.costs.wake))


@compiled
def ring_alarm(world: World, a: int, now: int) -> None:
    """An alarm of agent `a` goes off; one that an earlier alarm has overtaken wakes nobody up for long."""
    agent = world.agents[a]
    if agent.alarm <= now:
        agent.alarm = NEVER
    make_ready(world, a, now)


@compiled
def _disturbance(world: World, busy: int) -> int:
    """How long others take the core from an agent that is busy for so long."""
    every = int64(world.costs.noise_every)
    if every == 0 or draw(world) * every >= busy:
        return 0
    return int64(-np.log(1.0 - draw(world)) * float(world.costs.noise))


@compiled
def _enqueue(world: World, a: int) -> None:
    agent = world.agents[a]
    agent.state = READY
    core, ring = world.cores[agent.core], world.queues[agent.core]
    ring[(core.first + core.waiting) & (len(ring) - 1)] = a
    core.waiting += 1


@compiled
def _run_next(world: World, c: int, now: int, cost: int) -> None:
    """Give core `c` to the first that waits, for which that agent pays."""
    core, ring = world.cores[c], world.queues[c]
    core.running = NOBODY
    if core.waiting == 0:
        return
    a = int64(ring[core.first & (len(ring) - 1)])
    core.first += 1
    core.waiting -= 1
    core.running = a
    agent, begins = world.agents[a], now + cost
    agent.state = RUNNING
    agent.queued_ns += now - agent.queued_at
    agent.used_ns += begins - now
    begins += _disturbance(world, cost)
    core.since = begins
    put_event(world, begins, STEP, a, CONTINUES)
