"""Schedules of faults of lockstep designs: how many a test plays, and what it checks of them."""

from __future__ import annotations

from hotline_allreduce.simulation.player import AllReduceVerdict, VerdictCounts
from hotline_allreduce.simulation.subject import Subject


def count_verdicts(fault: str, subject: Subject, first_seed: int, schedules: int) -> VerdictCounts:
    counts = VerdictCounts(fault, subject)
    for seed in range(first_seed, first_seed + schedules):
        counts.play(seed)
    return counts


def check_verdicts(
    subject: Subject, fault: str, first: int, schedules: int, allowed: set[AllReduceVerdict]
) -> None:
    found = count_verdicts(fault, subject, first, schedules)
    assert sum(found.counts.values()) == schedules
    assert {verdict for verdict, count in found.counts.items() if count} <= allowed, found.first_seeds
