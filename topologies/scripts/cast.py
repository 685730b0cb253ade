"""Somebody's script plays the workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from experiment.phases.measure import measure
from foundation.designs.registry import design
from topologies.calibrate import WARM_UP_STEPS, calibrate, probe
from topologies.cast import COLLECTOR, Cast, Setting
from topologies.isolation import isolated
from topologies.scripts.company import Company, company
from topologies.scripts.session import ScriptSession


@asynccontextmanager
async def played_by_scripts(setting: Setting) -> AsyncIterator[Cast]:
    """A process of the script for each worker and arm; at the end they are ended."""
    config, record = setting.config, setting.record
    async with company(
        config,
        setting.run,
        setting.placement,
        setting.network,
        COLLECTOR,
        setting.health,
        setting.reporter,
    ) as found:
        session = ScriptSession(
            config=config,
            run=setting.run,
            record=record,
            reporter=setting.reporter,
            network=setting.network,
            workers=found.workers,
            servers=found.servers,
            health=setting.health,
            arms=found.arms,
        )
        yield Cast(session, found.space, partial(_traffic, session, found, setting.placement.rest))


async def _traffic(session: ScriptSession, found: Company, rest: int | None) -> None:
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
    await design(session.config.design).prepare(session, course)
    with isolated(rest, []):
        await calibrate(session, await probe(session))
        await measure(session, _nothing)
    for arm in found.arms:
        await arm.check()


async def _nothing() -> None:
    """There is nothing to be looked at between two rounds."""
