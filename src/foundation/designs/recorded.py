"""Designs as a run's record describes them: its report needs the arms, and not the design's own modules."""

from __future__ import annotations

from dataclasses import dataclass

from foundation.designs.interface import Arm, Design
from foundation.settings import Strict


@dataclass(frozen=True, slots=True)
class RecordedSettings:
    aggregates: bool
    proxies: bool


class RecordedArm(Strict):
    """The fields of an `Arm`, with what all settings have in common."""

    name: str
    job: int
    design: str
    colour: str
    about: str
    note: str
    reference: str | None
    is_measured: bool
    is_lead: bool
    sentence_prefix: str
    is_repetition: bool
    aggregates: bool
    proxies: bool

    @classmethod
    def of(cls, arm: Arm) -> RecordedArm:
        shared = {"aggregates": arm.settings.aggregates, "proxies": arm.settings.proxies}
        fields = {name: getattr(arm, name) for name in cls.model_fields if name not in shared}
        return cls.model_validate({**fields, **shared})

    def arm(self) -> Arm:
        fields = self.model_dump(exclude={"aggregates", "proxies"})
        return Arm(settings=RecordedSettings(self.aggregates, self.proxies), **fields)


class RecordedDesign(Strict):
    name: str
    """Name by which the run's arms name the design: of an entry point, or of a module."""
    is_lockstep: bool
    has_hot_set: bool = True
    arms: tuple[RecordedArm, ...]

    @classmethod
    def of(cls, design: Design) -> RecordedDesign:
        arms = tuple(map(RecordedArm.of, design.arms))
        return cls(
            name=arms[0].design, is_lockstep=design.is_lockstep, has_hot_set=design.has_hot_set, arms=arms
        )


_remembered: dict[str, RecordedDesign] = {}


def remember(design: RecordedDesign) -> None:
    """Have the lookups of `foundation.designs.arms` find the arms of a design that is not installed."""
    _remembered[design.name] = design


def remembered() -> dict[str, RecordedDesign]:
    return dict(_remembered)
