"""A block of steps: on schedule, late and in a closed loop; and the model learns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from foundation.protocol.codec import Caller
from hosts.agent_config import WorkerCost
from hosts.keys import KeySpace
from hosts.ledger import Ledger
from hosts.model import LogisticRegression, Model, SyntheticGradient
from hosts.workload.generator import R1, generate
from hosts.workload.trace import MiniBatch
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.worker.trainer import EmptyCalls, StepSchedule, Trainer
from tests.harness.wire import sent

TRACE = generate(replace(R1, parameters=3000, hot=100, keys_per_step=100), workers=2, steps=40, seed=3)
MS = 1_000_000
TRIP = 100_000
MOST_TURNS = 10_000


class Loop:
    """A worker on one PS; every datagram takes `TRIP` ns there and back."""

    def __init__(self, block: StepSchedule, model: Model | None = None, compute_ns: int = 0) -> None:
        self.now = block.start_ns or 1
        space = KeySpace(3000)
        self.server: ParameterServer[None] = ParameterServer(0, 1, space, {1: 1}, lambda: self.now)
        self.client = HotsetClient(Caller(1, 1, 1), 1, space, lambda: self.now)
        self.ledger = Ledger(1, 1, space, TRACE.largest_batch)
        model = model or LogisticRegression(learning_rate=0.5)
        self.trainer = Trainer(
            1, self.client, TRACE, model, self.ledger, block, lambda: self.now,
            WorkerCost(compute_ns=compute_ns), self.spin,
        )  # fmt: skip

    def spin(self, until: int) -> None:
        self.now = until

    def run(self, driver: Trainer | EmptyCalls) -> None:
        turns = 0
        while not driver.finished:
            turns += 1
            assert turns < MOST_TURNS
            answers = [self.server.handle(rpc, self.now, self.now, None) for rpc in sent(self.client)]
            if answers:
                self.now += TRIP
                for answer in answers:
                    assert answer is not None
                    self.client.receive(bytes(answer[1]), self.now, self.now)
            else:
                due = driver.deadline()
                assert due is not None
                self.now = max(self.now, due)
            driver.wake(self.now)


def test_a_paced_block_keeps_its_schedule() -> None:
    loop = Loop(StepSchedule(first_step=5, steps=3, start_ns=50 * MS, period_ns=10 * MS))
    loop.run(loop.trainer)
    rows = [(row.iteration, row.op, row.scheduled, row.start, row.end) for row in loop.trainer.operations]
    for k in range(3):
        pull, push = (50 + 10 * k) * MS, (55 + 10 * k) * MS
        assert rows[3 * k : 3 * k + 3] == [
            (5 + k, "pull", pull, pull, pull + TRIP),
            (5 + k, "push", push, push, push + TRIP),
            (5 + k, "step", pull, pull, push + TRIP),
        ]
    assert loop.trainer.max_lateness_ns == 0 and loop.trainer.finished


@pytest.mark.parametrize("empty", [False, True])
def test_a_trainer_wakes_for_the_retransmission_of_outstanding_calls(empty: bool) -> None:
    loop = Loop(StepSchedule(first_step=0, steps=1, start_ns=0, period_ns=0))
    driver = EmptyCalls(loop.client, n_ps=1, count=1) if empty else loop.trainer
    driver.wake(loop.now)
    assert sent(loop.client)  # and lost
    due = driver.deadline()
    assert due is not None and due == loop.client.deadline() and due > loop.now


def test_a_worker_that_falls_behind_is_measured_from_the_schedule() -> None:
    loop = Loop(StepSchedule(first_step=0, steps=4, start_ns=50 * MS, period_ns=TRIP))
    loop.run(loop.trainer)
    pulls = [row for row in loop.trainer.operations if row.op == "pull"]
    assert [row.scheduled for row in pulls] == [50 * MS + k * TRIP for k in range(4)]
    assert pulls[3].start == 50 * MS + 6 * TRIP
    assert loop.trainer.max_lateness_ns == pulls[3].start + TRIP - (pulls[3].scheduled + TRIP // 2)


def test_a_closed_loop_learns_and_accounts_for_its_pushes() -> None:
    loop = Loop(StepSchedule(first_step=0, steps=400, start_ns=0, period_ns=0))
    loop.run(loop.trainer)
    losses = loop.trainer.losses
    assert losses[0] == pytest.approx(np.log(2))
    assert np.mean(losses[-40:]) < np.log(2) - 0.05
    assert loop.trainer.loss == pytest.approx(np.mean(losses))
    assert loop.trainer.max_lateness_ns == 0
    sums = loop.ledger.sums()
    assert (sums.sent == loop.server.stores[1].contents().values).all()
    assert sums.lanes_sent == loop.trainer.lanes_pushed == loop.server.server.counters[1].applied_lanes
    assert loop.server.server.counters[1].overflows == 0


@pytest.mark.parametrize("has_values", [False, True])
def test_a_step_is_the_gradient_of_the_mean_log_loss(has_values: bool) -> None:
    rng = np.random.default_rng(1)
    scale, rate, n = 2.0**20, 0.25, 60
    column, sample = rng.integers(0, n, 200, np.uint16), np.sort(rng.integers(0, 20, 200))
    label, x = rng.integers(0, 2, 20, np.uint8), rng.normal(size=200).astype(np.float32)
    batch = MiniBatch(np.arange(n), label, sample, column, x if has_values else None)
    values = rng.integers(-(2**21), 2**21, n, np.int32)

    features = np.zeros((20, n))
    np.add.at(features, (sample, column), x if has_values else 1.0)
    logits = features @ (values / scale)
    share = 1 / (1 + np.exp(-logits))
    gradient = features.T @ (share - label) / 20
    deltas, loss = LogisticRegression(scale, rate).step(batch, values.view(np.uint32))
    assert np.abs(deltas.view(np.int32) + rate * gradient * scale).max() < 0.51
    assert loss == pytest.approx(-np.mean(np.log(np.where(label, share, 1 - share))))


def test_a_replayed_log_has_no_loss() -> None:
    loop = Loop(StepSchedule(first_step=0, steps=2, start_ns=0, period_ns=0), SyntheticGradient(seed=1))
    loop.run(loop.trainer)
    assert loop.trainer.loss is None and loop.trainer.lanes_pushed > 0


def test_the_time_of_computing_can_be_configured() -> None:
    """Pushes are later by the given time; computing takes no time on this clock."""
    loop = Loop(StepSchedule(first_step=0, steps=2, start_ns=MS, period_ns=0), compute_ns=7 * MS)
    loop.run(loop.trainer)
    rows = [(row.op, row.start, row.end) for row in loop.trainer.operations if row.op != "step"]
    pull, push = MS + TRIP, MS + 2 * TRIP + 7 * MS
    assert rows[:2] == [("pull", MS, pull), ("push", pull + 7 * MS, push)]
    assert rows[2] == ("pull", push, push + TRIP)


def test_empty_calls_go_one_at_a_time() -> None:
    loop = Loop(StepSchedule(0, 0, 0, 0))
    loop.run(EmptyCalls(loop.client, n_ps=1, count=5))
    t0s = [record.t0 for record in loop.client.records]
    assert np.diff(t0s).tolist() == [TRIP] * 4
