"""Decide when to end rounds: at the configured number, or when intervals are narrow or the budget ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import numpy as np
import polars as pl

from analysis.metrics import METRICS, by_round, complete_rounds, differences, goals, widest, widths
from analysis.statistics import Rounds
from experiment.config import Config
from foundation.logs.columns import load_name

End = Literal["precision", "budget", "rounds", "script"]


class RoundCount:
    """Counts rounds and decides after each whether another follows. `clock` is the budget's clock, in s."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._begun = clock()
        self.done = 0
        """Rounds done so far."""
        self._estimates: dict[tuple[str, str, str], list[Rounds]] = {}

    @property
    def planned(self) -> int:
        """Minimum number of rounds that the budget is divided among."""
        return self._config.rounds or self._config.min_rounds_for_precision

    def share_done(self, of_round: float = 0.0) -> float:
        """Return the share of the configured rounds, with the part `of_round` of the current one, or of the
        budget."""
        if self._config.rounds is not None:
            return (self.done + of_round) / self._config.rounds
        return min(1.0, self.spent_s / self._config.budget_s)

    @property
    def spent_s(self) -> float:
        """Time of the budget that is spent."""
        return self._clock() - self._begun

    @property
    def has_time(self) -> bool:
        """Whether a block may be run again."""
        return self._config.rounds is not None or self.spent_s < self._config.budget_s

    def exclude(self, seconds: float) -> None:
        """Do not count a time between rounds against the budget."""
        self._begun += seconds

    @property
    def ends_when_precise(self) -> bool:
        """Whether rounds continue until intervals are narrow: no number is given and the load is offered."""
        return self._config.rounds is None and not self._config.is_closed_loop

    def end(self, operations: pl.DataFrame | None) -> End | None:
        """Count a round and return the reason to end, or None for another round.

        `operations` are those of the round if `ends_when_precise`.
        """
        self.done += 1
        if self._config.rounds is not None:
            return "rounds" if self.done >= self._config.rounds else None
        if operations is not None:
            self._take(operations)
            if self.done >= self._config.min_rounds_for_precision and self._is_precise():
                return "precision"
        if self.done < self._config.min_rounds:
            return None
        return "budget" if self.spent_s * (1 + 1 / self.done) > self._config.budget_s else None

    def _take(self, operations: pl.DataFrame) -> None:
        measured = operations.filter(pl.col("measured") & (pl.col("round") >= 0))
        for load in self._config.loads:
            at_load = measured.filter(pl.col("load").cast(pl.Float64).round(6) == round(load, 6))
            rounds = complete_rounds(at_load, self._config.arms)
            arms = self._config.arms if rounds else ()
            wanted = [METRICS[name] for name in goals()]
            for arm, metrics in by_round("operations", at_load, arms, rounds, wanted).items():
                for metric in metrics:
                    self._estimates.setdefault((load_name(load), arm, metric), []).append(metrics[metric])

    def _is_precise(self) -> bool:
        found = []
        for load in map(load_name, self._config.loads):
            metrics = {
                arm: {
                    metric: np.concatenate(values)
                    for (of_load, of_arm, metric), values in self._estimates.items()
                    if (of_load, of_arm) == (load, arm)
                }
                for arm in self._config.arms
            }
            found += list(widths(load, differences(metrics)))
        wide = widest(found)
        return wide is not None and wide.half_width < wide.goal
