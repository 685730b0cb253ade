"""The event loop: everything that happens, in order, until Python is needed."""

from __future__ import annotations

from nativekit.compile import compiled, int64
from nativekit.reference import as_ref
from simulator.agents import arrive
from simulator.compile import entry_point
from simulator.cores import YIELDS, block, go_on, leave_core, make_ready, ring_alarm, take_turns
from simulator.events import drop_event, put_event
from simulator.racks import go_down, go_up
from simulator.server import step_server
from simulator.spells import begin_spell, end_spell
from simulator.state import (
    ALARM,
    AT_HOST,
    AT_RACK,
    AT_SWITCH,
    DEPARTS_FROM,
    FROM_RACK,
    SENDS,
    SPELL_BEGINS,
    SPELL_ENDS,
    STEP,
    THROUGH_SWITCH,
    World,
)
from simulator.switch import come_through, come_up, depart
from simulator.worker import FULL, WENT_ON, step_worker

QUIET, LATE, ASKED, IS_FULL, CROWDED, LEFT = 0, 1, 2, 3, 4, 5
"""Why the loop has come back: nothing will happen any more; it is time; the driver of agent `me.who` is asked
what to do; the log of agent `me.who` is full; there may be too few frames or events for what happens next;
frames are left to Python."""
MARGIN = 512
"""Frames, and events, that one event makes at most."""


@entry_point
def run(world: World, until: int) -> int:
    """Let everything happen that happens before a time."""
    return go_until(as_ref(world), until)


@compiled
def go_until(world: World, until: int) -> int:
    """`run`, for compiled callers."""
    me = world.me
    while me.events:
        if me.aside:
            return LEFT
        event = world.heap[0]
        now, kind, who, f = int64(event.time), int64(event.kind), int64(event.who), int64(event.frame)
        if now >= until:
            me.now = until
            return LATE
        if me.free < MARGIN or me.events + MARGIN > len(world.heap):
            return CROWDED
        me.now = now
        drop_event(world)
        me.delivered += 1
        if kind == AT_SWITCH:
            come_up(world, who, f, now)
        elif kind == AT_HOST:
            arrive(world, who, f, now)
        elif kind != STEP:
            _let_happen(world, kind, who, f, now)
        elif world.agents[who].dead:
            leave_core(world, who, now)
        elif f == YIELDS:
            take_turns(world, who, now)
        else:
            world.agents[who].steps += 1
            became = step_worker(world, who, now) if who < me.workers else step_server(world, who, now)
            if became != WENT_ON:
                me.who = who
                if became == FULL:
                    put_event(world, now, STEP, who, f)
                    return IS_FULL
                return ASKED
    return LEFT if me.aside else QUIET


@compiled
def _let_happen(world: World, kind: int, who: int, f: int, now: int) -> None:
    """What is no step of an agent, and no frame at the switch or at a host."""
    if kind == THROUGH_SWITCH:
        come_through(world, who, f, now)
    elif kind == ALARM:
        ring_alarm(world, who, now)
    elif kind == AT_RACK:
        go_up(world, who, f, now)
    elif kind == FROM_RACK:
        go_down(world, who, f, now)
    elif kind == DEPARTS_FROM:
        depart(world, who, now)
    elif kind == SPELL_BEGINS:
        begin_spell(world, who, now)
    elif kind == SPELL_ENDS:
        end_spell(world, who)


@entry_point
def resume(world: World, w: int, at: int, until: int) -> None:
    """The driver of worker `w`, which was asked, is done at a time `at`, and wants to be asked again."""
    go_on_with(as_ref(world), w, at, until)


@compiled
def go_on_with(world: World, w: int, at: int, until: int) -> None:
    """`resume`, for compiled callers."""
    agent, now = world.agents[w], int64(world.me.now)
    agent.half = SENDS
    is_idle = world.calls.header[w].pending == 0
    agent.until = until if is_idle else now
    if is_idle and at == now:
        block(world, w, now, until)
    else:
        go_on(world, w, now, at)


@entry_point
def awake(world: World, w: int) -> None:
    """Worker `w` has a driver that is to be asked now."""
    world = as_ref(world)
    world.agents[w].until = int64(world.me.now)
    make_ready(world, w, int64(world.me.now))
