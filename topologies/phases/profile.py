"""Train in a closed loop until the PS agents have seen enough updates to choose a hot set from."""

from __future__ import annotations

from protocol.arms import PROFILE
from topologies.agents import Agent, call_all
from topologies.session import Session


async def profile(session: Session, lanes_per_step: float) -> None:
    """Run the profile job over as many pushed lanes as configured, and have the update logs written."""
    workers = len(session.workers)
    steps = int(session.config.lanes_to_profile / lanes_per_step / workers * 1.02) + 1
    done: dict[Agent, int] = {}
    with session.reporter.phase(PROFILE.name, steps * workers) as phase:

        def on_progress(agent: Agent, steps_done: int) -> None:
            done[agent] = steps_done
            phase.update(sum(done.values()))

        await session.run_steps(PROFILE, session.take_steps(steps), steps, on_progress=on_progress)
        await call_all(session.servers, {"cmd": "flush"})
