"""The gaps between schedulers and the optimum, over random models small enough for an exhaustive search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from hotline_dense.alpha_beta import AlphaBetaModel, simulate
from hotline_dense.layers import Layers, Values
from hotline_dense.schedulers import MAX_LAYERS, SCHEDULERS, optimum

MODELS = 1_000  # number of random models
_MIN_LAYERS = 2
_BYTES_RANGE = (1e3, 5e7)
_BACKWARD_US_RANGE = (10.0, 2e4)
_OPTIMAL_GAP = 1e-9  # largest gap that counts as none


@dataclass(frozen=True, slots=True)
class Gap:
    """The distribution over models of (end of the last all-reduce / end with the optimum - 1)."""

    mean: float
    p99: float
    largest: float
    optimal_share: float  # share of models for which the scheduler finds the optimum


def gaps(
    network: AlphaBetaModel,
    models: int = MODELS,
    seed: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Gap]:
    gaps_by_scheduler = dict[str, list[float]]()
    for done, layers in enumerate(random_models(models, seed)):
        progress(done, models)
        for name, gap in gaps_of(layers, network).items():
            gaps_by_scheduler.setdefault(name, []).append(gap)
    return {name: _summarize(np.array(each)) for name, each in gaps_by_scheduler.items()}


def random_models(models: int, seed: int) -> Iterator[Layers]:
    """Yield models of 2 to 12 layers of 1 kB to 50 MB and 10 µs to 20 ms, drawn log-uniformly."""
    random = np.random.default_rng(seed)
    for _ in range(models):
        layer_count = int(random.integers(_MIN_LAYERS, MAX_LAYERS + 1))
        sizes = np.rint(_log_uniform(random, layer_count, _BYTES_RANGE)).astype(np.int64)
        yield Layers(
            tuple(f"layer{i}" for i in range(layer_count)),
            sizes,
            _log_uniform(random, layer_count, _BACKWARD_US_RANGE),
        )


def _log_uniform(random: Generator, count: int, bounds: tuple[float, float]) -> Values:
    low, high = np.log(bounds)
    return np.exp(random.uniform(low, high, count))


def gaps_of(layers: Layers, network: AlphaBetaModel) -> Mapping[str, float]:
    optimum_us = simulate(layers, network, optimum(layers, network)).end_us
    return {
        name: simulate(layers, network, scheduler(layers, network)).end_us / optimum_us - 1
        for name, scheduler in SCHEDULERS.items()
    }


def _summarize(gaps: Values) -> Gap:
    return Gap(
        float(gaps.mean()),
        float(np.quantile(gaps, 0.99)),
        float(gaps.max()),
        float((gaps < _OPTIMAL_GAP).mean()),
    )
