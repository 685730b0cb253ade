"""Lookups over the arms of all designs, for code that names no design. On the wire, an arm is a job."""

from __future__ import annotations

from collections.abc import Iterable

from foundation.designs.interface import Arm, Design
from foundation.designs.recorded import RecordedDesign, remembered
from foundation.designs.registry import described_design, known_names
from foundation.errors import HotlineError


def arms_of(design: str) -> tuple[Arm, ...]:
    """Return the arms of a design, or those in the record of a run if the design is not installed."""
    recorded = _recorded(design)
    return described_design(design).arms if recorded is None else tuple(each.arm() for each in recorded.arms)


def is_lockstep(design: str) -> bool:
    return _described(design).is_lockstep


def has_hot_set(design: str) -> bool:
    """Return whether the switch of a design holds a chosen part of the parameters."""
    return _described(design).has_hot_set


def _described(design: str) -> Design | RecordedDesign:
    return _recorded(design) or described_design(design)


def _recorded(design: str) -> RecordedDesign | None:
    return None if design in known_names() else remembered().get(design)


def measured_arms(design: str) -> tuple[Arm, ...]:
    return tuple(arm for arm in arms_of(design) if arm.is_measured)


def profile_arm(design: str) -> Arm:
    profile = next((arm for arm in arms_of(design) if not arm.is_measured), None)
    if profile is None:
        raise HotlineError(f"design {design} has no arm to profile")
    return profile


def fault_arms(design: str) -> tuple[Arm, ...]:
    """Return the arms whose switch aggregates, which faults can affect; without one, the first arm."""
    arms = measured_arms(design)
    return tuple(arm for arm in arms if arm.settings.aggregates) or arms[:1]


def all_arms() -> dict[str, Arm]:
    """Return the arms of the known designs by name, and then those of the designs of runs that were read."""
    known = known_names()
    arms = [arm for design in known for arm in described_design(design).arms]
    arms_by_name = {arm.name: arm for arm in arms}
    if not len(arms_by_name) == len({arm.job for arm in arms}) == len(arms):
        raise ValueError(f"arms share a name or a job: {[(arm.name, arm.job) for arm in arms]}")
    for design in remembered().keys() - set(known):
        for recorded_arm in arms_of(design):
            other = arms_by_name.setdefault(recorded_arm.name, recorded_arm)
            if other.design != design:
                raise HotlineError(
                    f"the arm {recorded_arm.name} is of design {design} in one run, and of {other.design} in "
                    "another: expected different names"
                )
    return arms_by_name


def arm(name: str) -> Arm:
    arms = all_arms()
    if name not in arms:
        raise HotlineError(_unknown_arm_message(name, arms))
    return arms[name]


def unknown_arm_message(names: Iterable[str]) -> str | None:
    """Return the error for the first name that is no arm's; None if all are known."""
    arms = all_arms()
    unknown_name = next((name for name in names if name not in arms), None)
    return None if unknown_name is None else _unknown_arm_message(unknown_name, arms)


def _unknown_arm_message(name: str, arms: Iterable[str]) -> str:
    return f"expected an arm ({', '.join(arms)}), got {name!r}"


def arms_in_order(names: Iterable[str]) -> tuple[Arm, ...]:
    selected_names = set(names)
    return tuple(arm for arm in all_arms().values() if arm.is_measured and arm.name in selected_names)


def reference_of(names: Iterable[str]) -> Arm:
    names = list(names)
    baselines = [arm for arm in arms_in_order(names) if arm.reference is None]
    if not baselines:
        raise HotlineError(f"expected a measured arm without a reference, got {names}")
    return baselines[0]


def arms_by_reference(names: Iterable[str]) -> dict[str, list[Arm]]:
    arms = arms_in_order(names)
    references = dict.fromkeys(arm.reference for arm in arms if arm.reference is not None)
    return {name: [arm for arm in arms if arm.reference == name] for name in references}


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
    arms = [arm for arm in measured_arms(design) if arm.is_lead or arm.sentence_prefix]
    return tuple(sorted(arms, key=lambda arm: not arm.is_lead))
