"""Play a schedule of faults on the simulated testbed, and judge the history of operations afterwards."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from itertools import chain, count
from random import Random
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from controller.errors import ControllerError
from experiment.faults import FRAME_FAULTS
from experiment.switch_recovery import supervise_switch
from hotline_agents.interface import NEVER
from hotline_simulator.faults.asyncio_loop import VirtualLoop
from hotline_simulator.faults.cluster import RecoverableSwitch, SimulatedCluster
from hotline_simulator.faults.model import Judgement, judge
from hotline_simulator.faults.operations import IDLE, KEYS, OPERATIONS, RPCS_REACHED, SERVER_LOG_FULL
from hotline_simulator.faults.schedule import WORKERS, FaultInjection, FaultSchedule
from hotline_simulator.faults.switch import ControllerProcess, ControllerSession
from hotline_simulator.faults.testbed import SimulatedTestbed
from hotline_simulator.loop import FRAMES_DEFERRED, NO_EVENTS, OUT_OF_ROOM, TIME_REACHED

MS = 1_000_000  # a millisecond, in ns
_NS_PER_US = 1_000
_TIMEOUT_NS, _TIMEOUT_UNDER_HIGH_LOSS_NS = 60_000 * MS, 1_000_000 * MS
"""Virtual time after which a schedule counts as stuck. Those that come to rest take up to 6 s, and up to
160 s if 30 % of the frames are lost."""
_HIGH_LOSS = 0.1
_SLICE_NS = 5 * MS  # interval of checks whether the operations have ended, while servers act
_MAX_CLOSING_NS = 60_000 * MS
"""Maximum time from the last operation until all is at rest, if servers also act without requests; later the
schedule counts as stuck."""
_PACKET_IN_HEADER_BYTES = 2
"""Header of frames to the CPU port (the ingress port), which a P4Runtime server sends as metadata."""
_MIN_RETRY_PAUSE_S, _MAX_RETRY_PAUSE_S, _RETRY_BACKOFF = 0.002, 1.0, 1.3


class InjectedFault(Protocol):
    has_taken_effect: bool
    """Whether the fault has affected a frame or a process; False until the fault has ended."""

    def inject(self) -> None: ...


FaultKinds = Mapping[str, Callable[["Player", FaultInjection], InjectedFault]]


class ScheduleOutcome(NamedTuple):
    took_effect: bool
    rpcs: int
    during: int
    """RPCs that were answered after the first fault began; all RPCs if only frames are affected."""
    recovery_ms: float
    """Time from the end of the last fault until all operations pending at that time had completed."""
    at_rest: bool  # whether everything ended in time; False means that the schedule is stuck
    judgement: Judgement

    @property
    def holds(self) -> bool:
        return self.at_rest and self.judgement.holds


class Player:
    def __init__(self, testbed: SimulatedTestbed, schedule: FaultSchedule, kinds: FaultKinds) -> None:
        self.testbed, self.schedule = testbed, schedule
        self._kinds = kinds
        self.random = Random(schedule.seed)
        self.wanted_keys = self.random.sample(range(KEYS), schedule.hot)
        testbed.reset(schedule, self.wanted_keys)
        self.loop = VirtualLoop()
        self.tasks: set[asyncio.Task[object]] = set()
        self.sessions: list[ControllerSession] = []
        self.cluster = SimulatedCluster(self)
        self.injections = list(schedule.injections)  # remaining injections
        self.active_faults = 0
        self.faults: list[InjectedFault] = []
        self.recoveries: list[tuple[int, int]] = []  # time, ns, and RPCs answered before the fault
        self.worker_restart_times: list[tuple[int, int]] = []  # worker and time, ns
        self.blind_spans: list[list[int]] = []  # begin and end, ns, of the intervals of `judge`
        self.is_closing = False
        self._timeout_ns = _TIMEOUT_UNDER_HIGH_LOSS_NS if schedule.loss > _HIGH_LOSS else _TIMEOUT_NS
        self._closing_deadline_ns, self._are_exchanges_suspended = self._timeout_ns, False
        # Heap of time, order and callback: timers of the same time run in the order of their creation.
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    # -- the loop

    def run(self) -> ScheduleOutcome:
        try:
            for w in range(WORKERS):
                self.testbed.wake_driver(w)
            self._supervisions = [self.start_task(supervise_switch(each)) for each in self.cluster.switches]
            self._set_rpc_target()
            at_rest = self._run_loop()
            return self._outcome(at_rest)
        finally:
            self._close()

    def _run_loop(self) -> bool:
        testbed = self.testbed
        while True:
            until = min(self._next_due(), self._timeout_ns)
            reason = testbed.run(until) if self._servers_are_passive else self._run_while_servers_act(until)
            if reason == FRAMES_DEFERRED:
                self._handle_deferred_frames()
            elif reason == RPCS_REACHED:
                self._on_rpcs_reached()
            elif reason == SERVER_LOG_FULL:
                self._empty_server_log(int(testbed.world.header.agent) - WORKERS)
            elif reason == OUT_OF_ROOM:
                return False
            elif reason == NO_EVENTS and until == self._timeout_ns:
                # Workers have no operation left, so the RPC target is never reached.
                # Without an injection to come, nothing can happen any more in a run that is closing or that
                # waits for a fault to end.
                if self.is_closing or (self.active_faults and not self.injections):
                    return self.is_closing and self._has_ended()
                self._on_rpcs_reached()
            elif until == self._timeout_ns:
                return False
            else:
                testbed.now = until
                self._run_due_callbacks(until)

    @property
    def _servers_are_passive(self) -> bool:
        """Whether servers act on requests only, so that no event remains after workers' operations."""
        return self._are_exchanges_suspended or not self.testbed.servers_exchange

    def _run_while_servers_act(self, until: int) -> int:
        """Run until a time; return NO_EVENTS if only servers' spontaneous actions remain."""
        testbed = self.testbed
        while True:
            slice_end = min(until, testbed.now + _SLICE_NS)
            reason = testbed.run(slice_end)
            if reason != TIME_REACHED or slice_end == until:
                return reason
            if until == self._timeout_ns and self._operations_ended():
                return NO_EVENTS
            testbed.now = slice_end

    def _operations_ended(self) -> bool:
        client_headers, progress = self.testbed.world.workers.header, self.testbed.operations.progress
        return all(
            self._is_dead(w)
            or (
                client_headers.pending[w] == 0
                and not client_headers.unreplayed[w]
                and (self.is_closing or progress.operations[w] == OPERATIONS)
            )
            for w in range(WORKERS)
        )

    def _empty_server_log(self, p: int) -> None:
        server = self.testbed.servers[p]
        server.state.header.n_connection_records = 0
        if int(server.state.header.journal_length):
            server.persist()

    def _next_due(self) -> int:
        testbed = self.testbed
        due_times = [
            *(host.due for host in testbed.server_hosts if not self._is_dead(WORKERS + host.p)),
            *(worker.due for w, worker in testbed.external_workers.items() if not self._is_dead(w)),
        ]
        if self._timers:
            due_times.append(self._timers[0][0])
        return (
            max(min(self.loop.next_due(), *due_times), self.testbed.now)
            if due_times
            else self.loop.next_due()
        )

    def _run_due_callbacks(self, now: int) -> None:
        while self._timers and self._timers[0][0] <= now:
            heapq.heappop(self._timers)[2]()
        for server in self.testbed.server_hosts:
            if server.due <= now and not self._is_dead(WORKERS + server.p):
                server.wake(now)
                self.send_frames_of_server(server.p)
        for w, worker in self.testbed.external_workers.items():
            if worker.due <= now and not self._is_dead(w):
                worker.wake(now)
        self.loop.run_due(now)

    def _handle_deferred_frames(self) -> None:
        for is_at_controller, agent, octets in self.testbed.take_deferred():
            if is_at_controller:
                if (primary := self.testbed.switches[agent].primary) is not None:
                    primary.packet_ins.put_nowait(octets[_PACKET_IN_HEADER_BYTES:])
            elif agent < WORKERS:
                self.testbed.external_workers[agent].receive(octets)
            else:
                self.testbed.server_hosts[agent - WORKERS].receive(octets)
                self.send_frames_of_server(agent - WORKERS)
        self.loop.run_due(self.testbed.now)
        if self.testbed.is_rpc_target_reached:
            self.testbed.is_rpc_target_reached = False
            self._on_rpcs_reached()

    def send_frames_of_server(self, p: int) -> None:
        for frame in self.testbed.server_hosts[p].frames_to_send():
            self.testbed.send(WORKERS + p, frame)

    def _on_rpcs_reached(self) -> None:
        if self.injections:
            self._inject_next()
        elif not self.active_faults and not self.is_closing:
            self._stop_operations()
        self._set_rpc_target()

    def _inject_next(self) -> None:
        injection = self.injections.pop(0)
        self.active_faults += 1
        self.faults.append(self._kinds[injection.kind](self, injection))
        self.faults[-1].inject()
        if self.injections and (after_previous_us := self.injections[0].after_previous_us) is not None:
            self.call_later(after_previous_us * _NS_PER_US, self._inject_next)

    def _set_rpc_target(self) -> None:
        header = self.testbed.operations.header
        if self.injections:
            header.rpc_target = (
                self.injections[0].after if self.injections[0].after_previous_us is None else NEVER
            )
        else:
            header.rpc_target = NEVER if self.active_faults or self.is_closing else self.schedule.rpcs

    def call_later(self, delay_ns: int, callback: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.testbed.now + delay_ns, next(self._order), callback))

    def start_task(self, coroutine: Coroutine[object, None, object]) -> asyncio.Task[object]:
        self.loop.now = self.testbed.now
        task = self.loop.begin(coroutine)
        self.tasks.add(task)
        return task

    # -- faults

    def count_answered(self) -> int:
        # `answered` does not include RPCs that are still in the workers' logs.
        rpcs_in_logs = int(self.testbed.world.workers.header.rows.sum())
        return int(self.testbed.operations.header.answered) + rpcs_in_logs

    def mark_recovered(self, answered_rpcs_before: int) -> None:
        self.active_faults -= 1
        self.recoveries.append((self.testbed.now, answered_rpcs_before))
        self._set_rpc_target()

    def _stop_operations(self) -> None:
        if not self.recoveries:  # only frames are affected, from the beginning
            self.recoveries.append((self.testbed.now, 0))
        for links in self.testbed.links:
            links.is_impaired = 0
        self.is_closing = True
        self._closing_deadline_ns = self.testbed.now + _MAX_CLOSING_NS
        self.testbed.operations.header.is_closing = 1
        for w in range(WORKERS):
            self.testbed.wake_driver(w)
        if self.testbed.has_switch_parameters and (self.testbed.moving_entries() or self.schedule.injections):
            self.start_task(self.load_wanted_keys())
        if self.testbed.servers_exchange:
            self._suspend_exchanges_at_rest()

    def _suspend_exchanges_at_rest(self) -> None:
        """Stop exchanges between servers and the switch as soon as everything else has ended."""
        if self._has_ended():
            self.testbed.suspend_exchanges()
            self._are_exchanges_suspended = True
        elif self.testbed.now < self._closing_deadline_ns:
            self.call_later(MS, self._suspend_exchanges_at_rest)

    def _is_dead(self, a: int) -> bool:
        return bool(self.testbed.dead[a])

    # -- controllers

    def new_session(self, switch: int) -> ControllerSession:
        packet_out = partial(self.testbed.packet_out, switch)
        session = ControllerSession(self.testbed.switches[switch], self.random, packet_out)
        self.sessions.append(session)
        return session

    def new_controller(self) -> ControllerProcess:
        return ControllerProcess(self.testbed.topology, [*map(self.new_session, self.testbed.homes)])

    async def load(self, process: ControllerProcess, keys: list[int]) -> None:
        async with process.controller() as controller:
            await controller.load(self.testbed.arm.job, keys)

    async def load_wanted_keys(self) -> None:
        # Another controller that becomes primary in between may load other keys, or admit a worker; in both
        # cases it finishes the moves in progress.
        await self.retry(lambda: self.load(self.new_controller(), self.wanted_keys))

    def kill_controller(self, process: ControllerProcess, task: asyncio.Task[object]) -> None:
        """Kill a controller: none of its further requests has an effect."""
        process.kill()
        task.cancel()
        self.loop.run_due(self.testbed.now)

    async def retry(self, operation: Callable[[], Coroutine[object, object, None]]) -> None:
        pause_s = _MIN_RETRY_PAUSE_S
        while True:
            try:
                await operation()
                return
            except ControllerError:
                await asyncio.sleep(pause_s)
                pause_s = min(_RETRY_BACKOFF * pause_s, _MAX_RETRY_PAUSE_S)

    async def wait_until_restored(self, switch: RecoverableSwitch, restarts: int) -> None:
        # The switch is started again when its death has been counted.
        while switch.restarts < restarts:
            await self.cluster.liveness.wait_for_death(self.cluster.liveness.deaths)
        await self.cluster.liveness.wait_until_all_up()

    # -- the end

    def _has_ended(self) -> bool:
        client_headers, progress = self.testbed.world.workers.header, self.testbed.operations.progress
        is_idle = all(
            self._is_dead(w)
            or (
                client_headers.pending[w] == 0
                and not client_headers.unreplayed[w]
                and progress.state[w] == IDLE
            )
            for w in range(WORKERS)
        )
        tasks = self.tasks.difference(self._supervisions)
        return (
            is_idle
            and not any(task.done() for task in self._supervisions)  # they end only with an error
            and all(task.done() for task in tasks)
            and self.cluster.liveness.all_up
            and not self.testbed.moving_entries()
        )

    def _outcome(self, at_rest: bool) -> ScheduleOutcome:
        testbed = self.testbed
        errors = [task.exception() for task in self.tasks if task.done() and not task.cancelled()]
        for error in errors:
            if error is not None and not isinstance(error, ControllerError):
                raise error
        history, progress = testbed.operations.history, testbed.operations.progress
        recovery_ns = max(
            (self._first_completed_after(w, at_ns) - at_ns for w, at_ns in self.worker_restart_times),
            default=0,
        )
        for end_ns, _ in self.recoveries:
            for w in range(WORKERS):
                operations = history[w, : int(progress.operations[w])]
                is_pending = (operations.invoked <= end_ns) & (operations.completed > end_ns)
                last_completion_ns = int(operations.completed[is_pending].max(initial=end_ns))
                recovery_ns = max(recovery_ns, last_completion_ns - end_ns)
        frame_fault_effects = [
            sum(int(links[kind.counter].sum()) for links in testbed.links) > 0
            for kind in FRAME_FAULTS
            if getattr(self.schedule, kind.name)
        ]
        evidence = [*(fault.has_taken_effect for fault in self.faults), *frame_fault_effects]
        rpcs = self.count_answered()
        during = (
            rpcs - min(answered_before for _, answered_before in self.recoveries) if self.recoveries else 0
        )
        return ScheduleOutcome(
            took_effect=bool(evidence) and all(evidence) and during > 0 and rpcs >= self.schedule.rpcs,
            rpcs=rpcs,
            during=during,
            recovery_ms=recovery_ns / MS,
            at_rest=at_rest,
            judgement=judge(
                testbed.operations,
                testbed.stored_values() + self._unreplayed_updates(),
                np.array(self.blind_spans, np.int64).reshape(-1, 2),
                self._unknown_updates(),
                servers_publish=testbed.servers_exchange,
            ),
        )

    def _unreplayed_updates(self) -> NDArray[np.uint32]:
        unreplayed = np.zeros(self.testbed.space.n_values, np.uint32)
        for w, log in enumerate(self.testbed.logs):
            if self._is_dead(w):
                unreplayed += log.unacked(self.cluster.switch_numbers(w)).lost
        return unreplayed

    def _unknown_updates(self) -> list[tuple[int, int]]:
        dead = [w for w in range(WORKERS) if self._is_dead(w)]
        return [*self.testbed.settled_unknown_updates, *chain(*map(self.testbed.unknown_updates, dead))]

    def _first_completed_after(self, w: int, since: int) -> int:
        n = int(self.testbed.operations.progress.operations[w])
        completed = self.testbed.operations.history[w].completed[:n]
        return int(completed[completed > since].min(initial=self.testbed.now))

    def _close(self) -> None:
        for session in self.sessions:
            session.is_killed = True
        for task in self.tasks:
            task.cancel()
        self.loop.run_due(self.loop.now)
        self.loop.close()
