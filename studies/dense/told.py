"""What a reader is told: which network it takes, and how long a step is under each scheduler."""

from __future__ import annotations

from collections.abc import Sequence

from foundation.settings import Strict
from studies.dense.catalogue import Model
from studies.dense.fusion import Fusion
from studies.dense.network import HIGH_COMPRESSION, HIGH_GBIT, LOW_COMPRESSION, LOW_GBIT, Network
from studies.dense.play import Collectives, Plan, play
from studies.dense.whatif import TARGET, needed_compression, needed_gbit, scaling_factor

TITLES = ("Gbit/s for that", "compression for that", "compression with a switch that sums")


class Needed(Strict):
    """What a model takes for a scaling factor; None: more than there is."""

    model: str
    is_estimate: bool
    factor: float
    """As it is."""
    target: float
    gbit: float | None
    compression: float | None
    compression_with_switch: float | None

    def cells(self) -> tuple[str, str, str]:
        """As `TITLES`."""
        return (
            _told(self.gbit, "", LOW_GBIT, HIGH_GBIT),
            _told(self.compression, "×", LOW_COMPRESSION, HIGH_COMPRESSION),
            _told(self.compression_with_switch, "×", LOW_COMPRESSION, HIGH_COMPRESSION),
        )

    @property
    def headline(self) -> str:
        """The short answer."""
        is_one = "the" if self.factor < self.target else "no"
        return f"{self.model}: the network is {is_one} bottleneck, the scaling factor is {self.factor:.3f}."

    @property
    def sentence(self) -> str:
        """The whole answer."""
        if self.factor >= self.target:
            return self.headline
        gbit, compression, switch = self.cells()
        is_enough = self.compression_with_switch == LOW_COMPRESSION
        return (
            f"{self.model}: the scaling factor is {self.factor:.3f}. "
            f"For {self.target:g} it takes {gbit} Gbit/s, or compression by {compression}; "
            f"with a switch that sums, {'no compression' if is_enough else f'compression by {switch}'}."
        )


def _told(value: float | None, unit: str, least: float, most: float) -> str:
    """The least that is asked for may be more than it takes."""
    if value is None:
        return f"more than {most:g}{unit}"
    return f"at most {least:g}{unit}" if value == least and not unit else f"{value:.3g}{unit}"


def answers_of(
    models: Sequence[Model], network: Network, fusion: Fusion, target: float = TARGET
) -> list[Needed]:
    """For each model."""
    switch = network.model_copy(update={"aggregation": "switch"})
    return [
        Needed(
            model=model.shown,
            is_estimate=model.is_estimate,
            factor=float(scaling_factor(model, network, fusion)),
            target=target,
            gbit=needed_gbit(model, network, fusion, target),
            compression=needed_compression(model, network, fusion, target),
            compression_with_switch=needed_compression(model, switch, fusion, target),
        )
        for model in models
    ]


class Times(Strict):
    """A step of a model, ms, under each scheduler, by its title."""

    model: str
    is_estimate: bool
    step_ms: dict[str, float]
    buffers: dict[str, int]
    at_once: dict[str, int]
    compute_ms: float
    """Without any communication."""

    def faster(self, name: str, than: str) -> float:
        """How many times as fast a step is."""
        return self.step_ms[than] / self.step_ms[name]


def times_of(model: Model, network: Collectives, plans: Sequence[Plan]) -> Times:
    """Of a step: what is before backward, then backward or the last all-reduce, whichever ends later."""
    backward_us = model.layers.total_backward_us
    return Times(
        model=model.shown,
        is_estimate=model.is_estimate,
        step_ms={
            plan.scheduler: (model.before_us + max(backward_us, play(model.layers, network, plan).end_us))
            / 1e3
            for plan in plans
        },
        buffers={plan.scheduler: len(plan.lasts) for plan in plans},
        at_once={plan.scheduler: plan.at_once for plan in plans},
        compute_ms=model.step_us / 1e3,
    )
