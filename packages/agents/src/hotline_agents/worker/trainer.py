"""A block of steps of one job: pull, compute, push, on a schedule or as fast as possible. No I/O.

Step k of a block pulls at start + k * period and pushes half a period later, or as soon as it can. An
operation is measured from its due time, so that a worker that falls behind does not look fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.codec import Values
from foundation.protocol.header import Op
from hosts.agent_config import WorkerCost
from hosts.model import Model
from hosts.workload.trace import MiniBatch, Trace
from hotline_agents.worker.client import NO_ITERATION, BaseClient

_NO_COST = WorkerCost()


@dataclass(frozen=True, slots=True)
class StepSchedule:
    """The steps to run, from `first_step` of the trace. Times in monotonic ns; period 0 is a closed loop."""

    first_step: int
    steps: int
    start_ns: int
    period_ns: int


class OperationRecord(NamedTuple):
    """One line of the operations log; `op` is pull, push or step (pull due -> push ended). Times in ns."""

    iteration: int
    op: str
    scheduled: int
    start: int
    end: int
    rpcs: int


class PushLedger(Protocol):
    def open(self, positions: NDArray[np.integer], deltas: Values) -> NDArray[np.bool_]:
        """Begin a push of distinct parameters [n]; return flags [n] that the client sets on answers."""

    def close(self) -> None: ...


def spin_until(time_ns: int) -> None:
    while time.monotonic_ns() < time_ns:
        pass


class Trainer:
    """One worker's block of steps that compute for at least `cost.compute_ns`; `wake` it until `finished`."""

    def __init__(
        self,
        worker: int,
        client: BaseClient,
        trace: Trace,
        model: Model,
        ledger: PushLedger,
        schedule: StepSchedule,
        clock: Callable[[], int],
        cost: WorkerCost = _NO_COST,
        spin: Callable[[int], None] = spin_until,
    ) -> None:
        self._worker = worker
        self._client = client
        self._trace = trace
        self._model = model
        self._ledger = ledger
        self._schedule = schedule
        self._clock = clock
        self._compute_ns = cost.compute_ns
        self._spin = spin
        self.operations: list[OperationRecord] = []
        self.losses: list[float] = []
        self.lanes_pushed = 0
        self.max_lateness_ns = 0  # largest delay of an operation's start, in ns
        self.finished = False
        self._step_generator = self._steps()
        self._due = next(self._step_generator, 0)  # a block without steps finishes at once

    def deadline(self) -> int | None:
        return self._due if self._client.idle else self._client.deadline()

    def wake(self, now: int) -> None:
        """Continue the block if its next operation is due; call this when answers have come, too."""
        self._client.wake(now)
        while self._due <= now and not self.finished and self._client.idle:
            # Updates that a restart of the switch has lost are pushed again before the next step.
            if self._client.has_unreplayed:
                self._client.replay()
                continue
            try:
                self._due = next(self._step_generator)
            except StopIteration:
                self.finished = True

    def _steps(self) -> Generator[int, None, None]:
        """Run the steps; yield the earliest time to continue once the client is idle, in ns."""
        schedule = self._schedule
        for k in range(schedule.steps):
            iteration = schedule.first_step + k
            pull_due = schedule.start_ns + k * schedule.period_ns
            batch = self._trace.batch(self._worker, iteration)
            yield pull_due
            start = self._clock()
            pull_due = pull_due if schedule.period_ns else start
            self._client.pull(iteration, batch.positions)
            yield 0  # when the pull has ended
            self._record_operation(iteration, Op.PULL, pull_due, start)

            deltas, loss = self._compute_deltas(batch)
            self.losses.append(loss)
            push_due = pull_due + schedule.period_ns // 2
            answered = self._ledger.open(batch.positions, deltas)
            yield push_due
            start = self._clock()
            push_due = push_due if schedule.period_ns else start
            self._client.push(iteration, batch.positions, deltas, answered)
            yield 0  # when the push has ended
            self._ledger.close()
            self.lanes_pushed += len(deltas)
            self._record_operation(iteration, Op.PUSH, push_due, start)
            pull, push = self.operations[-2:]
            step = OperationRecord(iteration, "step", pull_due, pull.start, push.end, pull.rpcs + push.rpcs)
            self.operations.append(step)

    def _compute_deltas(self, batch: MiniBatch) -> tuple[Values, float]:
        compute_end_ns = self._clock() + self._compute_ns
        result = self._model.step(batch, self._client.values)
        if self._compute_ns:
            self._spin(compute_end_ns)
        return result

    def _record_operation(self, iteration: int, op: Op, due: int, start: int) -> None:
        self.max_lateness_ns = max(self.max_lateness_ns, start - due)
        rpcs = self._client.rpcs_of_operation
        self.operations.append(OperationRecord(iteration, op.name.lower(), due, start, self._clock(), rpcs))

    @property
    def loss(self) -> float | None:
        """Mean loss of the mini-batches before their updates; None without steps, or if losses are NaN."""
        mean = float(np.mean(self.losses)) if self.losses else float("nan")
        return None if np.isnan(mean) else mean


class _ClosedLoop:
    def __init__(self, client: BaseClient) -> None:
        self._client = client

    def deadline(self) -> int | None:
        return 0 if self._client.idle else self._client.deadline()


class Replay(_ClosedLoop):
    @property
    def finished(self) -> bool:
        return self._client.idle and not self._client.has_unreplayed

    def wake(self, now: int) -> None:
        self._client.wake(now)
        if self._client.idle and self._client.has_unreplayed:
            self._client.replay()


class OnePush(_ClosedLoop):
    """One push of rows, whose flags `answered` are set by the answers."""

    def __init__(
        self,
        client: BaseClient,
        positions: NDArray[np.integer],
        deltas: Values,
        answered: NDArray[np.bool_],
    ) -> None:
        super().__init__(client)
        client.push(NO_ITERATION, positions, deltas, answered)

    @property
    def finished(self) -> bool:
        return self._client.idle

    def wake(self, now: int) -> None:
        self._client.wake(now)


class EmptyCalls(_ClosedLoop):
    """A closed loop of empty RPCs to the PSs in turn, to measure transport alone (Pan et al. Fig. 9)."""

    def __init__(self, client: BaseClient, n_ps: int, count: int) -> None:
        super().__init__(client)
        self._targets = iter([i % n_ps for i in range(count)])
        self.finished = False

    def wake(self, now: int) -> None:
        self._client.wake(now)
        if self._client.idle:
            target = next(self._targets, None)
            if target is None:
                self.finished = True
            else:
                self._client.start_empty_rpc(target)
