"""Scaling factors as defined by [BOTTLENECK], and the network that a scaling factor requires."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import exp, log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hotline_dense.catalogue import MEASURED_MODELS, DenseModel, open_model
from hotline_dense.fusion import PRESETS, Fusion, fuse
from hotline_dense.layers import Values
from hotline_dense.network import (
    MAX_COMPRESSION,
    MAX_GBIT,
    MIN_COMPRESSION,
    MIN_GBIT,
    DenseNetwork,
    reduce_us,
)

PAPER_FUSION = PRESETS["horovod-0.20"]
TARGET = 0.9
CLAIMED_COMPRESSION = (2.0, 5.0)
"""Range of compression that suffices at 10 Gbit/s according to [BOTTLENECK]."""
_BISECTIONS = 60  # halvings of the range, after which only rounding errors remain


@dataclass(frozen=True, slots=True)
class Setup:
    gbit: float
    compression: float = 1.0
    workers: int = 64

    @property
    def title(self) -> str:
        ratio = f", {self.compression:g}×" if self.compression > 1 else ""
        return f"{self.gbit:g}G{ratio}"


SETUPS = (
    *(Setup(gbit) for gbit in (100.0, 40.0, 25.0, 10.0, 1.0)),
    *(Setup(gbit=10.0, compression=compression) for compression in (2.0, 5.0, 10.0)),
)
SMALL_SETUP = Setup(gbit=10.0, workers=16)


@dataclass(frozen=True, slots=True)
class ModelRow:
    model: DenseModel
    messages: int  # number of buffers in a step
    factors: tuple[float, ...]  # scaling factors with `SETUPS`
    small_factor: float  # scaling factor with `SMALL_SETUP`
    compression: float | None  # smallest ratio that reaches `TARGET` at 10 Gbit/s

    @property
    def is_as_claimed(self) -> bool:
        return self.compression is not None and self.compression <= CLAIMED_COMPRESSION[1]


def scaling_factor(
    model: DenseModel,
    network: DenseNetwork,
    fusion: Fusion = PAPER_FUSION,
    gbit: ArrayLike | None = None,
    compression: ArrayLike | None = None,
) -> Values:
    """Return T / (T + communication not hidden by backward), at most 1, with one all-reduce at a time.

    Arrays of `gbit` and `compression` broadcast to the result's shape, and override those of `network`.
    """
    return model.step_us / (model.step_us + exposed_us(model, network, fusion, gbit, compression))


def exposed_us(
    model: DenseModel,
    network: DenseNetwork,
    fusion: Fusion = PAPER_FUSION,
    gbit: ArrayLike | None = None,
    compression: ArrayLike | None = None,
) -> Values:
    """Return the µs from the end of backward to the end of the last all-reduce."""
    end_time = last_end_us(*fuse(model.layers, fusion), network, gbit, compression)
    return np.maximum(end_time - model.layers.total_backward_us, 0.0)


def last_end_us(
    sizes: NDArray[np.int64], ready_times: Values, network: DenseNetwork, gbit: ArrayLike | None = None,
    compression: ArrayLike | None = None,
) -> Values:  # fmt: skip
    """Return the end of the last of all-reduces that follow each other, in µs since backward began."""
    end_time = np.zeros(())
    for size, ready_time in zip(sizes, ready_times, strict=True):
        end_time = np.maximum(end_time, ready_time) + reduce_us(network, size, gbit, compression)
    return end_time


def bottleneck_rows() -> Iterator[ModelRow]:
    """Yield the rows of [BOTTLENECK]'s table: 64 workers in a ring, with the paper's logs and fusion rule."""
    for name in MEASURED_MODELS:
        model = open_model(name)

        def factor(setup: Setup, model: DenseModel = model) -> float:
            network = DenseNetwork(workers=setup.workers, gbit=setup.gbit, compression=setup.compression)
            return float(scaling_factor(model, network))

        messages = len(fuse(model.layers, PAPER_FUSION)[0])
        needed_ratio = needed_compression(model, DenseNetwork(gbit=10.0))
        yield ModelRow(model, messages, tuple(map(factor, SETUPS)), factor(SMALL_SETUP), needed_ratio)


def needed_gbit(
    model: DenseModel, network: DenseNetwork, fusion: Fusion = PAPER_FUSION, target: float = TARGET
) -> float | None:
    """Return the smallest bandwidth from 1 to 400 Gbit/s with a scaling factor of `target`, or None."""
    return _smallest_sufficient(
        lambda gbit: scaling_factor(model, network, fusion, gbit), target, MIN_GBIT, MAX_GBIT
    )


def needed_compression(
    model: DenseModel, network: DenseNetwork, fusion: Fusion = PAPER_FUSION, target: float = TARGET
) -> float | None:
    """Return the smallest compression from 1 to 100 with a scaling factor of `target`, or None."""
    return _smallest_sufficient(
        lambda ratio: scaling_factor(model, network, fusion, None, ratio),
        target,
        MIN_COMPRESSION,
        MAX_COMPRESSION,
    )


def _smallest_sufficient(
    factor: Callable[[float], Values], target: float, low: float, high: float
) -> float | None:
    if factor(low) >= target:
        return low
    if factor(high) < target:
        return None
    log_low, log_high = log(low), log(high)
    for _ in range(_BISECTIONS):
        middle = (log_low + log_high) / 2
        log_low, log_high = (log_low, middle) if factor(exp(middle)) >= target else (middle, log_high)
    return exp(log_high)
