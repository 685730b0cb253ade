"""Measure one running switch: its loss-free throughput, and its latency at lower rates."""

from typing import NamedTuple

from switch_bench.errors import BenchError
from switch_bench.scale import Scale
from switch_bench.switches import MAX_BURSTS
from switch_bench.traffic import UNLIMITED_BURST, Generator, Trial

RESOLUTION = 0.03  # of the loss-free rate
LOW_RATE = 1_000.0
STEADY_RATE = 5_000.0
_FIRST_RATE = 5_000.0  # frames/s, as the two above
_GROWTH = 1.5  # factor from one rate to the next until frames are lost
_ATTEMPTS = 3
_WARM_UP_SECONDS = 0.2
_OVERLOAD_SECONDS = 3.0  # without a frame, after a trial of which none came out
_SETTLE_SECONDS = 0.2  # without a frame: those queued in an overloaded switch must not affect the next trial


class Figures(NamedTuple):
    """Highest loss-free paced rate, frames/s; one-way latency, µs, at LOW_RATE, STEADY_RATE and rate / 10."""

    rate: float
    latency_at_low_rate: tuple[float, float]  # p50, p99, as the next two
    latency_at_steady_rate: tuple[float, float]
    latency_at_tenth_of_rate: tuple[float, float]


class ThroughputTest:
    """Trials on one running switch with the workload that was loaded into the generator before."""

    def __init__(self, generator: Generator, scale: Scale, target: str) -> None:
        self._generator = generator
        self._scale = scale
        self._max_burst = MAX_BURSTS.get(target, UNLIMITED_BURST)
        self._carried_rate = 0.0
        """Highest rate of frames that came out of the switch in any trial, in frames/s."""

    def figures(self) -> Figures:
        at_low_rate, at_steady_rate = self._latency(LOW_RATE), self._latency(STEADY_RATE)
        rate = self.highest_loss_free_rate()
        return Figures(rate, at_low_rate, at_steady_rate, self._latency(rate / 10))

    def highest_loss_free_rate(self) -> float:
        """Return the highest loss-free rate, frames/s: grow it until frames are lost, then bisect to 3 %."""
        self.run_paced(_FIRST_RATE, _WARM_UP_SECONDS)
        good, bad = 0.0, _FIRST_RATE
        while (achieved := self._loss_free_rate(bad)) >= (1 - RESOLUTION) * bad:
            good, bad = achieved, bad * _GROWTH
        good = max(good, achieved)
        while bad - good > RESOLUTION * bad:
            middle = (good + bad) / 2
            achieved = self._loss_free_rate(middle)
            if achieved < (1 - RESOLUTION) * middle:
                bad = middle
            good = max(good, achieved)
        return good

    def run_paced(self, rate: float, seconds: float) -> Trial:
        """Send at a rate; if frames are lost, give the switch time to empty its queues.

        If no frame comes out, the switch may be busy with an earlier trial, in which it was overloaded: it
        gets more time, once. Raises BenchError if none comes out then.
        """
        trial = self._run(rate, seconds)
        if not trial.received:
            self._generator.drain(_OVERLOAD_SECONDS)
            trial = self._run(rate, seconds)
        if not trial.received:
            raise BenchError(
                f"{self._generator.workload}: expected the switch to forward some of {trial.sent:,} frames, "
                f"sent at {rate:,.0f}/s, and none has come out; before, it has carried "
                f"{self._carried_rate:,.0f}/s"
            )
        self._carried_rate = max(self._carried_rate, trial.rate * trial.received / trial.sent)
        if trial.lost:
            self._generator.drain(_SETTLE_SECONDS)
        return trial

    def _run(self, rate: float, seconds: float) -> Trial:
        return self._generator.run(max(1, round(rate * seconds)), rate, max_burst=self._max_burst)

    def _latency(self, rate: float) -> tuple[float, float]:
        trial = self.run_paced(rate, self._scale.latency_seconds)
        return trial.percentile(50), trial.percentile(99)

    def _loss_free_rate(self, rate: float) -> float:
        """Return the best rate of a few attempts that lost no frame, in frames/s; 0 if all lost some."""
        best = 0.0
        for _ in range(_ATTEMPTS):
            trial = self.run_paced(rate, self._scale.trial_seconds)
            if trial.lost == 0:
                best = max(best, trial.rate)
            if best >= (1 - RESOLUTION) * rate:
                break
        return best
