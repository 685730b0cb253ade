"""Train in a closed loop until the PS agents have seen enough updates to choose a hot set from."""

from __future__ import annotations

from designs.hotset import PROFILE
from hosts.workload.trace import Trace
from topologies.agents import Agent, call_all
from topologies.config import Config
from topologies.session import Session

_MARGIN = 1.02
"""Mini-batches differ in size."""


async def profile(session: Session, trace: Trace) -> None:
    """Run the profile job over as many pushed lanes as configured, and have the update logs written.

    It ends after one pass over the trace: then every update has been counted, and more tell nothing.
    """
    workers = len(session.workers)
    steps = steps_to_profile(session.config, trace)
    done: dict[Agent, int] = {}
    with session.reporter.phase(PROFILE.name, steps * workers) as phase:

        def on_progress(agent: Agent, steps_done: int) -> None:
            done[agent] = steps_done
            phase.update(sum(done.values()))

        await session.run_steps(PROFILE, session.take_steps(steps), steps, on_progress=on_progress)
        await call_all(session.servers, {"cmd": "flush"})


def steps_to_profile(config: Config, trace: Trace) -> int:
    """Steps of each worker that push as many lanes as configured, one pass over the trace at most."""
    passes = _MARGIN * config.lanes_to_profile / max(len(trace.position), 1)
    return min(int(passes * trace.steps) + 1, trace.steps)
