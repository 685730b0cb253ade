"""What tests of schedules of all-reduces check, of every design."""

from __future__ import annotations

import pytest

from simulator.dense.player import Verdict
from simulator.dense.subject import Subject
from simulator.dense.tally import count_verdicts


def some_and_many(schedules: int, soaked: int) -> pytest.MarkDecorator:
    """Parametrize `first`, a seed, and `schedules`: so many, and in soak so many others."""
    many = pytest.param(1 << 20, soaked, marks=pytest.mark.soak)
    return pytest.mark.parametrize(("first", "schedules"), [(0, schedules), many], ids=["some", "many"])


def check_verdicts(subject: Subject, fault: str, first: int, schedules: int, allowed: set[Verdict]) -> None:
    found = count_verdicts(fault, subject, first, schedules)
    assert sum(found.counts.values()) == schedules
    assert {verdict for verdict, count in found.counts.items() if count} <= allowed, found.first_seeds
