"""The trainings and simulated runs of the study, with their learning rates and budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from experiment.run_config import WorkloadShape
from hosts.agent_config import CollectionSettings
from hotline_optimisers import dlrm
from hotline_optimisers.offload import Offload
from hotline_optimisers.ratings import count_ratings
from hotline_optimisers.training import WORKERS, Data, DataName, OptimiserTraining, Way

BUDGETS = tuple(
    CollectionSettings(staleness_ms=ms, share_of_server=share)
    for ms, share in ((20, 0.5), (50, 0.2), (200, 0.1), (1000, 0.05))
)
TRAINED_BUDGETS = (BUDGETS[0], BUDGETS[2], BUDGETS[3])  # those with curves of the loss
FACTORS = (0.5, 1.0, 2.0)
"""Learning rates of the tuning, as multiples of the middle rate."""
# Middle learning rates of the tuning.
_SGD_RATES: dict[DataName, float] = {"clicks": 8.0, "ratings": 1.0, "dlrm": 0.8}
_ADAGRAD_RATES: dict[DataName, float] = {"clicks": 0.2, "ratings": 0.2, "dlrm": 0.1}
TITLES: dict[DataName, str] = {
    "clicks": "R1's clicks, logistic regression",
    "ratings": "ratings, logistic regression",
    "dlrm": "synthetic clicks, DLRM",
}
RATINGS_BATCH = 8  # samples of a mini-batch
_R1 = WorkloadShape()  # its defaults are those of R1, the built-in workload


@dataclass(frozen=True, slots=True)
class OptimiserPlan:
    steps: dict[DataName, int]
    """Steps of each worker for tuning, and again for reporting; fewer if there are too few ratings."""
    hit_shares: tuple[float, ...]
    offload_steps: int
    factors: tuple[float, ...] = FACTORS
    shape: WorkloadShape = _R1
    rows: tuple[int, ...] = dlrm.ROWS  # number of embeddings of each category of DLRM
    block_ms: int = 1_000
    calibration_s: float = 0.5


_HIT_SHARES = (0.1, 0.5, 0.9)
FULL = OptimiserPlan(
    steps={"clicks": 400, "ratings": 2_000, "dlrm": 500}, hit_shares=_HIT_SHARES, offload_steps=600
)
QUICK = OptimiserPlan(
    steps={"clicks": 200, "ratings": 400, "dlrm": 300}, hit_shares=_HIT_SHARES, offload_steps=200
)


@dataclass(frozen=True, slots=True)
class TrainingArm:
    """One curve: a way to train, and its budget."""

    way: Way
    budget: CollectionSettings | None
    label: str
    colour: str

    @property
    def middle_rates(self) -> dict[DataName, float]:
        return _SGD_RATES if self.way.startswith("sgd") else _ADAGRAD_RATES


ARMS = (
    TrainingArm("sgd", None, "SGD, servers add", "#7f7f7f"),
    TrainingArm("sgd-hotset", None, "SGD, the switch adds", "#17a2b8"),
    TrainingArm("adagrad", None, "Adagrad at servers", "#222222"),
    *(
        TrainingArm("collect", budget, f"Adagrad, collect {budget.staleness_ms:,g} ms", colour)
        for budget, colour in zip(TRAINED_BUDGETS, ("#2c9a57", "#e07b1a", "#c44e52"), strict=True)
    ),
)


def data_of(plan: OptimiserPlan, ratings: Path | None) -> list[tuple[Data, int]]:
    """Return pairs of a data set and the steps of each worker; raises `DataError` for bad ratings."""
    clicks = Data(name="clicks", hot_keys=plan.shape.hot_parameters, shape=plan.shape)
    data = [(clicks, plan.steps["clicks"])]
    if ratings is not None:
        # Half of the ratings are for tuning, the others for reporting.
        steps = min(plan.steps["ratings"], count_ratings(ratings) // (2 * WORKERS * RATINGS_BATCH))
        data.append((Data(name="ratings", file=ratings, batch=RATINGS_BATCH), steps))
    return [*data, (Data(name="dlrm", rows=plan.rows), plan.steps["dlrm"])]


def tuning_jobs_of(plan: OptimiserPlan, data: Sequence[tuple[Data, int]]) -> list[OptimiserTraining]:
    """Return a training with each learning rate that is tried, for each arm of each data set."""
    return [
        OptimiserTraining(
            data=each, way=arm.way, learning_rate=factor * arm.middle_rates[each.name], steps=steps,
            is_tuning=True, budget=arm.budget,
        )
        for each, steps in data
        for arm in ARMS
        for factor in plan.factors
    ]  # fmt: skip


def offload_jobs_of(plan: OptimiserPlan) -> list[Offload]:
    return [
        Offload(
            hit_share=share, budget=budget, steps=plan.offload_steps, shape=plan.shape,
            block_ms=plan.block_ms, calibration_s=plan.calibration_s,
        )
        for budget in BUDGETS
        for share in plan.hit_shares
    ]  # fmt: skip
