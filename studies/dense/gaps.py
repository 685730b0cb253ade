"""How far schedulers are from the optimum, over random models that are small enough to try all plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from studies.dense.layers import Layers
from studies.dense.play import Collectives, play
from studies.dense.schedulers import SCHEDULERS
from studies.dense.search import MOST_LAYERS, optimum

MODELS = 1_000
_BYTES = (1e3, 5e7)
_BACKWARD_US = (10.0, 2e4)


@dataclass(frozen=True, slots=True)
class Gap:
    """How much later than at the optimum all gradients are there, as a share: 0 is the optimum."""

    mean: float
    p99: float
    largest: float
    reached: float
    """The share of models at which it is the optimum."""


def gaps(
    network: Collectives,
    models: int = MODELS,
    seed: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, Gap]:
    """By scheduler."""
    found = dict[str, list[float]]()
    for done, layers in enumerate(random_models(models, seed)):
        progress(done, models)
        for name, gap in gaps_of(layers, network).items():
            found.setdefault(name, []).append(gap)
    return {name: _gap(np.array(each)) for name, each in found.items()}


def random_models(models: int, seed: int) -> Iterator[Layers]:
    """2 to 12 layers of 1 kB to 50 MB and 10 µs to 20 ms, evenly drawn of their logarithms."""
    random = np.random.default_rng(seed)
    for _ in range(models):
        n = int(random.integers(2, MOST_LAYERS + 1))
        sizes = np.rint(_drawn(random, n, _BYTES)).astype(np.int64)
        yield Layers(tuple(f"layer{i}" for i in range(n)), sizes, _drawn(random, n, _BACKWARD_US))


def _drawn(
    random: Generator, n: int, bounds: tuple[float, float]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    low, high = bounds
    return np.exp(random.uniform(np.log(low), np.log(high), n))


def gaps_of(layers: Layers, network: Collectives) -> Mapping[str, float]:
    """By scheduler, for one model."""
    least = play(layers, network, optimum(layers, network)).end_us
    return {
        name: play(layers, network, scheduler(layers, network)).end_us / least - 1
        for name, scheduler in SCHEDULERS.items()
    }


def _gap(found: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Gap:
    return Gap(
        float(found.mean()), float(np.quantile(found, 0.99)), float(found.max()), float((found < 1e-9).mean())
    )
