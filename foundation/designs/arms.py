"""Lookups over the arms of all designs. On the wire an arm is a job of its own.

Whatever runs, compares, draws or tells of arms asks here, and has no name of an arm in it.
"""

from __future__ import annotations

from collections.abc import Iterable

from foundation.designs.interface import Arm
from foundation.designs.registry import design as find
from foundation.designs.registry import known
from foundation.errors import HotlineError
from foundation.renamed import find_old_arm


def arms_of(design: str) -> tuple[Arm, ...]:
    """All arms of a design, in the order of tables; raises `DesignError` for one that there is not."""
    return find(design).arms


def measured(design: str) -> tuple[Arm, ...]:
    """The arms of a design that are measured."""
    return tuple(arm for arm in arms_of(design) if arm.is_measured)


def arms_to_strike(design: str) -> tuple[Arm, ...]:
    """Those in which faults can hit what a design does: where its switch aggregates, or else its first."""
    found = measured(design)
    return tuple(arm for arm in found if arm.settings.aggregates) or found[:1]


def every() -> dict[str, Arm]:
    """The arms of all designs, by their names."""
    found = [arm for design in known() for arm in arms_of(design)]
    names = {arm.name: arm for arm in found}
    if not len(names) == len({arm.job for arm in found}) == len(found):
        raise ValueError(f"arms share a name or a job: {[(arm.name, arm.job) for arm in found]}")
    return names


def arm(name: str) -> Arm:
    """The arm of that name; raises `HotlineError`."""
    found = every()
    if name not in found:
        raise HotlineError(find_old_arm([name]) or f"expected an arm ({', '.join(found)}), got {name!r}")
    return found[name]


def renamed_arm(names: Iterable[str]) -> str | None:
    """Return the message for the first of these names that is an arm's old one; None if none is."""
    return find_old_arm(names, every())


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
    return next((arm for arm in measured(design) if arm.is_lead), None)


def judged(design: str) -> tuple[Arm, Arm]:
    """The arm that a design is judged by, behind its baseline; raises `HotlineError` where there is none."""
    lead = leading(design)
    if lead is None or lead.baseline is None:
        raise HotlineError(f"design {design} has no arm that it is judged by")
    return arm(lead.baseline), lead


def mentioned(design: str) -> tuple[Arm, ...]:
    """Return the arms that answers mention, the leading one first."""
    found = [arm for arm in measured(design) if arm.is_lead or arm.sentence_prefix]
    return tuple(sorted(found, key=lambda arm: not arm.is_lead))
