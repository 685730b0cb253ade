"""The arms of experiments, as data. On the wire an arm is a job of its own.

A design brings its arms as `ARMS` of a module of its own, which stands in `DESIGNS`. Whatever runs, compares,
draws or tells of arms asks here, and has no name of an arm in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol

from common.errors import HotlineError

DESIGNS = {"hotset": "protocol.hotset"}
"""Design -> the module that has its arms."""


class Settings(Protocol):
    """What an arm sets of its design: a frozen dataclass of the design's own."""

    @property
    def aggregates(self) -> bool:
        """Whether the switch adds up parameters. Arms in which it does train alike, and so do the others."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run the same steps."""

    name: str
    job: int
    design: str
    settings: Settings
    colour: str
    """In figures, on white and on black."""
    about: str
    """What it is: "the arm ..."."""
    note: str = ""
    """What a reader of its numbers should know, as a sentence."""
    baseline: str | None = None
    """The arm that it is compared with; None for one that others are compared with."""
    is_measured: bool = True
    told: str | None = None
    """How sentences of an answer about it begin, if it has any; empty for the arm that it is about."""

    @property
    def is_repetition(self) -> bool:
        """Whether it is its baseline again (an A/A test): what it differs by is what noise looks like."""
        of = every().get(self.baseline or "")
        return of is not None and (of.design, of.settings) == (self.design, self.settings)


def arms_of(design: str) -> tuple[Arm, ...]:
    """All arms of a design, in the order of tables; raises `HotlineError` for one that there is not."""
    if design not in DESIGNS:
        raise HotlineError(f"design {design}: there are {', '.join(DESIGNS)}")
    found: tuple[Arm, ...] = import_module(DESIGNS[design]).ARMS
    return found


def measured(design: str) -> tuple[Arm, ...]:
    """The arms of a design that are measured."""
    return tuple(arm for arm in arms_of(design) if arm.is_measured)


def every() -> dict[str, Arm]:
    """The arms of all designs, by their names."""
    found = [arm for design in DESIGNS for arm in arms_of(design)]
    names = {arm.name: arm for arm in found}
    if not len(names) == len({arm.job for arm in found}) == len(found):
        raise ValueError(f"arms share a name or a job: {[(arm.name, arm.job) for arm in found]}")
    return names


def arm(name: str) -> Arm:
    """The arm of that name; raises `HotlineError`."""
    found = every()
    if name not in found:
        raise HotlineError(f"arm {name}: there are {', '.join(found)}")
    return found[name]


def ordered(names: Iterable[str]) -> tuple[Arm, ...]:
    """Those of all measured arms that are named, in the order of tables; other names are left out."""
    wanted = set(names)
    return tuple(arm for arm in every().values() if arm.is_measured and arm.name in wanted)


def baseline_of(names: Iterable[str]) -> Arm:
    """The one of these arms that others are compared with; raises `HotlineError` where there is none."""
    found = [arm for arm in ordered(names) if arm.baseline is None]
    if not found:
        raise HotlineError("there is no arm that others are compared with")
    return found[0]


def compared(names: Iterable[str]) -> dict[str, list[Arm]]:
    """Baseline -> those of these arms that are compared with it."""
    found = ordered(names)
    baselines = dict.fromkeys(arm.baseline for arm in found if arm.baseline is not None)
    return {baseline: [arm for arm in found if arm.baseline == baseline] for baseline in baselines}


def repetition_of(name: str | None) -> Arm | None:
    """The arm that is another one again, and tells what noise is; None where there is none."""
    return next((arm for arm in every().values() if arm.baseline == name and arm.is_repetition), None)


def leading(design: str) -> Arm | None:
    """The arm that a design is judged by; None where none is."""
    return next((arm for arm in measured(design) if arm.told == ""), None)


def told(design: str) -> tuple[Arm, ...]:
    """The arms of which answers have a word, the leading one first."""
    found = [arm for arm in measured(design) if arm.told is not None]
    return tuple(sorted(found, key=lambda arm: bool(arm.told)))
