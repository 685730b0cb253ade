"""A schedule's switch, servers and workers, as `experiment.recovery` sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Protocol

from controller.controller import Controller
from controller.tables import Row, Worker
from experiment.config import EPOCH
from experiment.liveness import Liveness
from foundation.protocol.header import PS_CALLER_BASE
from hosts.worker.replay import renew
from simulator.faults.bed import Bed
from simulator.faults.schedule import WORKERS
from simulator.faults.switch import Session

_LATEST_WORD_NS = 2_000_000
"""Within which a worker has heard what it is told."""
_NS = 1_000_000_000


class Stage(Protocol):
    """Who plays the schedule."""

    bed: Bed
    random: Random
    wanted: list[int]

    def at(self, after_ns: int, what: Callable[[], None]) -> None:
        """Do something later."""
        ...

    def session(self) -> Session:
        """A controller's connection."""
        ...


class Virtual:
    """Those of a schedule. Its processes die here, and come back."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._bed = stage, stage.bed
        self.liveness = Liveness()
        self.jobs = [stage.bed.arm.job]
        self.epochs = [EPOCH] * WORKERS
        """Of each worker."""
        self.restarts = 0
        """Of the switch."""
        self._latest_epoch = EPOCH
        self._lives = [0] * WORKERS
        self._switch_ended = asyncio.Event()
        self._boots_ns = 0

    @property
    def hot_sets(self) -> Mapping[int, Sequence[int]]:
        """What is wanted by now."""
        return {self.jobs[0]: self._stage.wanted}

    # -- the switch

    @property
    def switch_is_dead(self) -> bool:
        """Its process has ended, and there is no other one."""
        return self._switch_ended.is_set()

    def kill_switch(self, boots_ns: int) -> None:
        """End its process; the next one answers so long after its start."""
        self._bed.switch.is_off, self._bed.world.me.is_off = True, 1
        self._boots_ns = boots_ns
        self._switch_ended.set()

    async def until_switch_ends(self) -> None:
        """Wait for the next kill, or find that it has been killed."""
        await self._switch_ended.wait()

    async def start_switch(self) -> int:
        """Start another process."""
        self._switch_ended.clear()
        self.restarts += 1
        self._bed.switch.restart()
        self._bed.switch.is_off = True
        self.epochs = [self.new_epoch()] * WORKERS
        return self.epochs[0]

    async def until_switch_answers(self) -> None:
        """Wait until it has booted."""
        await asyncio.sleep(self._boots_ns / _NS)
        self._bed.switch.is_off, self._bed.world.me.is_off = False, 0

    def controller(self) -> AbstractAsyncContextManager[Controller]:
        """One among others, which may outbid it."""
        return Controller(switch=self._stage.session())

    def rows(self, epoch: int) -> Sequence[Row]:
        """Of the arm; a worker that has come back since has another epoch."""
        return [
            replace(row, epoch=epoch if row.worker >= PS_CALLER_BASE else self.epochs[row.worker - 1])
            if isinstance(row, Worker)
            else row
            for row in self._bed.rows
        ]

    async def renew_workers(self, epoch: int) -> None:
        """Each hears of it a little later, unless it has died by then."""
        for w in range(WORKERS):
            heard = partial(self._renew, w, self._lives[w], epoch, self.restarts)
            self._stage.at(self._stage.random.randrange(_LATEST_WORD_NS), heard)

    def _renew(self, w: int, life: int, epoch: int, switch: int) -> None:
        if life == self._lives[w] and not self._bed.dead[w]:
            client = self._bed.network.clients[w]
            renew(client, client.log, epoch, switch)
            self._bed.wake(w)

    # -- workers and servers

    def new_epoch(self) -> int:
        """One that nobody has had."""
        self._latest_epoch += 1
        return self._latest_epoch

    def kill_worker(self, w: int) -> None:
        """End its process."""
        self._bed.silence(w)
        self._lives[w] += 1

    def start_worker(self, w: int) -> None:
        """Start another one."""
        self.epochs[w] = self.new_epoch()
        self._bed.revive_worker(w, self.epochs[w], self.restarts)

    async def admit(self, w: int) -> None:
        """A controller has the switch know a worker by its epoch, and no longer by an earlier one."""
        async with self.controller() as controller:
            rows = [row for row in self._bed.switch.rows.values() if isinstance(row, Worker)]
            mine = next(row for row in self.rows(0) if isinstance(row, Worker) and row.worker == w + 1)
            await controller.remove(*(row for row in rows if row.worker == w + 1 and row != mine))
            await controller.install(mine)

    def kill_server(self, p: int) -> None:
        """End its process."""
        self._bed.silence(WORKERS + p)
        self.liveness.mark_down(f"ps-{p}")

    def start_server(self, p: int) -> None:
        """Start another one, which recovers."""
        self._bed.revive_server(p)
        self.liveness.mark_up(f"ps-{p}")
