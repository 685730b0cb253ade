from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from experiment.design_parts import prepare
from experiment.errors import RunFailed
from experiment.phases.measure import measure
from foundation.designs.registry import design
from hosts.keys import KeySpace
from hotline_scripts.run.group import ScriptGroup, script_group
from hotline_scripts.run.session import ScriptSession
from topologies.calibrate import WARM_UP_STEPS, calibrate, probe_capacities
from topologies.cpu_counters import isolate
from topologies.fleet import RunContext
from topologies.running_cluster import RunningCluster


@asynccontextmanager
async def script_cluster(context: RunContext) -> AsyncIterator[RunningCluster]:
    async with script_group(context) as scripts:
        context = with_tables(context, scripts.space)
        session = ScriptSession(
            **context._asdict(), workers=scripts.workers, servers=scripts.servers, arms=scripts.arms
        )
        yield RunningCluster(session, scripts.space, partial(_run_phases, session, scripts))


def with_tables(context: RunContext, space: KeySpace) -> RunContext:
    """Return the context of a run whose script has these tables; raise `ConfigError` if they do not fit."""
    config = context.config.with_tables_of_script(space.ranges)
    context.record.config = config.model_dump(mode="json")
    return context._replace(config=config)


async def _run_phases(session: ScriptSession, scripts: ScriptGroup) -> None:
    """Run all phases. Scripts set their own pace, so no loads are calibrated."""
    first_arm = session.config.every_arm[0]
    with session.reporter.phase("first steps"):
        observed_workload = await session.observe(first_arm, WARM_UP_STEPS)
    session.record.workload = {
        "name": Path(session.config.script_command[0]).name,
        "parameters": scripts.space.size,
        "dims": list(scripts.space.dims),
        "lanes_per_step": observed_workload.lanes_per_step,
        "trains": True,
    }
    _check_has_not_ended(session)
    await prepare(design(session.config.design), session, observed_workload)
    with isolate(session.placement.rest):
        probed_capacities = await probe_capacities(session)
        _check_has_not_ended(session)
        await calibrate(session, probed_capacities)
        _check_has_not_ended(session)
        await measure(session, _skip_check)
    for arm in scripts.arms:
        await arm.check()


def _check_has_not_ended(session: ScriptSession) -> None:
    ended_arms = [arm.name for arm in session.config.measured_arms if session.has_ended(arm)]
    if ended_arms:
        raise RunFailed(
            f"script: it has ended in arm {', '.join(ended_arms)} before anything was measured; "
            "let it take more steps: at least 1,000 pushes of each worker, or half a minute of pushes"
        )


async def _skip_check() -> None:
    """Check nothing between two rounds."""
