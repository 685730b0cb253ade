"""Workers that are somebody's script, and the phases that they go through."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from experiment.designs import prepare
from experiment.errors import RunFailed
from experiment.phases.measure import measure
from foundation.designs.registry import design
from topologies.calibrate import WARM_UP_STEPS, calibrate, probe
from topologies.isolation import isolated
from topologies.running_cluster import COLLECTOR, RunContext, RunningCluster
from topologies.scripts.group import ScriptGroup, script_group
from topologies.scripts.session import ScriptSession


@asynccontextmanager
async def script_cluster(context: RunContext) -> AsyncIterator[RunningCluster]:
    """A process of the script for each worker and arm; at the end they are ended."""
    config, record = context.config, context.record
    async with script_group(
        config,
        context.run,
        context.placement,
        context.network,
        COLLECTOR,
        context.health,
        context.reporter,
    ) as found:
        session = ScriptSession(
            config=config,
            run=context.run,
            record=record,
            reporter=context.reporter,
            network=context.network,
            workers=found.workers,
            servers=found.servers,
            health=context.health,
            placement=context.placement,
            arms=found.arms,
        )
        yield RunningCluster(session, found.space, partial(_traffic, session, found, context.placement.rest))


async def _traffic(session: ScriptSession, found: ScriptGroup, rest: int | None) -> None:
    """As for our own workers, but at nobody's pace: there are no loads to be found."""
    first = session.config.every_arm[0]
    with session.reporter.phase("first steps"):
        course = await session.course(first, WARM_UP_STEPS)
    session.record.workload = {
        "name": Path(session.config.script_command[0]).name,
        "parameters": found.space.size,
        "lanes_per_step": course.lanes / course.steps / session.config.workers,
        "trains": True,
    }
    await prepare(design(session.config.design), session, course)
    with isolated(rest, []):
        probed = await probe(session)
        _check_goes_on(session)
        await calibrate(session, probed)
        _check_goes_on(session)
        await measure(session, _nothing)
    for arm in found.arms:
        await arm.check()


def _check_goes_on(session: ScriptSession) -> None:
    """Raise `RunFailed` where there is nothing left to be measured."""
    ended = [arm.name for arm in session.config.measured if session.has_ended(arm)]
    if ended:
        raise RunFailed(
            f"script: it has ended in arm {', '.join(ended)} before anything was measured; "
            "let it take more steps: 1,000 pushes of each worker, or as many as half a minute takes"
        )


async def _nothing() -> None:
    """There is nothing to be looked at between two rounds."""
