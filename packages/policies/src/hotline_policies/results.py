"""The results of a study, by policy and size: hits, moves and packets; also its JSON output."""

from __future__ import annotations

from functools import cached_property

from foundation.protocol.memory import MemoryOfRows
from foundation.settings import Strict
from hotline_policies.packets import RpcMeans
from hotline_policies.settings import StudySettings

# An install inserts an entry and turns it hot, an eviction turns it draining and deletes it (`migrate`).
WRITES_PER_MOVE = 2


class LogFacts(Strict):
    name: str
    updates: int
    pulls: int
    keys: int
    steps: int
    scored_steps: int
    period: int  # steps
    half_life: float | None
    """Steps after which the top k of a window have lost half of their lead in updates over k random keys
    (`drift.py`); None without drift."""
    without: RpcMeans  # without offload
    shift_at: int | None = None  # step at which a generated log exchanges hot keys
    tables: tuple[str, ...] = ()
    table_updates: tuple[int, ...] = ()
    table_half_lives: tuple[float | None, ...] = ()
    """The same as `half_life` for each table, estimated from the keys of that table alone."""
    notes: tuple[str, ...] = ()
    dims: tuple[int, ...] = (1,)
    """Distinct dims of the keys' rows, as RPCs carry them, ascending."""
    has_dims: bool = False
    """Whether a column of the log has the dims."""
    memory: tuple[MemoryOfRows, ...] = ()
    """Memory of the switch that the most updated rows take, by size of `StudySettings.sizes`."""

    @property
    def steps_after_shift(self) -> int | None:
        """Steps after a shift within the scored part; None without such a shift."""
        if self.shift_at is None or self.shift_at <= self.steps - self.scored_steps:
            return None
        return self.steps - self.shift_at


class PolicyOutcome(Strict):
    policy: str
    title: str
    size: int
    is_bound: bool
    """Whether the policy is an upper bound, which knows the whole future of this log."""
    known_steps: int = 0
    """Coming mini-batches that the policy knows."""
    by_switch: bool  # whether the data plane makes the moves by itself
    updates: int
    hits: int
    pulls: int
    pull_hits: int
    installs: int
    evictions: int
    over_time: tuple[float, ...]  # share of the updates that hit, by section of the scored part
    packed: RpcMeans  # with this policy's keys in the switch
    spared: float  # packets that servers are spared, as a share of those without offload
    seconds: float  # duration of the scored part at the rate of `StudySettings`
    follows: bool | None  # result of `can_follow`
    updates_per_cpu_s: float  # accesses that the study replayed, per second of its CPU time
    table_hits: tuple[int, ...] = ()
    follows_after: int | None = None
    """Steps after a shift until 95 % of the share were recovered; None if never, or without a shift."""

    @property
    def share(self) -> float:
        return self.hits / self.updates

    @property
    def pull_share(self) -> float | None:
        return self.pull_hits / self.pulls if self.pulls else None

    @property
    def moves(self) -> int:
        return self.installs + self.evictions

    @property
    def moves_per_s(self) -> float:
        return self.moves / self.seconds

    @property
    def moves_per_thousand(self) -> float:
        return 1_000 * self.moves / self.updates


class Study(Strict):
    facts: LogFacts
    settings: StudySettings
    outcomes: tuple[PolicyOutcome, ...]

    @property
    def training_steps(self) -> int:
        return self.facts.steps - self.facts.scored_steps

    @cached_property
    def by_policy(self) -> dict[str, list[PolicyOutcome]]:
        names = dict.fromkeys(each.policy for each in self.outcomes)
        return {name: [each for each in self.outcomes if each.policy == name] for name in names}

    def memory_text(self, size: int) -> str:
        """Return the dims of the rows, and the memory of the switch that `size` of them take."""
        dims = " and ".join(map(str, self.facts.dims))
        memory = self.facts.memory[self.settings.sizes.index(size)]
        source = "a column of the log" if self.facts.has_dims else "--dim"
        return f"rows of {dims} {'value' if dims == '1' else 'values'} ({source}): {memory}"

    def at(self, size: int) -> dict[str, PolicyOutcome]:
        return {outcome.policy: outcome for outcome in self.outcomes if outcome.size == size}


def can_follow(moves: int, seconds: float, by_switch: bool, writes_per_s: float) -> bool | None:
    """Return whether the control plane can write the moves in time; None if the switch makes them itself."""
    return None if by_switch else WRITES_PER_MOVE * moves <= writes_per_s * seconds
