"""The event loop: handle one event after the other, until Python is needed."""

from __future__ import annotations

from hotline_simulator.agents import deliver
from hotline_simulator.cores import YIELDS, block, fire_alarm, leave_core, make_ready, occupy_core, yield_core
from hotline_simulator.links import begin_outage, end_outage, forward
from hotline_simulator.server import step_server
from hotline_simulator.state import ALARM, OUTAGE_BEGINS, OUTAGE_ENDS, SENDS, STEP, World, entry_point
from hotline_simulator.worker import AGENT_LOG_FULL, CONTINUED, step_worker
from nativekit.compile import compiled, int64
from nativekit.reference import as_ref
from softswitch.network.events import pop_event, push_event
from softswitch.network.links import count_delivery
from softswitch.network.state import ABSENT, ARRIVES, DEPARTS, IS_PROCESSED
from softswitch.network.switching import arrive_at_switch, depart_from_switch, enter_switch

NO_EVENTS, TIME_REACHED, DRIVER_DUE, LOG_FULL, OUT_OF_ROOM, FRAMES_DEFERRED = 0, 1, 2, 3, 4, 5
"""Why the loop returns: no event is left; the time is reached; the driver of agent `header.agent` is due; the
log of agent `header.agent` is full; there may be too few free frames or events; frames are deferred to
Python."""
MARGIN = 512
"""Maximum number of frames, and of events, that one event creates."""


@entry_point
def run(world: World, until: int) -> int:
    return run_until_needed(as_ref(world), until)


@compiled
def run_until_needed(world: World, until: int) -> int:
    header = world.header
    while True:
        while header.ready:
            header.ready -= 1
            depart_from_switch(world, int64(world.ready[header.ready]), header.now)
        if header.deferred:
            return FRAMES_DEFERRED
        if not header.events:
            return NO_EVENTS
        event = world.heap[0]
        now, kind, target, f = event.time, int64(event.kind), int64(event.target), event.frame
        if now >= until:
            header.now = until
            return TIME_REACHED
        if header.free < MARGIN or header.events + MARGIN > len(world.heap):
            return OUT_OF_ROOM
        header.now = now
        pop_event(world)
        header.handled_events += 1
        if kind == ARRIVES:
            _arrive(world, target, f, now)
        elif kind != STEP:
            _handle_rare_event(world, kind, target, f, now)
        elif world.agents[target].dead or world.agents[target].is_external:
            leave_core(world, target, now)
        elif f == YIELDS:  # a STEP event has no frame
            yield_core(world, target, now)
        else:
            world.agents[target].steps += 1
            result = (
                step_worker(world, target, now)
                if target < header.workers
                else step_server(world, target, now)
            )
            if result != CONTINUED:
                header.agent = target
                if result == AGENT_LOG_FULL:
                    push_event(world, now, STEP, target, f)  # again, when the log is empty
                    return LOG_FULL
                return DRIVER_DUE


@compiled
def _arrive(world: World, i: int, f: int, now: int) -> None:
    count_delivery(world, i, f)
    interface = world.interfaces[i]
    if interface.host != ABSENT:
        deliver(world, interface.host, f, now)
    elif world.switches[interface.switch].process:
        arrive_at_switch(world, i, f, now)
    else:
        forward(world, i, f, now)


@compiled
def _handle_rare_event(world: World, kind: int, target: int, f: int, now: int) -> None:
    if kind == IS_PROCESSED:
        enter_switch(world, target, f, world.frames[f].arrival, now)
    elif kind == ALARM:
        fire_alarm(world, target, now)
    elif kind == DEPARTS:
        depart_from_switch(world, target, now)
    elif kind == OUTAGE_BEGINS:
        begin_outage(world, target, now)
    elif kind == OUTAGE_ENDS:
        end_outage(world, target)


@entry_point
def resume(world: World, w: int, at: int, until: int) -> None:
    resume_worker(as_ref(world), w, at, until)


@compiled
def resume_worker(world: World, w: int, at: int, until: int) -> None:
    # The driver has used the CPU until `at`. If no operation is pending, it is due again at `until`.
    agent, now = world.agents[w], world.header.now
    agent.phase = SENDS
    is_idle = world.workers.header[w].pending == 0
    agent.driver_due = until if is_idle else now  # a pending operation: due as soon as it has ended
    if is_idle and at == now:
        block(world, w, now, until)
    else:
        occupy_core(world, w, now, at)


@entry_point
def wake_agent(world: World, a: int) -> None:
    world = as_ref(world)
    world.agents[a].driver_due = world.header.now
    make_ready(world, a, world.header.now)
