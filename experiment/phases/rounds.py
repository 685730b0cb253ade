"""When rounds are enough: as many as were asked for, or until intervals are narrow or the budget ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import numpy as np
import polars as pl

from analysis.metrics import METRICS, by_round, complete_rounds, differences
from analysis.precision import goals, widest, widths
from analysis.statistics import Rounds
from experiment.config import Config
from foundation.logs.columns import load_name

End = Literal["precision", "budget", "rounds", "script"]


class RoundCount:
    """Decides after each round whether there shall be another. `clock` is that of the budget, in s."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._begun = clock()
        self.done = 0
        """Rounds so far."""
        self._estimates: dict[tuple[str, str, str], list[Rounds]] = {}

    @property
    def planned(self) -> int:
        """Rounds that the budget is to have room for at least."""
        return self._config.rounds or self._config.rounds_to_be_precise

    def share_done(self, of_round: float = 0.0) -> float:
        """Of the rounds that were asked for, with a part of the one under way; or of the budget."""
        if self._config.rounds is not None:
            return (self.done + of_round) / self._config.rounds
        return min(1.0, self.spent_s / self._config.budget_s)

    @property
    def spent_s(self) -> float:
        """Of the budget."""
        return self._clock() - self._begun

    @property
    def has_time(self) -> bool:
        """Whether a block may be run again."""
        return self._config.rounds is not None or self.spent_s < self._config.budget_s

    def leave_out(self, seconds: float) -> None:
        """Do not count what was no round."""
        self._begun += seconds

    @property
    def goes_on_until_precise(self) -> bool:
        """Nobody has said how many, and no script has an end of its own."""
        return self._config.rounds is None and not self._config.is_closed_loop

    def end(self, operations: pl.DataFrame | None) -> End | None:
        """After a round, and its operations where rounds go on until precise: why there shall be no other."""
        self.done += 1
        if self._config.rounds is not None:
            return "rounds" if self.done >= self._config.rounds else None
        if operations is not None:
            self._take(operations)
            if self.done >= self._config.rounds_to_be_precise and self._is_precise():
                return "precision"
        if self.done < self._config.rounds_whatever_it_takes:
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
