"""Simulated training by SGD, at servers or in the switch, and by Adagrad, at servers or with `collect`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.record import Staleness
from experiment.run_config import WorkloadShape
from foundation.designs import collect, hotset, none
from foundation.designs.interface import Arm, Design
from foundation.optimisers import Adagrad, TableOptimiser
from foundation.settings import Strict
from hosts.agent_config import CollectionSettings, RunSettings, WorkerCost
from hosts.model import LogisticRegression, Model
from hosts.model.hyperparameters import chance_loss
from hosts.model.logistic import GRADIENT_SCALE, SCALE
from hosts.workload.generator import R1, generate
from hosts.workload.trace import Trace
from hotline_optimisers import dlrm
from hotline_optimisers.ratings import ratings_trace
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.training import LossCurve, make_network, train_closed_loop
from hotline_simulator.world import SimulatedNetwork

WORKERS, SERVERS = 4, 2
Way = Literal["sgd", "sgd-hotset", "adagrad", "collect"]
DataName = Literal["clicks", "ratings", "dlrm"]
_SEED = 1
_LAST_SHARE = 0.2  # share of the mini-batches whose mean loss is `last_loss`


class TrainingPlacement(NamedTuple):
    """The design and the arm of a way to train."""

    design: Design
    arm: Arm
    has_hot_set: bool = False
    has_optimiser: bool = False


PLACEMENTS: dict[Way, TrainingPlacement] = {
    "sgd": TrainingPlacement(none.DESIGN, none.NONE),
    "sgd-hotset": TrainingPlacement(hotset.DESIGN, hotset.OFFLOAD, has_hot_set=True),
    "adagrad": TrainingPlacement(none.DESIGN, none.NONE, has_optimiser=True),
    "collect": TrainingPlacement(collect.DESIGN, collect.COLLECT, has_hot_set=True, has_optimiser=True),
}


class Data(Strict):
    """Data to train; `shape` and `rows` make generated data smaller, for tests."""

    name: DataName
    file: Path | None = None
    """Ratings in RecBole's format; None for generated data."""
    batch: int = 64
    """Samples of a mini-batch; the built-in clicks have their own number."""
    hot_keys: int = R1.hot
    """Keys in the switch, at most."""
    shape: WorkloadShape = WorkloadShape()
    """Shape of the built-in clicks."""
    rows: tuple[int, ...] = dlrm.ROWS


class OptimiserTraining(Strict):
    """A training on a part of the data: the first `steps` of each worker tune, the next are for reporting."""

    data: Data
    way: Way
    learning_rate: float
    steps: int
    is_tuning: bool
    budget: CollectionSettings | None = None
    """Bound of staleness and share of the servers' time in design `collect`; None in other designs."""


class Ages(Strict):
    """Ages of published values at their replacement by the next value, in ms."""

    p50: float
    p99: float
    late: float
    """Share of values that were older than the bound."""


class OptimiserTrainingResult(Strict):
    chance_loss: float
    keys_per_step: float
    hot_share: float
    """Share of the updates that go to keys of the hot set."""
    mean_loss: float
    last_loss: float
    """Mean log loss of the last fifth of the mini-batches, in nats, each before its update."""
    steps_per_s: float
    server_us_per_step: float
    """CPU time of both servers together."""
    ages: Ages | None
    loss_curve: LossCurve


@dataclass(frozen=True, slots=True)
class DataSet:
    trace: Trace
    hot_positions: NDArray[np.int64]
    """Positions of the hot set."""
    hot_share: float
    """Share of the updates in the reporting part that go to keys of the hot set."""
    make_model: Callable[[float, float | None], Model]
    """Make a model from (scale, learning rate); a model without a rate pushes gradients."""


@cache
def load(data: Data, steps: int) -> DataSet:
    """Load data; its first `steps` are for tuning, and determine the hot set. Raises `DataError`."""
    make_model: Callable[[float, float | None], Model] = LogisticRegression
    if data.name == "clicks":
        trace = generate(data.shape.shape(), WORKERS, 2 * steps, _SEED)
    elif data.name == "ratings":
        assert data.file is not None
        trace = ratings_trace(data.file, WORKERS, data.batch, _SEED)
    else:
        trace = dlrm.make_trace(WORKERS, 2 * steps, data.batch, _SEED, data.rows)
        make_model = partial(dlrm.DLRM, rows=data.rows)
    tuning_counts, reporting_counts = (
        _count_updates(trace, range(first_step, first_step + steps)) for first_step in (0, steps)
    )
    hot_positions = np.sort(
        np.argsort(-tuning_counts, kind="stable")[: min(data.hot_keys, np.count_nonzero(tuning_counts))]
    )
    return DataSet(
        trace,
        hot_positions,
        float(reporting_counts[hot_positions].sum() / reporting_counts.sum()),
        make_model,
    )


def _count_updates(trace: Trace, steps: range) -> NDArray[np.int64]:
    counts = np.zeros(trace.space.size, np.int64)
    for worker_start in range(0, trace.workers * trace.steps, trace.steps):
        begin, end = trace.key_start[[worker_start + steps.start, worker_start + steps.stop]]
        counts += np.bincount(trace.position[begin:end], minlength=len(counts))
    return counts


def train(job: OptimiserTraining, network: Network, costs: HostCosts) -> OptimiserTrainingResult:
    """Train from zero; workers start together, and each begins a step when its previous step ends."""
    data, placement = load(job.data, job.steps), PLACEMENTS[job.way]
    trace = data.trace
    assert trace.samples is not None
    tables = list[TableOptimiser]()
    if placement.has_optimiser:
        adagrad = Adagrad(lr=job.learning_rate)
        tables.append(TableOptimiser(first=0, scale=GRADIENT_SCALE, optimiser=adagrad))
    settings = RunSettings() if job.budget is None else RunSettings(collection=job.budget)
    simulated_network = make_network(
        placement.design, placement.arm, trace, WORKERS, SERVERS, network, costs, _SEED,
        hot_keys=trace.space.keys(data.hot_positions) if placement.has_hot_set else None,
        tables=tables, settings=settings,
    )  # fmt: skip
    hyperparameters = (GRADIENT_SCALE, None) if tables else (SCALE, job.learning_rate)
    models = [data.make_model(*hyperparameters) for _ in range(WORKERS)]
    steps = range(0, job.steps) if job.is_tuning else range(job.steps, 2 * job.steps)
    result = train_closed_loop(simulated_network, trace, models, costs, steps, [WorkerCost()] * WORKERS)
    losses = result.counted_losses[np.argsort(result.counted_end_times, kind="stable")]
    return OptimiserTrainingResult(
        chance_loss=chance_loss(trace.samples),
        keys_per_step=trace.lanes / (WORKERS * trace.steps),
        hot_share=data.hot_share,
        mean_loss=float(losses.mean()),
        last_loss=float(losses[-max(1, int(_LAST_SHARE * len(losses))) :].mean()),
        steps_per_s=result.steps_per_s,
        server_us_per_step=simulated_network.server_used_ns() / 1e3 / (WORKERS * job.steps),
        ages=_ages(simulated_network),
        loss_curve=result.curve,
    )


def _ages(simulated_network: SimulatedNetwork) -> Ages | None:
    ages_by_server = [
        ages._asdict() for store in simulated_network.stores if (ages := store.copy_ages()) is not None
    ]
    if not ages_by_server:
        return None
    staleness = Staleness.of(ages_by_server)
    return Ages(p50=staleness.p50_ms, p99=staleness.p99_ms, late=staleness.late / max(staleness.copies, 1))
