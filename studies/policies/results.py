"""What a study says: of each policy and size, hits, moves and packets; kept as JSON, and printed as such."""

from __future__ import annotations

from functools import cached_property

from foundation.settings import Strict
from studies.policies.packets import Packed

WRITES_A_MOVE = 2
"""Table writes of an install (insert, turn hot) and of an eviction (turn draining, delete):
`controller.hotset.migrate`."""
EVERY_S = 10.0
"""A period of `hotline follow` where nothing else is said."""
LEAST_PERIODS = 20
"""That a log has where nothing else is said."""
WRITES_PER_S = 417_000.0
"""Table writes a second that softswitch took over gRPC, of a hot set, in the kernel, with nothing else to do
(docs/performance.md, "Table writes")."""


class Settings(Strict):
    """How a log is studied."""

    sizes: tuple[int, ...] = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000)
    """Keys that are kept, ascending."""
    policies: tuple[str, ...] = ()
    """Names; none: all of them."""
    learn: float = 0.5
    """Part of the steps that is learnt from and not scored."""
    rate: float = 250.0
    """Steps/s of all workers."""
    every: float | None = None
    """Seconds of a period, at whose end sets are chosen or cleared; None: 10, or 1/20 of a short log."""
    writes_per_s: float = WRITES_PER_S
    """Table writes that the control plane manages."""
    servers: int = 2
    """Parameter servers, for the packets that they are spared."""
    samples_per_step: int = 150
    """Of a libsvm training set."""

    def period(self, steps: int) -> int:
        """Steps of a period, of a log with so many."""
        if self.every is not None:
            return max(1, round(self.every * self.rate))
        return max(1, min(round(EVERY_S * self.rate), steps // LEAST_PERIODS))


class Facts(Strict):
    """Of a log."""

    name: str
    updates: int
    pulls: int
    """In the scored part, as updates."""
    keys: int
    """Distinct ones, in all of it."""
    steps: int
    scored_steps: int
    period: int
    """Steps of a period."""
    half_life: float | None
    """Steps after which the top k of a window have lost half of their lead; None: no drift is seen."""
    without: Packed
    """RPCs with no key in the switch."""
    shift_at: int | None = None
    """Step of a generated log at which half of the hottest keys change."""

    @property
    def behind_shift(self) -> int | None:
        """Steps behind a shift within the scored part; None: there is none."""
        if self.shift_at is None or self.shift_at <= self.steps - self.scored_steps:
            return None
        return self.steps - self.shift_at


class Outcome(Strict):
    """Of one policy with one size, over the scored part."""

    policy: str
    title: str
    size: int
    is_bound: bool
    by_switch: bool
    updates: int
    hits: int
    """Updates that found their key."""
    pulls: int
    pull_hits: int
    installs: int
    evictions: int
    over_time: tuple[float, ...]
    """Share of the updates that hit, in even parts of the time."""
    packed: Packed
    spared: float
    """Share of the packets to servers that is spared."""
    seconds: float
    """Of the scored part, at the rate of steps."""
    follows: bool | None
    """Whether the control plane can write its moves; None: the switch makes them by itself."""
    updates_per_cpu_s: float
    """How fast it was studied: accesses a second of CPU time, of all sizes that went in one pass."""
    follows_after: int | None = None
    """Steps behind a shift until it had 95 % of its share again; None: it never had, or there is no shift."""

    @property
    def share(self) -> float:
        """Of the updates that hit."""
        return self.hits / self.updates

    @property
    def pull_share(self) -> float | None:
        """Of the pulls; None where the log has none."""
        return self.pull_hits / self.pulls if self.pulls else None

    @property
    def moves(self) -> int:
        """Installs and evictions."""
        return self.installs + self.evictions

    @property
    def moves_per_s(self) -> float:
        """At the rate of steps."""
        return self.moves / self.seconds

    @property
    def moves_per_thousand(self) -> float:
        """For a thousand updates."""
        return 1_000 * self.moves / self.updates


class Study(Strict):
    """All of it."""

    facts: Facts
    settings: Settings
    outcomes: tuple[Outcome, ...]

    @cached_property
    def by_policy(self) -> dict[str, list[Outcome]]:
        """Name -> outcomes, by size."""
        found: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            found.setdefault(outcome.policy, []).append(outcome)
        return found

    def at(self, size: int) -> dict[str, Outcome]:
        """Name -> outcome with a size."""
        return {outcome.policy: outcome for outcome in self.outcomes if outcome.size == size}


def follows(moves: int, seconds: float, by_switch: bool, writes_per_s: float) -> bool | None:
    """Whether a control plane with so many table writes a second could make the moves."""
    return None if by_switch else WRITES_A_MOVE * moves <= writes_per_s * seconds
