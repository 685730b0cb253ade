from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from experiment.design_parts import prepare
from experiment.phases.measure import measure
from foundation.designs.arms import reference_of
from foundation.designs.registry import design
from hosts.keys import KeySpace
from hosts.model.hyperparameters import Hyperparameters
from hosts.workload.trace import Trace
from topologies.calibrate import calibrate, check_capacity, probe_capacities
from topologies.cpu_counters import find_idle_threads, isolate
from topologies.fleet import RunContext, fleet, worker_config
from topologies.session import RealSession, is_expected
from topologies.succession import WorkerSuccession

log = logging.getLogger(__name__)

_BASE_TIMEOUT_S, _TIMEOUT_PER_RPC_S = 30.0, 0.1


@dataclass(frozen=True, slots=True)
class RunningCluster:
    session: RealSession
    space: KeySpace
    traffic: Callable[[], Coroutine[object, None, None]]


@asynccontextmanager
async def agent_cluster(
    context: RunContext, trace: Trace, training: Hyperparameters | None
) -> AsyncIterator[RunningCluster]:
    succession = None
    if context.config.after_death != "end":
        succession = WorkerSuccession(
            context.config.after_death,
            lambda number, *process: worker_config(number, context, training, *process),
        )
    async with fleet(context, trace, training, succession) as (workers, servers):
        plan = context.config.worker_plan
        session = RealSession(**context._asdict(), workers=workers, servers=servers, worker_plan=plan)
        if succession is not None:
            succession.session = session
        yield RunningCluster(session, trace.space, partial(_run_phases, session, trace))


async def _run_phases(session: RealSession, trace: Trace) -> None:
    await prepare(design(session.config.design), session, trace)
    threads_before = await session.switch_threads()
    probed_capacities = await probe_capacities(session)
    idle_threads = find_idle_threads(threads_before, await session.switch_threads())
    with isolate(session.placement.rest, idle_threads):
        await calibrate(session, probed_capacities)
        await measure(session, partial(check_capacity, session, "middle"))
        await check_capacity(session, "end")
        await measure_empty_rpcs(session)
    await session.wait_for_workers()
    if session.next_step > trace.steps:
        log.warning(
            "the run took %d steps of a trace of %d: it repeated steps from which the hot set was chosen",
            session.next_step,
            trace.steps,
        )


async def measure_empty_rpcs(session: RealSession) -> None:
    """Measure an RPC's fixed cost: each worker in turn sends `empty_rpcs` RPCs without lanes."""
    if not session.config.empty_rpcs:
        return
    command = {
        "cmd": "empty",
        "job": reference_of(session.config.arms).job,  # of the baseline
        "count": session.config.empty_rpcs,
    }
    timeout_s = _BASE_TIMEOUT_S + _TIMEOUT_PER_RPC_S * session.config.empty_rpcs
    before = await session.read_machine()
    with session.reporter.phase("empty RPCs", len(session.workers)) as phase:
        for done, worker in enumerate(filter(is_expected, session.workers), start=1):
            await session.call_while_expected(worker, command, timeout_s)
            phase.update(done)
    session.record.empty_rpcs_contention = await session.contention_since(before)
