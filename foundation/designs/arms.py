"""Lookups over the arms of all designs, for code that names no design. On the wire, an arm is a job."""

from __future__ import annotations

from collections.abc import Iterable

from foundation.designs.interface import Arm
from foundation.designs.registry import design as find
from foundation.designs.registry import known_names
from foundation.errors import HotlineError
from foundation.renamed import find_old_arm


def arms_of(design: str) -> tuple[Arm, ...]:
    return find(design).arms


def measured_arms(design: str) -> tuple[Arm, ...]:
    return tuple(arm for arm in arms_of(design) if arm.is_measured)


def profile_arm(design: str) -> Arm:
    found = next((arm for arm in arms_of(design) if not arm.is_measured), None)
    if found is None:
        raise HotlineError(f"design {design} has no arm to profile")
    return found


def fault_arms(design: str) -> tuple[Arm, ...]:
    """Return the arms whose switch aggregates, which faults can affect; without one, the first arm."""
    found = measured_arms(design)
    return tuple(arm for arm in found if arm.settings.aggregates) or found[:1]


def all_arms() -> dict[str, Arm]:
    found = [arm for design in known_names() for arm in arms_of(design)]
    names = {arm.name: arm for arm in found}
    if not len(names) == len({arm.job for arm in found}) == len(found):
        raise ValueError(f"arms share a name or a job: {[(arm.name, arm.job) for arm in found]}")
    return names


def arm(name: str) -> Arm:
    found = all_arms()
    if name not in found:
        raise HotlineError(find_old_arm([name]) or f"expected an arm ({', '.join(found)}), got {name!r}")
    return found[name]


def renamed_arm(names: Iterable[str]) -> str | None:
    return find_old_arm(names, all_arms())


def arms_in_order(names: Iterable[str]) -> tuple[Arm, ...]:
    wanted = set(names)
    return tuple(arm for arm in all_arms().values() if arm.is_measured and arm.name in wanted)


def reference_of(names: Iterable[str]) -> Arm:
    found = [arm for arm in arms_in_order(names) if arm.reference is None]
    if not found:
        raise HotlineError("there is no arm that others are compared with")
    return found[0]


def arms_by_reference(names: Iterable[str]) -> dict[str, list[Arm]]:
    found = arms_in_order(names)
    references = dict.fromkeys(arm.reference for arm in found if arm.reference is not None)
    return {name: [arm for arm in found if arm.reference == name] for name in references}


def repetition_of(name: str | None) -> Arm | None:
    """Return the arm that repeats another one (A/A), whose differences are noise; None if there is none."""
    return next((arm for arm in all_arms().values() if arm.reference == name and arm.is_repetition), None)


def lead_arm(design: str) -> Arm | None:
    return next((arm for arm in measured_arms(design) if arm.is_lead), None)


def baseline_and_lead(design: str) -> tuple[Arm, Arm]:
    lead = lead_arm(design)
    if lead is None or lead.reference is None:
        raise HotlineError(f"design {design} has no lead arm with a reference")
    return arm(lead.reference), lead


def arms_in_answer(design: str) -> tuple[Arm, ...]:
    found = [arm for arm in measured_arms(design) if arm.is_lead or arm.sentence_prefix]
    return tuple(sorted(found, key=lambda arm: not arm.is_lead))
