"""What is measured on one running switch: how much it carries, and latency well below that."""

import time
from typing import NamedTuple

from bench.traffic import Generator, Trial
from bench.workload import EPOCHS
from hosts.wire.header import WINDOW

_FIRST_RATE = 5_000.0
_GROWTH = 1.5
_RESOLUTION = 0.03
_ATTEMPTS = 3
_TRIAL_SECONDS = 0.3
_LATENCY_SECONDS = 1.0
_LOW_RATE = 1_000.0
_WARM_FRAMES = 5_000
_UNPACED = 1e9
_SETTLE_SECONDS = 0.2  # what an overloaded switch still holds must not meet the next trial


class Figures(NamedTuple):
    """Frames/s with a worker's window of 64 in flight, and the highest paced rate without loss.

    One-way latency in µs at 1,000 frames/s and at a tenth of that paced rate.
    """

    windowed_rate: float
    loss_free_rate: float
    low_p50: float
    low_p99: float
    tenth_p50: float
    tenth_p99: float


class Bench:
    """Trials on one running switch, each with an epoch of its own."""

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self._epochs = iter(range(1, EPOCHS + 1))

    def measure(self) -> Figures:
        """Take all figures."""
        windowed = self._windowed_rate()
        low = self._paced(_LOW_RATE, _LATENCY_SECONDS)
        rate = self._highest_loss_free()
        tenth = self._paced(rate / 10, _LATENCY_SECONDS)
        quantiles = [trial.percentile(q) for trial in (low, tenth) for q in (50, 99)]
        return Figures(windowed, rate, *quantiles)

    def _windowed_rate(self) -> float:
        """A short run warms caches and tells how many frames the long one takes."""
        rate = self._trial(_WARM_FRAMES, _UNPACED, WINDOW).rate
        trial = self._trial(round(rate * _LATENCY_SECONDS), _UNPACED, WINDOW)
        return trial.rate * trial.received / trial.sent

    def _highest_loss_free(self) -> float:
        """Grow the rate until it is too much, then halve the gap until it is 3 %."""
        good, bad = 0.0, _FIRST_RATE
        while (achieved := self._loss_free(bad)) >= (1 - _RESOLUTION) * bad:
            good, bad = achieved, bad * _GROWTH
        good = max(good, achieved)
        while bad - good > _RESOLUTION * bad:
            middle = (good + bad) / 2
            achieved = self._loss_free(middle)
            if achieved < (1 - _RESOLUTION) * middle:
                bad = middle
            good = max(good, achieved)
        return good

    def _loss_free(self, rate: float) -> float:
        """What was sent a second with every frame answered, in the best of a few attempts; else 0."""
        best = 0.0
        for _ in range(_ATTEMPTS):
            trial = self._paced(rate, _TRIAL_SECONDS)
            if trial.lost == 0:
                best = max(best, trial.rate)
            if best >= (1 - _RESOLUTION) * rate:
                break
        return best

    def _paced(self, rate: float, seconds: float) -> Trial:
        return self._trial(max(1, round(rate * seconds)), rate)

    def _trial(self, count: int, rate: float, *window: int) -> Trial:
        trial = self._generator.run(count, rate, next(self._epochs), *window)
        if trial.lost:
            time.sleep(_SETTLE_SECONDS)
        return trial
