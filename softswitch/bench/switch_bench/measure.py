"""What is measured on one running switch: how much it carries without loss, and latency well below that."""

import time
from typing import NamedTuple

from switch_bench.scale import Scale
from switch_bench.traffic import Generator, Trial

RESOLUTION = 0.03
LOW_RATE = 1_000.0
STEADY_RATE = 5_000.0
_FIRST_RATE = 5_000.0
_GROWTH = 1.5
_ATTEMPTS = 3
_WARM_SECONDS = 0.2
_SETTLE_SECONDS = 0.2  # what an overloaded switch still holds must not meet the next trial


class Figures(NamedTuple):
    """Highest paced rate without loss, frames/s; one-way latency, µs, at three rates (one a tenth of it)."""

    rate: float
    low: tuple[float, float]  # p50, p99
    steady: tuple[float, float]
    tenth: tuple[float, float]


class ThroughputTest:
    """Trials on one running switch with one workload, which the generator has loaded."""

    def __init__(self, generator: Generator, scale: Scale) -> None:
        self._generator = generator
        self._scale = scale

    def figures(self) -> Figures:
        """Return the rate and latencies."""
        low, steady = self._latency(LOW_RATE), self._latency(STEADY_RATE)
        rate = self.highest_loss_free()
        return Figures(rate, low, steady, self._latency(rate / 10))

    def highest_loss_free(self) -> float:
        """Grow the rate until it is too much, then halve the gap until it is 3 %."""
        self.paced(_FIRST_RATE, _WARM_SECONDS)
        good, bad = 0.0, _FIRST_RATE
        while (achieved := self._loss_free(bad)) >= (1 - RESOLUTION) * bad:
            good, bad = achieved, bad * _GROWTH
        good = max(good, achieved)
        while bad - good > RESOLUTION * bad:
            middle = (good + bad) / 2
            achieved = self._loss_free(middle)
            if achieved < (1 - RESOLUTION) * middle:
                bad = middle
            good = max(good, achieved)
        return good

    def paced(self, rate: float, seconds: float) -> Trial:
        """Send at a rate, then wait until an overloaded switch has calmed down."""
        trial = self._generator.run(max(1, round(rate * seconds)), rate)
        if trial.lost:
            time.sleep(_SETTLE_SECONDS)
        return trial

    def _latency(self, rate: float) -> tuple[float, float]:
        trial = self.paced(rate, self._scale.latency_seconds)
        return trial.percentile(50), trial.percentile(99)

    def _loss_free(self, rate: float) -> float:
        """Return the best rate of a few attempts that lost no frame, in frames/s; 0 if all lost some."""
        best = 0.0
        for _ in range(_ATTEMPTS):
            trial = self.paced(rate, self._scale.trial_seconds)
            if trial.lost == 0:
                best = max(best, trial.rate)
            if best >= (1 - RESOLUTION) * rate:
                break
        return best
