"""Values of servers are PyTorch's, fed with the sums that collections applied in a simulated run."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from foundation.designs import collect
from foundation.optimisers import Adagrad, TableOptimiser
from foundation.protocol.rows import RowRange
from hosts.agent_config import CollectionSettings, RunSettings
from hosts.keys import KeySpace
from hosts.model import SyntheticGradient
from hosts.workload.trace import Trace
from hotline_agents.collect.store import CollectStore
from hotline_agents.worker.trainer import StepSchedule, Trainer
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.drive import WorkerClock, drive
from hotline_simulator.ledger import SimulatedPushLedger
from hotline_simulator.training import make_network
from tests.harness import torch_optimisers

KEYS, STEPS, WORKERS, SCALE, LR = 48, 150, 2, 2.0**10, 0.1
SPACES = {
    "scalars": KeySpace(KEYS),
    "rows of 1, 4 and 16": KeySpace(KEYS, None, (RowRange(0, 1), RowRange(16, 4), RowRange(32, 16))),
}
Floats = NDArray[np.float32]


class Recorder(Trainer):
    """A worker that notes what servers have collected whenever it is asked for its next operation."""

    stores: list[CollectStore]
    space: KeySpace
    counts: NDArray[np.int64]
    totals: NDArray[np.uint32]
    sums: list[tuple[int, int]]
    """(place of a value, sum) of each collection with gradients, in their order for each row."""

    def wake(self, now: int) -> None:
        super().wake(now)
        for store in self.stores:
            held = store.contents()
            at = store.locate(held.keys)
            collected = store._collected[store._value_cells(at)]
            keys = held.keys.astype(np.int64)
            values = self.space.value_places(keys)
            counts = store._copies.n_collections[at] - self.counts[keys]
            assert counts.max() <= 1, "two collections of a row between two looks"
            found = (counts > 0).repeat(self.space.dims_at(keys))
            sums = (collected - self.totals[values]).view(np.int32)
            self.sums += zip(values[found].tolist(), sums[found].tolist(), strict=True)
            self.counts[keys], self.totals[values] = store._copies.n_collections[at], collected


def adagrad(values: Floats, squares: Floats, keys: NDArray[np.int64], gradients: Floats) -> None:
    """Apply the rule of `torch.optim.Adagrad` to some parameters, in float32."""
    squares[keys] += gradients * gradients
    values[keys] -= np.float32(LR) * (gradients / (np.sqrt(squares[keys]) + np.float32(1e-10)))


@pytest.fixture(scope="module", params=SPACES)
def run(request: pytest.FixtureRequest) -> tuple[list[tuple[int, int]], Floats]:
    """Return the sums that servers collected in a run with all keys in the switch, and the values."""
    space = SPACES[request.param]
    random = np.random.default_rng(3)
    batches = [np.sort(random.choice(KEYS, 20, replace=False)) for _ in range(WORKERS * STEPS)]
    starts = 20 * np.arange(len(batches) + 1)
    trace = Trace("t", WORKERS, STEPS, space, starts, np.concatenate(batches).astype(np.uint32))
    tables = [TableOptimiser(first=0, scale=SCALE, optimiser=Adagrad(lr=LR))]
    settings = RunSettings(collection=CollectionSettings(staleness_ms=4, share_of_server=1))
    simulated = make_network(
        collect.DESIGN, collect.COLLECT, trace, WORKERS, 2, Network(), HostCosts(), 1,
        hot_keys=trace.space.all(), tables=tables, settings=settings,
    )  # fmt: skip
    clocks, ledger = [WorkerClock() for _ in range(WORKERS)], SimulatedPushLedger(space)
    trainers = [
        Recorder(
            w + 1, simulated.clients[w], trace, SyntheticGradient(w), ledger.for_worker(),
            StepSchedule(0, STEPS, 0, 0), clocks[w].read,
        )
        for w in range(WORKERS)
    ]  # fmt: skip
    shared = np.zeros(KEYS, np.int64), np.zeros(space.n_values, np.uint32), list[tuple[int, int]]()
    for trainer in trainers:
        trainer.space = space
        trainer.stores = [store for store in simulated.stores if isinstance(store, CollectStore)]
        trainer.counts, trainer.totals, trainer.sums = shared
    drive(simulated, trainers, clocks, HostCosts())
    values = np.zeros(space.n_values, np.float32)
    for store in simulated.stores:
        held = store.contents()
        values[space.value_places(held.keys.astype(np.int64))] = held.values.view(np.float32)
    assert int(ledger.sums.sum()), "gradients were pushed"
    return shared[2], values


def test_the_adagrad_step_equals_pytorchs() -> None:
    values, squares = torch_optimisers.start().reshape(-1), np.zeros(15, np.float32)
    for step, expected in zip(
        torch_optimisers.steps(), torch_optimisers.vectors(f"adagrad(lr={LR:g})"), strict=True
    ):
        keys = (3 * step.rows[:, None] + np.arange(3)).reshape(-1)
        adagrad(values, squares, keys, (step.units.reshape(-1) / torch_optimisers.SCALE).astype(np.float32))
        assert np.abs(values - expected.reshape(-1)).max() <= 12 * 2.0**-23 * np.abs(expected).max()


def test_values_have_the_bits_of_the_rule_fed_with_the_same_sums(
    run: tuple[list[tuple[int, int]], Floats],
) -> None:
    sums, found = run
    assert len(sums) > 10 * len(found)
    values, squares = np.zeros_like(found), np.zeros_like(found)
    for place, units in sums:
        adagrad(values, squares, np.array([place]), np.array([units / SCALE], np.float32))
    assert np.abs(values).min() > 0
    np.testing.assert_array_equal(found, values)


def test_values_equal_the_installed_pytorchs(
    run: tuple[list[tuple[int, int]], Floats],
) -> None:
    torch = pytest.importorskip("torch")  # not in requirements.lock
    sums, found = run
    for place in range(len(found)):
        value = torch.zeros(1, requires_grad=True)
        optimiser = torch.optim.Adagrad([value], lr=LR)
        applied = [units for at, units in sums if at == place]
        for units in applied:
            value.grad = torch.tensor([units / SCALE], dtype=torch.float32)
            optimiser.step()
        assert abs(value.item() - found[place]) <= len(applied) * 2.0**-23 * max(1, abs(found[place]))
