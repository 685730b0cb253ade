"""The simulated cluster as recoveries see it, which are those of real runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Protocol

from controller.controller import Controller
from controller.controller_ops import control_of
from controller.tables import TableRow, WorkerRow
from experiment.faults import WORKER_KILLED
from experiment.liveness import Liveness
from experiment.run_config import EPOCH
from foundation.protocol.header import PS_CALLER_BASE
from hosts.replay import renew
from hotline_simulator.faults.operations import REPLAYING
from hotline_simulator.faults.schedule import WORKERS, FaultSchedule
from hotline_simulator.faults.switch import ControllerSession
from hotline_simulator.faults.testbed import SimulatedTestbed
from hotline_simulator.state import P4_SWITCH

_MAX_RENEWAL_NS = 2_000_000  # maximum delay of a control message to a worker
_NS_PER_S = 1_000_000_000
_ANY_EPOCH = 0  # for reading the rows of workers, which have their own epochs
_POLL_S = 0.0005  # interval of checks whether all workers have replayed


class SchedulePlayer(Protocol):
    testbed: SimulatedTestbed
    schedule: FaultSchedule
    random: Random
    wanted_keys: list[int]

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> None: ...

    is_closing: bool

    def start_task(self, coroutine: Coroutine[object, None, object]) -> asyncio.Task[object]: ...

    async def retry(self, operation: Callable[[], Coroutine[object, object, None]]) -> None: ...

    def new_session(self) -> ControllerSession: ...


class SimulatedCluster:
    def __init__(self, player: SchedulePlayer) -> None:
        self._player, self._testbed = player, player.testbed
        self.liveness = Liveness()
        self.jobs = [player.testbed.arm.job]
        self.epochs = [EPOCH] * WORKERS
        self.restarts = 0
        self._latest_epoch = EPOCH
        self.incarnations = [0] * WORKERS
        self._switch_ended = asyncio.Event()
        self._boot_ns = 0
        self._settled_restarts = 0  # `restarts` of the latest switch for which `_settle` was started

    @property
    def hot_sets(self) -> Mapping[int, Sequence[int]]:
        return {self.jobs[0]: self._player.wanted_keys}

    # -- the switch

    @property
    def switch_is_dead(self) -> bool:
        return self._switch_ended.is_set()

    def kill_switch(self, boot_ns: int) -> None:
        """Kill the switch; the next process answers RPCs `boot_ns` after it has started."""
        self._testbed.switch.is_off, self._testbed.world.switches[P4_SWITCH].is_off = True, 1
        self._boot_ns = boot_ns
        self._switch_ended.set()

    async def wait_for_switch_end(self) -> None:
        await self._switch_ended.wait()

    async def start_switch(self) -> int:
        self._switch_ended.clear()
        self.restarts += 1
        self._testbed.switch.restart()
        self._testbed.switch.is_off = True
        self.epochs = [self.new_epoch()] * WORKERS
        return self.epochs[0]

    async def wait_for_switch_answer(self) -> None:
        await asyncio.sleep(self._boot_ns / _NS_PER_S)
        self._testbed.switch.is_off, self._testbed.world.switches[P4_SWITCH].is_off = False, 0

    def controller(self) -> AbstractAsyncContextManager[Controller]:
        return Controller(switch=self._player.new_session())

    def rows(self, epoch: int) -> Sequence[TableRow]:
        """Return the arm's rows; `epoch` is that of all callers but the workers, which have their own."""
        return [
            # Workers are the callers from 1 on.
            replace(row, epoch=epoch if row.worker >= PS_CALLER_BASE else self.epochs[row.worker - 1])
            if isinstance(row, WorkerRow)
            else row
            for row in self._testbed.rows
        ]

    async def renew_workers(self, epoch: int) -> None:
        """Send the new epoch to each worker, to arrive after a random delay unless the worker has died."""
        for w in range(WORKERS):
            renewal = partial(self._renew, w, self.incarnations[w], epoch, self.restarts)
            self._player.call_later(self._player.random.randrange(_MAX_RENEWAL_NS), renewal)
        settle = control_of(self._testbed.design).settle
        if settle is not None and self._settled_restarts < self.restarts:
            switch_number = self._settled_restarts = self.restarts

            def begin_settling() -> None:
                self._player.start_task(self._settle(settle, epoch, switch_number))

            self._player.call_later(0, begin_settling)

    async def _settle(
        self, settle: Callable[[Controller, int, int], Awaitable[None]], epoch: int, switch_number: int
    ) -> None:
        """Make servers apply replayed updates after all workers' replays; return if a worker is lost."""
        if not await self.wait_for_replays(switch_number):
            return

        async def settle_once() -> None:
            async with self.controller() as controller:
                await settle(controller, self.jobs[0], epoch)

        await self._player.retry(settle_once)

    async def wait_for_replays(self, switch_number: int) -> bool:
        """Wait until a switch is restored and all workers have replayed to it; False if they never will."""
        # `_settle` has to wait: its controller would supersede the one that restores the switch.
        while not (self.liveness.all_up and self._has_replayed(switch_number)):
            await asyncio.sleep(_POLL_S)
            if self.restarts != switch_number or self._is_worker_lost():
                return False
        return True

    def _is_worker_lost(self) -> bool:
        # While the schedule is closing, no fault is left that would restart a worker.
        dead_agents, permanent_kill = self._testbed.dead, WORKER_KILLED.name
        return (self._player.is_closing and bool(dead_agents[:WORKERS].any())) or any(
            injection.kind == permanent_kill and dead_agents[injection.target]
            for injection in self._player.schedule.injections
        )

    def _has_replayed(self, switch_number: int) -> bool:
        states = self._testbed.operations.progress.state
        is_complete = not (self._testbed.dead[:WORKERS].any() or self._testbed.successors)
        return is_complete and all(
            client.log is not None and client.log.switch_number == switch_number and not client.has_unreplayed
            and states[w] != REPLAYING
            for w, client in enumerate(self._testbed.network.clients)
        )  # fmt: skip

    def _renew(self, w: int, incarnation: int, epoch: int, switch_number: int) -> None:
        if incarnation != self.incarnations[w] or self._testbed.dead[w]:
            return
        if w in self._testbed.successors:
            self._testbed.successors[w].interrupt()
        else:
            client = self._testbed.network.clients[w]
            renew(client, client.log, epoch, switch_number)
            self._testbed.wake_driver(w)

    # -- workers and servers

    def new_epoch(self) -> int:
        self._latest_epoch += 1
        return self._latest_epoch

    def kill_worker(self, w: int) -> None:
        self._testbed.kill_agent(w)
        self.incarnations[w] += 1

    async def succeed_worker(self, w: int) -> None:
        """Start a worker that ends the push of a killed one; return when it takes part, or is killed."""
        incarnation = self.incarnations[w]
        host = self._testbed.begin_succession(w, self.restarts)
        while not host.is_done:
            await asyncio.sleep(_POLL_S)
            if incarnation != self.incarnations[w]:
                return
        self.epochs[w] = self.new_epoch()
        self._testbed.end_succession(w, self.epochs[w], self.restarts)
        await self._player.retry(lambda: self.admit_worker(w))

    async def admit_worker(self, w: int) -> None:
        async with self.controller() as controller:
            rows = [row for row in self._testbed.switch.rows.values() if isinstance(row, WorkerRow)]
            current = [
                row for row in self.rows(_ANY_EPOCH) if isinstance(row, WorkerRow) and row.worker == w + 1
            ]
            await controller.remove(*(row for row in rows if row.worker == w + 1 and row not in current))
            await controller.install(*current)

    def kill_server(self, p: int) -> None:
        self._testbed.kill_agent(WORKERS + p)
        self.liveness.mark_down(f"ps-{p}")

    def start_server(self, p: int) -> None:
        self._testbed.restart_server(p)
        self.liveness.mark_up(f"ps-{p}")
