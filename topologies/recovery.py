from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from controller.controller import Controller
from controller.tables import InitialRow
from experiment.design_parts import initial_rows
from experiment.errors import SwitchFailed
from experiment.run_config import EPOCH
from topologies.session import RealSession

log = logging.getLogger(__name__)


class RecoverableRun:
    def __init__(self, session: RealSession) -> None:
        self._session = session
        self._switch = session.network.switch
        self.liveness = session.liveness
        self.jobs = [arm.job for arm in session.config.every_arm]

    @property
    def hot_sets(self) -> Mapping[int, Sequence[int]]:
        return dict(self._session.hot_sets)

    async def wait_for_switch_end(self) -> None:
        """Wait for the end of the switch's process; raise SwitchFailed if workers keep no replay logs."""
        try:
            await self._switch.wait_until_failed()
        except SwitchFailed as error:
            if not self._session.config.recovery.replay_log:
                raise
            log.warning("%s; it is started again", error)

    async def start_switch(self) -> int:
        await self._switch.restart()
        return EPOCH + self._switch.restarts  # each restarted switch has another epoch

    async def wait_for_switch_answer(self) -> None:
        await self._switch.wait_until_listening()

    @asynccontextmanager
    async def controller(self) -> AsyncIterator[Controller]:
        async with self._session.controller() as controller:
            yield controller

    def rows(self, epoch: int) -> Sequence[InitialRow]:
        return self._session.worker_epochs.rows(
            initial_rows(self._session.config, epoch=epoch), epoch - EPOCH
        )

    async def renew_workers(self, epoch: int) -> None:
        switch_restarts = epoch - EPOCH  # as in `start_switch`
        for number, worker in enumerate(self._session.workers, start=1):
            worker_epoch = self._session.worker_epochs.current(number, switch_restarts)
            epochs = {str(job): worker_epoch for job in self.jobs}
            await worker.send({"cmd": "renew", "epochs": epochs, "switch": switch_restarts})
