from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from controller.controller import Controller
from controller.errors import ControllerError
from controller.tables import InitialRow
from experiment.design_parts import initial_rows
from experiment.errors import SwitchFailed
from experiment.run_config import EPOCH
from foundation.protocol.leaf_spine import SPINE
from topologies.session import RealSession

log = logging.getLogger(__name__)


class RecoverableRun:
    """A run as the recovery of one of its switches sees it, by default of the only one."""

    def __init__(self, session: RealSession, number: int = SPINE) -> None:
        self._session, self._number = session, number
        self._switch = session.switches[number]
        self.switch_name = self._switch.name
        self.liveness = session.liveness
        network = session.config.leaf_spine
        self._network = network
        is_home = network is None or number in network.homes
        self.jobs = [arm.job for arm in session.config.every_arm if is_home]

    async def hot_sets(self) -> Mapping[int, Sequence[int]]:
        hot_sets = self._session.hot_sets
        if self._network is None or not self.jobs:
            return dict(hot_sets) if self.jobs else {}
        keys_by_home, moved = self._network.keys_by_home, await self._keys_of_other_levels()
        own = {job: keys_by_home(keys)[self._number] for job, keys in hot_sets.items()}
        return {job: [key for key in keys if (job, key) not in moved] for job, keys in own.items()}

    async def _keys_of_other_levels(self) -> set[tuple[int, int]]:
        """Return the jobs and keys of rows that other homes have, if rows may move from one to another."""
        if self._network is None or not self._network.has_levels:
            return set()
        found: set[tuple[int, int]] = set()
        for home in set(self._network.homes) - {self._number}:
            with suppress(ControllerError):  # a switch that has ended has no rows
                async with self._session.reader(home) as controller:
                    found |= {(param.job, param.key) for param in await controller.entries()}
        return found

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
        async with self._session.controller(self._number) as controller:
            yield controller

    def rows(self, epoch: int) -> Sequence[InitialRow]:
        rows = initial_rows(self._session.config, epoch=epoch, switch=self._number)
        return self._session.worker_epochs.rows(rows, epoch - EPOCH)

    async def renew_workers(self, epoch: int) -> None:
        restarts = epoch - EPOCH  # as in `start_switch`
        for number, worker in enumerate(self._session.workers, start=1):
            homes = [SPINE] if self._network is None else self._network.homes_of_worker(number)
            if self._number not in homes:
                continue
            home = homes.index(self._number)
            worker_epoch = self._session.worker_epochs.current(number, restarts)
            epochs = {str(job): worker_epoch for job in self.jobs}
            await worker.send({"cmd": "renew", "epochs": epochs, "switch": restarts, "home": home})
