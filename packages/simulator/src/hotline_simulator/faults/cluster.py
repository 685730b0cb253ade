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
from foundation.protocol.addressing import switch_name
from foundation.protocol.header import PS_CALLER_BASE
from hosts.replay import SwitchNumbers, renew
from hotline_simulator.faults.operations import REPLAYING
from hotline_simulator.faults.schedule import WORKERS, FaultSchedule
from hotline_simulator.faults.switch import ControllerSession
from hotline_simulator.faults.testbed import SimulatedTestbed

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

    def new_session(self, switch: int) -> ControllerSession: ...


class SimulatedCluster:
    def __init__(self, player: SchedulePlayer) -> None:
        self.player, self.testbed = player, player.testbed
        self.liveness = Liveness()
        self.incarnations = [0] * WORKERS
        self._latest_epoch = EPOCH
        self.switches = [RecoverableSwitch(self, number) for number in range(len(self.testbed.switches))]
        self.homes = [self.switches[number] for number in self.testbed.homes]

    def switch_numbers(self, w: int) -> SwitchNumbers:
        """Return how often each home of a worker has restarted."""
        return tuple(self.switches[number].restarts for number in self.testbed.homes_of_worker(w))

    def has_replayed(self, home: int, restarts: int) -> bool:
        """Return whether all workers have replayed what a home that restarted so often had lost."""
        states = self.testbed.operations.progress.state
        is_complete = not (self.testbed.dead[:WORKERS].any() or self.testbed.successors)
        return is_complete and all(
            client.log is not None
            and client.log.switch_numbers[self.testbed.homes_of_worker(w).index(home)] == restarts
            and not client.has_unreplayed and states[w] != REPLAYING
            for w, client in enumerate(self.testbed.network.clients)
            if home in self.testbed.homes_of_worker(w)
        )  # fmt: skip

    def is_worker_lost(self) -> bool:
        # While the schedule is closing, no fault is left that would restart a worker.
        dead_agents, permanent_kill = self.testbed.dead, WORKER_KILLED.name
        return (self.player.is_closing and bool(dead_agents[:WORKERS].any())) or any(
            injection.kind == permanent_kill and dead_agents[injection.target]
            for injection in self.player.schedule.injections
        )

    def renew(self, w: int, incarnation: int, epoch: int, restarts: int, home: int) -> None:
        if incarnation != self.incarnations[w] or self.testbed.dead[w]:
            return
        if w in self.testbed.successors:
            self.testbed.successors[w].interrupt()
        else:
            client = self.testbed.network.clients[w]
            renew(client, client.log, epoch, restarts, home)
            self.testbed.wake_driver(w)

    # -- workers and servers

    def new_epoch(self) -> int:
        self._latest_epoch += 1
        return self._latest_epoch

    def kill_worker(self, w: int) -> None:
        self.testbed.kill_agent(w)
        self.incarnations[w] += 1

    async def succeed_worker(self, w: int) -> None:
        """Start a worker that ends the push of a killed one; return when it takes part, or is killed."""
        incarnation, [number] = self.incarnations[w], self.testbed.homes_of_worker(w)
        home = self.switches[number]
        host = self.testbed.begin_succession(w, self.switch_numbers(w))
        while not host.is_done:
            await asyncio.sleep(_POLL_S)
            if incarnation != self.incarnations[w]:
                return
        home.epochs[w] = self.new_epoch()
        self.testbed.end_succession(w, home.epochs[w], self.switch_numbers(w))
        await self.player.retry(lambda: home.admit_worker(w))

    def kill_server(self, p: int) -> None:
        self.testbed.kill_agent(WORKERS + p)
        self.liveness.mark_down(f"ps-{p}")

    def start_server(self, p: int) -> None:
        self.testbed.restart_server(p)
        self.liveness.mark_up(f"ps-{p}")


class RecoverableSwitch:
    """A switch of the cluster: a `RecoverableCluster`, whose recovery is that of real runs."""

    def __init__(self, cluster: SimulatedCluster, number: int) -> None:
        self._cluster, self._number = cluster, number
        self._player, self._testbed = cluster.player, cluster.testbed
        self._switch = self._testbed.switches[number]
        self.switch_name, self.liveness = switch_name(number), cluster.liveness
        self.is_home = number in self._testbed.homes
        self.jobs = [self._testbed.arm.job] if self.is_home else []
        self.epochs = [EPOCH] * WORKERS
        self.restarts = 0
        self._ended = asyncio.Event()
        self._boot_ns = 0
        self._settled_restarts = 0  # `restarts` of the latest switch for which `_settle` was started

    async def hot_sets(self) -> Mapping[int, Sequence[int]]:
        wanted = self._testbed.keys_at(self._number, self._player.wanted_keys)
        topology = self._testbed.topology
        if topology is not None and topology.has_levels:
            moved = {entry.key for entry in self._testbed.entries} - {
                entry.key for entry in self._switch.entries
            }
            wanted = [key for key in wanted if key not in moved]
        return dict.fromkeys(self.jobs, wanted)

    @property
    def is_dead(self) -> bool:
        return self._ended.is_set()

    @property
    def refused(self) -> int:
        """Number of frames that have arrived while the switch was off."""
        return int(self._testbed.world.switches.refused[self._number])

    def kill(self, boot_ns: int) -> None:
        """Kill the switch; the next process answers RPCs `boot_ns` after it has started."""
        self._set_off(True)
        self._boot_ns = boot_ns
        self._ended.set()

    def _set_off(self, is_off: bool) -> None:
        self._switch.is_off, self._testbed.world.switches[self._number].is_off = is_off, int(is_off)

    async def wait_for_switch_end(self) -> None:
        await self._ended.wait()

    async def start_switch(self) -> int:
        self._ended.clear()
        self.restarts += 1
        self._switch.restart()
        self._switch.is_off = True
        self.epochs = [self._cluster.new_epoch()] * WORKERS
        return self.epochs[0]

    async def wait_for_switch_answer(self) -> None:
        await asyncio.sleep(self._boot_ns / _NS_PER_S)
        self._set_off(False)

    def controller(self) -> AbstractAsyncContextManager[Controller]:
        return Controller(switch=self._player.new_session(self._number))

    def rows(self, epoch: int) -> Sequence[TableRow]:
        """Return the arm's rows; `epoch` is that of all callers but the workers, which have their own."""
        return [
            # Workers are the callers from 1 on.
            replace(row, epoch=epoch if row.worker >= PS_CALLER_BASE else self.epochs[row.worker - 1])
            if isinstance(row, WorkerRow)
            else row
            for row in self._testbed.rows_of(self._number)
        ]

    async def renew_workers(self, epoch: int) -> None:
        """Send the new epoch to each worker, to arrive after a random delay unless the worker has died."""
        for w in range(WORKERS):
            homes = self._testbed.homes_of_worker(w)
            if self._number not in homes:
                continue
            home = homes.index(self._number)
            renewal = partial(
                self._cluster.renew, w, self._cluster.incarnations[w], epoch, self.restarts, home
            )
            self._player.call_later(self._player.random.randrange(_MAX_RENEWAL_NS), renewal)
        settle = control_of(self._testbed.design).settle
        if settle is not None and self._settled_restarts < self.restarts:
            restarts = self._settled_restarts = self.restarts

            def begin_settling() -> None:
                self._player.start_task(self._settle(settle, epoch, restarts))

            self._player.call_later(0, begin_settling)

    async def _settle(
        self, settle: Callable[[Controller, int, int], Awaitable[None]], epoch: int, restarts: int
    ) -> None:
        """Make servers apply replayed updates after all workers' replays; return if a worker is lost."""
        if not await self.wait_for_replays(restarts):
            return

        async def settle_once() -> None:
            async with self.controller() as controller:
                await settle(controller, self.jobs[0], epoch)

        await self._player.retry(settle_once)

    async def wait_for_replays(self, restarts: int) -> bool:
        """Wait until the switch is restored and all workers have replayed to it; False if they never will."""
        # `_settle` has to wait: its controller would supersede the one that restores the switch.
        while not (self.liveness.all_up and self._cluster.has_replayed(self._number, restarts)):
            await asyncio.sleep(_POLL_S)
            if self.restarts != restarts or self._cluster.is_worker_lost():
                return False
        return True

    async def admit_worker(self, w: int) -> None:
        async with self.controller() as controller:
            rows = [row for row in self._switch.rows.values() if isinstance(row, WorkerRow)]
            current = [
                row for row in self.rows(_ANY_EPOCH) if isinstance(row, WorkerRow) and row.worker == w + 1
            ]
            await controller.remove(*(row for row in rows if row.worker == w + 1 and row not in current))
            await controller.install(*current)
