"""Rules that choose which keys a switch holds: their interface, the installed ones, checks of their choices.

A rule is called with the size of the hot set and returns a `KeyChooser`, which is asked for the keys after
each period. The same rule is scored on a log (`hotline policies --rule`) and chooses live hot sets: of
`hotline hotset build`, of a run (setting `rule`) and of `hotline follow`. A class whose `__init__` takes the
size is a rule.

A rule is found by the name of an entry point of the group `hotline.rules`, by `module:ATTRIBUTE`, or by the
dotted name of a module that has a `RULE`; modules are searched on the import path.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Annotated, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from controller.errors import RuleError
from foundation.packages import install_hint
from foundation.protocol.codec import Keys
from foundation.protocol.hashing import MULTIPLIER
from foundation.text import one_line, pluralize, shortened, show

TOP_K = "top-k"
"""Name of the rule that chooses a hot set at the beginning of a run if no other is named."""
WINDOW = "window"
"""Name of the rule of `hotline follow` if no other is named."""
ATTRIBUTE = "RULE"
"""Attribute of a module that is named without one."""

NAMES_OF_RULES = "an installed rule's name, module:ATTRIBUTE, or the dotted name of a module with a RULE"
RuleName: TypeAlias = Annotated[str, Field(description=f"Rule that chooses the keys: {NAMES_OF_RULES}.")]
MAX_ORDERED = 1 << 24
"""Maximum number of updates that `PeriodUpdates.in_order` returns where only counts are known."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PeriodUpdates:
    """Updates of each key in a period, as a rule sees them.

    A live period has the keys in the switch and the most updated others: as many as the set lacks, and
    2,048 more (`selection.cold_limit`). At the beginning of a run, and of a log, all keys are there.
    """

    keys: Keys
    """uint64[n]: distinct keys, ascending; among them are all of `hot`."""
    updates: NDArray[np.int64]
    """int64[n]: updates of each key in the period."""
    hot: Keys
    """uint64[m]: keys that were in the switch, in any order."""
    order: NDArray[np.uint32] | None = None
    """uint32[updates]: index in `keys` of each update in the order of time.

    None where only counts are known, as live ones are, or if there are more than `MAX_ORDERED` updates.
    """

    def in_order(self, limit: int = MAX_ORDERED) -> NDArray[np.uint32]:
        """Return the index in `keys` of each update in the order of time.

        If only counts are known, each key's updates are spread evenly over the period, beginning at a time
        that depends on the key. Of more than `limit` updates an even sample of about that size is returned.
        """
        if self.order is not None:
            return self.order
        # Key k's updates are at the times (j + phase_k) / rate_k, j = 0, 1, ..., before the end, which is 1.
        rates = self.updates * min(1.0, limit / max(int(self.updates.sum()), 1))
        phases = _phases(self.keys)
        numbers = np.ceil(rates - phases).astype(np.int64).clip(0)
        indexes = np.repeat(np.arange(len(self.keys), dtype=np.uint32), numbers)
        ranks = np.arange(len(indexes)) - np.repeat(np.cumsum(numbers) - numbers, numbers)
        times = (ranks + phases[indexes]) / rates[indexes]
        return indexes[np.argsort(times, kind="stable")]


class KeyChooser(Protocol):
    def choose(self, period: PeriodUpdates) -> Sequence[int] | NDArray[np.integer]:
        """Return the keys that shall be in the switch from now on, the most wanted first.

        They are distinct, at most as many as the size that the rule was called with, and each was in this
        period or an earlier one. Where a lane of the switch has too few slots, the first keys get them.
        """


HotSetRule: TypeAlias = Callable[[int], KeyChooser]
"""Maps the size of a hot set to its chooser; raises `RuleError` if the rule cannot choose live hot sets."""


def rule_names() -> tuple[str, ...]:
    return tuple(sorted(_entry_points(), key=lambda name: (name not in (TOP_K, WINDOW), name)))


@cache
def _entry_points() -> Mapping[str, str]:
    return {each.name: each.value for each in entry_points(group="hotline.rules")}


def find_rule(reference: str) -> HotSetRule:
    """Return a rule by its name, `module:ATTRIBUTE`, or a module's dotted name; raises `RuleError`."""
    installed = _entry_points()
    if reference not in installed and not {".", ":"} & set(reference):
        raise RuleError(
            f"expected a rule ({', '.join(rule_names())}), module:ATTRIBUTE, or a module's name with a dot, "
            f"got {shortened(one_line(reference))!r}{install_hint('hotline.rules', reference)}"
        )
    module, _, attribute = installed.get(reference, reference).partition(":")
    rule: HotSetRule = _call(
        f"{shortened(one_line(reference))!r} is no rule",
        lambda: getattr(import_module(module), attribute or ATTRIBUTE),
    )
    if not callable(rule):
        raise RuleError(
            f"{reference!r} is no rule: expected a class or function of the hot set's size, got "
            f"{_describe(rule)}"
        )
    return rule


def module_of_rule(reference: str) -> str:
    """Return the name of the module that has a rule, which `find_rule` has found."""
    return _entry_points().get(reference, reference).partition(":")[0]


@dataclass(slots=True)
class RunningRule:
    """A rule that chooses one hot set, whose choices are checked."""

    name: str
    top_k: int
    _chooser: KeyChooser
    _known_keys: Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    """uint64[n]: keys that the rule has seen, ascending."""

    def choose(self, period: PeriodUpdates) -> Keys:
        """Return the keys that the rule wants, uint64[n], at most `top_k`; raises `RuleError` for others."""
        choice = _call(f"rule {self.name} failed", lambda: self._chooser.choose(period))
        self._known_keys = np.union1d(self._known_keys, period.keys)
        keys = self._as_keys(choice)
        if len(keys) > self.top_k:
            raise RuleError(
                f"rule {self.name} chose {pluralize(len(keys), 'key')}: expected at most {self.top_k:,}, the "
                "size of the hot set"
            )
        is_known = np.isin(keys, self._known_keys)
        if not is_known.all():
            raise RuleError(
                f"rule {self.name} chose key {keys[~is_known][0]}: expected keys that it was shown, by "
                "`period.keys`"
            )
        distinct_keys, counts = np.unique(keys, return_counts=True)
        if len(distinct_keys) < len(keys):
            raise RuleError(
                f"rule {self.name} chose key {distinct_keys[counts > 1][0]} more than once: expected "
                "distinct keys"
            )
        return keys

    def _as_keys(self, choice: object) -> Keys:
        expected = f"rule {self.name} chose {_describe(choice)}: expected a sequence or array of integer keys"
        if isinstance(choice, str | bytes) or not isinstance(choice, Sequence | np.ndarray):
            raise RuleError(expected)
        if not len(choice):
            return np.empty(0, np.uint64)
        if not isinstance(choice, np.ndarray):
            for key in choice:
                if isinstance(key, bool) or not isinstance(key, int | np.integer):
                    raise RuleError(f"{expected}, got the element {_describe(key)}")
            # Python's integers may exceed 64 bits, which an array of objects can hold.
            choice = np.array([int(key) for key in choice], object)
        elif choice.ndim != 1 or choice.dtype.kind not in "iu":
            raise RuleError(f"{expected}, got an array of {choice.dtype} with shape {choice.shape}")
        is_key = (choice >= 0) & (choice < 2**64)
        if not is_key.all():
            raise RuleError(f"rule {self.name} chose key {choice[~is_key][0]}: expected 0 to 2^64 - 1")
        return choice.astype(np.uint64)


def start_rule(reference: str, top_k: int) -> RunningRule:
    """Find a rule, and have it choose a hot set of at most `top_k` keys; raises `RuleError`."""
    return run_rule(reference, find_rule(reference), top_k)


def run_rule(name: str, rule: HotSetRule, top_k: int) -> RunningRule:
    chooser = _call(f"rule {name} failed to start", lambda: rule(top_k))
    if not callable(getattr(chooser, "choose", None)):
        raise RuleError(
            f"rule {name} returned {_describe(chooser)} for a hot set of {top_k:,}: expected an object with "
            "the method choose(period)"
        )
    return RunningRule(name, top_k, chooser)


def _call(problem: str, function: Callable[[], T]) -> T:
    """Call code of a rule; raise `RuleError`, with the rule's line, for any other error of it."""
    try:
        return function()
    except RuleError:
        raise
    # `sys.exit()` in a rule would end the command without a word.
    except (Exception, SystemExit) as error:
        raise RuleError(f"{problem}: {_describe_error(error)}") from error


def _describe_error(error: BaseException) -> str:
    text = shortened(one_line(str(error)))
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    # The first frame is in the rule's file, and the last ones may be in a library that the rule calls.
    lines = [frame.lineno for frame in frames if frame.filename == frames[0].filename]
    return f"{message} ({frames[0].filename}, line {lines[-1]})" if frames else message


def _describe(value: object) -> str:
    return f"{type(value).__name__} {show(value)}"


def _phases(keys: Keys) -> NDArray[np.float64]:
    """Return a number of [0, 1) for each key, from the key's hash: float64[n]."""
    return (keys * np.uint64(MULTIPLIER) >> np.uint64(11)) / 2.0**53
