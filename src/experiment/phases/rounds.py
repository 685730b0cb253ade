"""Decide when a run has enough rounds: by their number, an interim look, narrow intervals, or the budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import polars as pl

from analysis.metrics import Width, differences, estimates, find_widest, widths
from analysis.record import Block, End
from analysis.statistics import ALPHA, Comparison
from analysis.stopping import LOOKS, Look, reason_to_stop
from experiment.run_config import Config
from foundation.designs.arms import lead_arm
from foundation.logs.columns import has_load, load_name

FIRST_SUMMARY_S = 20.0
"""Time in the measured phase after which the first summary is printed, in s."""
_LATER_LOOKS_SHARE = 0.65
"""Share of the budget within which a look after the first must end. Large differences in packets, bytes and
CPU time are already significant at the first look, and this limit ends a default run within 100 s."""


class RoundCount:
    """Counts rounds and decides after each whether another follows. `clock` is the budget's clock, in s."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._begin_s = clock()
        self.done = 0
        self.alpha = ALPHA
        self._operations: list[pl.DataFrame] = []
        self._has_shown_summary = False

    @property
    def planned(self) -> int:
        return self._config.rounds or self._config.planned_rounds

    def share_done(self, share_of_round: float = 0.0) -> float:
        if self._config.rounds is not None:
            return (self.done + share_of_round) / self._config.rounds
        return min(1.0, self.spent_s / self._config.budget_s)

    @property
    def is_halfway(self) -> bool:
        if self._config.ends_at_looks and self.done <= LOOKS[0].rounds:
            return self.done == LOOKS[0].rounds
        return self.share_done() >= 0.5

    @property
    def spent_s(self) -> float:
        return self._clock() - self._begin_s

    @property
    def has_time(self) -> bool:
        return self._config.rounds is not None or self.spent_s < self._config.budget_s

    @property
    def is_summary_due(self) -> bool:
        # Reading the property has an effect: it reports the first summary as due only once.
        is_first = not self._has_shown_summary and self.spent_s >= FIRST_SUMMARY_S
        self._has_shown_summary |= is_first
        return is_first or any(look.rounds == self.done for look in LOOKS)

    def exclude_from_budget(self, seconds: float) -> None:
        self._begin_s += seconds

    @property
    def loads(self) -> tuple[float, ...]:
        return self._config.loads_of_round(self.done)

    @property
    def needs_operations(self) -> bool:
        return self._config.rounds is None and not self._config.is_closed_loop

    def end(self, operations: pl.DataFrame | None, blocks: Sequence[Block]) -> End | None:
        """Count a round with its `operations` and all `blocks` so far; return the reason to end, or None."""
        self.done += 1
        if self._config.rounds is not None:
            return "rounds" if self.done >= self._config.rounds else None
        if operations is None:
            return self._end_if_over_budget(self.done + 1)
        # Blocks outside of the rounds have a negative round.
        self._operations.append(operations.filter(pl.col("measured") & (pl.col("round") >= 0)))
        if self._config.stops_at_precision:
            if self.done >= self._config.planned_rounds and self._is_narrow(blocks):
                return "precision"
            return self._end_if_over_budget(self.done + 1)
        return self._end_at_look(blocks)

    def _end_if_over_budget(self, rounds: int, share: float = 1.0) -> End | None:
        # The next decision is after `rounds` rounds. End now if they would take longer than the share of the
        # budget, at the pace of the rounds so far.
        if self.done < self._config.min_rounds:
            return None
        return "budget" if self.spent_s * rounds / self.done > share * self._config.budget_s else None

    def _end_at_look(self, blocks: Sequence[Block]) -> End | None:
        look = next((each for each in LOOKS if each.rounds == self.done), None)
        if look is None:
            return self._end_if_over_budget(self.done + 1) if self.done < LOOKS[0].rounds else None
        self.alpha = look.alpha
        next_look = next((each for each in LOOKS if each.rounds > self.done), None)
        reason = self._reason_to_stop(look, blocks)
        if reason is not None or next_look is None:
            return reason or "futility"  # no look is left to decide the open claims
        return self._end_if_over_budget(next_look.rounds, _LATER_LOOKS_SHARE)

    def _reason_to_stop(self, look: Look, blocks: Sequence[Block]) -> End | None:
        lead = lead_arm(self._config.design)
        if lead is None or lead not in self._config.measured_arms:
            return None
        # Looks compare the arms at the first load only.
        comparisons = self._differences_at(self._config.loads[0], blocks, look.alpha)
        return reason_to_stop(comparisons, lead.name, look.rounds)

    def _is_narrow(self, blocks: Sequence[Block]) -> bool:
        interval_widths = list[Width]()
        for load in self._config.loads:
            interval_widths += widths(load_name(load), self._differences_at(load, blocks, ALPHA))
        widest_interval = find_widest(interval_widths)
        return widest_interval is not None and widest_interval.half_width < widest_interval.goal

    def _differences_at(
        self, load: float, blocks: Sequence[Block], alpha: float
    ) -> dict[str, dict[str, Comparison]]:
        operations = pl.concat(self._operations).filter(has_load(load))
        blocks_of_load = [block for block in blocks if block.load == load]
        return differences(estimates(rpc=None, operations=operations, blocks=blocks_of_load), alpha)
