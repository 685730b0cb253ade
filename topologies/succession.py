"""The rules of a run for a worker that is killed, as its setting `after_death` says."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from analysis.record import WorkerChange
from controller.tables import WorkerRow
from experiment.design_parts import initial_rows
from experiment.errors import AgentFailed
from experiment.worker_plan import AfterDeath
from hosts.replay import SwitchNumbers
from topologies.agent_process import Message
from topologies.agents import Agent
from topologies.session import RealSession

log = logging.getLogger(__name__)

_NAME = re.compile(r"worker-(\d+)")

MakeSettings = Callable[[int, int, Sequence[int], SwitchNumbers], Message]
"""(number of a worker, its epoch, those of the processes before it, numbers of switches): its settings."""


@dataclass
class WorkerSuccession:
    """The `Succession` of all workers of a run; a test or the run sets its session before any is watched."""

    after_death: AfterDeath
    make_settings: MakeSettings
    session: RealSession | None = None

    @property
    def is_immediate(self) -> bool:
        return self.after_death == "wait"

    def note_death(self, agent: Agent) -> None:
        session = self._session
        session.note_worker_change(WorkerChange(worker=agent.name, change="died"))
        if not (self.is_immediate or any(each.alive for each in session.workers)):
            raise AgentFailed("all workers have died, and none is left that could go on")

    def next_settings(self, agent: Agent) -> Message:
        session, number = self._session, _number_of(agent)
        previous = session.worker_epochs.begin_epochs(number)
        epoch = session.worker_epochs.add_process(number, *session.switch_numbers(number))
        return self.make_settings(number, epoch, previous, session.switch_numbers(number))

    async def admit(self, agent: Agent) -> None:
        """Have the switch take the new epoch, and the process push what the one before it had not sent."""
        session, number = self._session, _number_of(agent)
        await session.retry_after_deaths(partial(_renew, session, number))
        for command in session.hints:
            await agent.ask(command)
        rows = (await agent.ask({"cmd": "resume"}))["rows"]
        session.note_worker_change(WorkerChange(worker=agent.name, change="joined", rows=rows))
        log.info("%s takes part again", agent.name)

    @property
    def _session(self) -> RealSession:
        assert self.session is not None
        return self.session


async def _renew(session: RealSession, number: int) -> None:
    home, [restarts] = session.home_of_worker(number), session.switch_numbers(number)
    async with session.controller(home) as controller:
        rows = session.worker_epochs.rows(initial_rows(session.config, switch=home), restarts)
        renewed = [row for row in rows if isinstance(row, WorkerRow) and row.worker == number]
        await controller.renew_callers(renewed)


def _number_of(agent: Agent) -> int:
    match = _NAME.fullmatch(agent.name)
    assert match is not None
    return int(match[1])
