"""The network that a scaling factor requires, and step times under each scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from foundation.settings import Strict
from hotline_dense.alpha_beta import AlphaBetaModel, GradientSchedule, simulate
from hotline_dense.catalogue import DenseModel
from hotline_dense.fusion import Fusion
from hotline_dense.network import MAX_COMPRESSION, MAX_GBIT, MIN_COMPRESSION, MIN_GBIT, DenseNetwork
from hotline_dense.whatif import TARGET, needed_compression, needed_gbit, scaling_factor

COLUMNS = ("Gbit/s needed", "compression needed", "compression needed with a switch that sums")


class Requirements(Strict):
    """The bandwidth and compression that a scaling factor requires; None if it exceeds the search range."""

    model: str
    is_estimate: bool
    factor: float
    target: float
    gbit: float | None
    compression: float | None
    compression_with_switch: float | None
    """Smallest sufficient compression ratio if a switch sums the gradients."""

    def cells(self) -> tuple[str, str, str]:
        return (
            _format_requirement(self.gbit, "", MIN_GBIT, MAX_GBIT),
            _format_requirement(self.compression, "×", MIN_COMPRESSION, MAX_COMPRESSION),
            _format_requirement(self.compression_with_switch, "×", MIN_COMPRESSION, MAX_COMPRESSION),
        )

    @property
    def headline(self) -> str:
        article = "the" if self.factor < self.target else "no"
        return f"{self.model}: the network is {article} bottleneck, the scaling factor is {self.factor:.3f}."

    @property
    def sentence(self) -> str:
        if self.factor >= self.target:
            return self.headline
        gbit, compression, switch = self.cells()
        needs_none = self.compression_with_switch == MIN_COMPRESSION
        return (
            f"{self.model}: the scaling factor is {self.factor:.3f}. "
            f"For {self.target:g} it takes {gbit} Gbit/s, or compression by {compression}; "
            f"with a switch that sums, {'no compression' if needs_none else f'compression by {switch}'}."
        )


def _format_requirement(value: float | None, unit: str, minimum: float, maximum: float) -> str:
    if value is None:
        return f"more than {maximum:g}{unit}"
    # A ratio of 1× is exact: no compression. A smaller bandwidth might suffice, but is not searched.
    return f"at most {minimum:g}{unit}" if value == minimum and not unit else f"{value:.3g}{unit}"


def requirements_of(
    models: Sequence[DenseModel], network: DenseNetwork, fusion: Fusion, target: float = TARGET
) -> list[Requirements]:
    """Return the requirements of each model for the scaling factor `target`."""
    switch = network.model_copy(update={"aggregation": "switch"})
    return [
        Requirements(
            model=model.label,
            is_estimate=model.is_estimate,
            factor=float(scaling_factor(model, network, fusion)),
            target=target,
            gbit=needed_gbit(model, network, fusion, target),
            compression=needed_compression(model, network, fusion, target),
            compression_with_switch=needed_compression(model, switch, fusion, target),
        )
        for model in models
    ]


class StepTimes(Strict):
    model: str
    is_estimate: bool
    step_ms: dict[str, float]
    buffers: dict[str, int]
    at_once: dict[str, int]
    compute_ms: float

    def speedup(self, name: str, baseline: str) -> float:
        return self.step_ms[baseline] / self.step_ms[name]


def step_times(
    model: DenseModel, network: AlphaBetaModel, schedules: Sequence[GradientSchedule]
) -> StepTimes:
    """Return a model's step times; a step ends when both backward and the last all-reduce have ended."""

    def step_ms(schedule: GradientSchedule) -> float:
        end_us = max(model.layers.total_backward_us, simulate(model.layers, network, schedule).end_us)
        return (model.before_backward_us + end_us) / 1e3

    return StepTimes(
        model=model.label,
        is_estimate=model.is_estimate,
        step_ms={schedule.scheduler: step_ms(schedule) for schedule in schedules},
        buffers={schedule.scheduler: len(schedule.last_gradients) for schedule in schedules},
        at_once={schedule.scheduler: schedule.at_once for schedule in schedules},
        compute_ms=model.step_us / 1e3,
    )
