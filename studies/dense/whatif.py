"""What would a better network bring? Scaling factors as [BOTTLENECK] has them, and which network it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import ArrayLike

from studies.dense.catalogue import MEASURED, Model, open_model
from studies.dense.fusion import PRESETS, Fusion, fuse
from studies.dense.network import (
    HIGH_COMPRESSION,
    HIGH_GBIT,
    LOW_COMPRESSION,
    LOW_GBIT,
    Network,
    Values,
    reduce_us,
)

THEIRS = PRESETS["horovod-0.20"]
"""[BOTTLENECK]'s rule."""
TARGET = 0.9
CLAIMED = (2.0, 5.0)
"""Compression that is enough at 10 Gbit/s, as the paper has it."""
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Setup:
    """A column of [BOTTLENECK]'s table."""

    gbit: float
    compression: float = 1.0
    workers: int = 64

    @property
    def title(self) -> str:
        """`10G, 2×`."""
        squeezed = f", {self.compression:g}×" if self.compression > 1 else ""
        return f"{self.gbit:g}G{squeezed}"


SETUPS = (
    *(Setup(gbit) for gbit in (100.0, 40.0, 25.0, 10.0, 1.0)),
    *(Setup(10.0, compression) for compression in (2.0, 5.0, 10.0)),
)
FEWER = Setup(10.0, workers=16)


@dataclass(frozen=True, slots=True)
class Row:
    """A model's scaling factors."""

    model: Model
    messages: int
    factors: tuple[float, ...]
    """As the setups."""
    fewer: float
    """At `FEWER`."""
    compression: float | None
    """For `TARGET` at 10 Gbit/s."""

    @property
    def is_as_claimed(self) -> bool:
        """Whether no more compression is needed than the paper says."""
        return self.compression is not None and self.compression <= CLAIMED[1]


def scaling_factor(
    model: Model,
    network: Network,
    fusion: Fusion = THEIRS,
    gbit: ArrayLike | None = None,
    compression: ArrayLike | None = None,
) -> Values:
    """T / (T + the communication that backward does not hide): 1 is perfect.

    All-reduces go one after the other. Arrays of `gbit` and `compression` broadcast to the result's shape.
    """
    return model.step_us / (model.step_us + exposed_us(model, network, fusion, gbit, compression))


def exposed_us(
    model: Model,
    network: Network,
    fusion: Fusion = THEIRS,
    gbit: ArrayLike | None = None,
    compression: ArrayLike | None = None,
) -> Values:
    """µs from the end of backward to the end of the last all-reduce."""
    ends = np.zeros(())
    for size, ready in zip(*fuse(model.layers, fusion), strict=True):
        ends = np.maximum(ends, ready) + reduce_us(network, size, gbit, compression)
    return np.maximum(ends - model.layers.total_backward_us, 0.0)


def table(models: tuple[str, ...] = MEASURED) -> Iterator[Row]:
    """[BOTTLENECK]'s: 64 workers in a ring, their logs and their rule."""
    for name in models:
        model = open_model(name)

        def factor(setup: Setup, model: Model = model) -> float:
            network = Network(workers=setup.workers, gbit=setup.gbit, compression=setup.compression)
            return float(scaling_factor(model, network))

        messages = len(fuse(model.layers, THEIRS)[0])
        needed = needed_compression(model, Network(gbit=10.0))
        yield Row(model, messages, tuple(map(factor, SETUPS)), factor(FEWER), needed)


def needed_gbit(
    model: Model, network: Network, fusion: Fusion = THEIRS, target: float = TARGET
) -> float | None:
    """The least bandwidth from 1 to 400 Gbit/s that gives a scaling factor; None where none does."""
    return _least(lambda gbit: scaling_factor(model, network, fusion, gbit), target, LOW_GBIT, HIGH_GBIT)


def needed_compression(
    model: Model, network: Network, fusion: Fusion = THEIRS, target: float = TARGET
) -> float | None:
    """The least compression from 1 to 100 × that does."""
    return _least(
        lambda times: scaling_factor(model, network, fusion, None, times),
        target,
        LOW_COMPRESSION,
        HIGH_COMPRESSION,
    )


def _least(factor: Callable[[float], Values], target: float, low: float, high: float) -> float | None:
    """By bisection along a logarithmic axis, as factors rise along both."""
    if factor(low) >= target:
        return low
    if factor(high) < target:
        return None
    below, above = log(low), log(high)
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        below, above = (below, middle) if factor(exp(middle)) >= target else (middle, above)
    return exp(above)
