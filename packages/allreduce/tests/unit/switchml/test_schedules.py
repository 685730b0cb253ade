"""SwitchML under faults: real agents and the real program, simulated on 600 schedules (soak: 10,000)."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from hotline_allreduce.simulation.player import AllReduceVerdict, VerdictCounts, play, table_lines
from hotline_allreduce.simulation.schedule import ALL_REDUCE_FAULTS, AllReduceSchedule, draw_all_reduces
from hotline_allreduce.simulation.subject import Subject
from hotline_allreduce.switchml.design import SwitchML
from hotline_allreduce.switchml.model.subject import CHECKED, PUBLISHED, RANGE, main, subject_of
from hotline_allreduce.switchml.packet import VALUES
from packages.allreduce.tests.harness.verdicts import check_verdicts, count_verdicts
from tests.harness.faults import some_and_many

SUBJECTS = (PUBLISHED, CHECKED)
SCHEDULES, SOAKED = 600, 10_000
MAY_STALL = {"switch restarted", "worker killed"}
"""What no check can mend."""
KEEPS_ORDER = {"duplication", "cable"}
"""Faults in which no frame overtakes another, and none is lost at random."""


def may_be(fault: str, subject: Subject) -> set[AllReduceVerdict]:
    stalls = {AllReduceVerdict.STALLED} if fault in MAY_STALL else set()
    if subject is CHECKED or fault in KEEPS_ORDER | {"worker killed"}:
        return {AllReduceVerdict.EQUAL} | stalls
    return {AllReduceVerdict.EQUAL, AllReduceVerdict.STALLED, AllReduceVerdict.WRONG}


@pytest.mark.no_cover
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.arm.name)
@pytest.mark.parametrize("fault", ALL_REDUCE_FAULTS)
@some_and_many(SCHEDULES, SOAKED, rows=len(ALL_REDUCE_FAULTS) * len(SUBJECTS))
def test_sums_are_equal_or_a_stall_is_reported(
    fault: str, subject: Subject, first: int, schedules: int
) -> None:
    check_verdicts(subject, fault, first, schedules, may_be(fault, subject))


def test_schedules_meet_wrong_sums_and_stalls() -> None:
    """The published rules meet each outcome, and deaths and restarts stall some."""
    reordered = count_verdicts("late copies", PUBLISHED, 0, 60)
    assert reordered.counts[AllReduceVerdict.WRONG] and reordered.counts[AllReduceVerdict.EQUAL]
    for fault in MAY_STALL:
        assert count_verdicts(fault, CHECKED, 0, 30).counts[AllReduceVerdict.STALLED]


def test_loss_alone_breaks_the_published_rules_for_short_vectors_of_floats_only() -> None:
    """If a batch is smaller than a window, packets of one all-reduce share a slot and do not wait."""
    broken = 0
    for seed in range(60):
        schedule = draw_all_reduces(RANGE, "loss", seed)
        chunks = -(-schedule.values // VALUES)
        is_short = schedule.is_float and schedule.window / 2 < chunks < schedule.window
        verdict = play(PUBLISHED, schedule).verdict
        broken += verdict is not AllReduceVerdict.EQUAL
        assert verdict is AllReduceVerdict.EQUAL or is_short, schedule
    assert broken


def test_with_a_timeout_a_chunk_completes_without_dead_workers() -> None:
    arm = replace(CHECKED.arm, settings=SwitchML(check=True, slot_timeout_us=30_000))
    schedule = AllReduceSchedule(
        "worker killed", 7, workers=3, window=2, all_reduces=2, killed_us=40, target=1
    )
    played = play(subject_of(arm), schedule)
    assert [len(of_worker) for of_worker in played.results] == [2, 1, 2]
    first, _, last = played.results
    assert [one.tolist() for one in first] == [one.tolist() for one in last]
    # A chunk has the part of the one that has died, or not, and is the same for both others.
    vectors = played.vectors[1]
    whole, partial = (np.asarray(np.sum(each, axis=0, dtype=np.int32)) for each in (vectors, vectors[::2]))
    chunks = [slice(at, at + VALUES) for at in range(0, len(whole), VALUES)]
    is_whole, is_partial = (
        [bool((first[1][at] == each[at]).all()) for at in chunks] for each in (whole, partial)
    )
    assert all(one != other for one, other in zip(is_whole, is_partial, strict=True)) and any(is_partial)
    assert all(played.testbed.network.clients[w].incomplete for w in (0, 2))
    assert play(CHECKED, schedule).verdict is AllReduceVerdict.STALLED


def test_a_sum_is_judged_by_its_format() -> None:
    ones = [np.full(70, 1, np.int32)] * 2
    assert PUBLISHED.is_sum(np.full(70, 2, np.int32), ones)
    assert not PUBLISHED.is_sum(np.array([2] * 69 + [3], np.int32), ones)
    floats = [np.full(70, each, np.float32) for each in (1.0, 3e-8)]
    assert PUBLISHED.is_sum(np.full(70, 1.0, np.float32), floats)
    assert not PUBLISHED.is_sum(np.full(70, 1.001, np.float32), floats)


def test_a_stall_is_reported_when_the_slot_timeout_ends_and_not_at_the_next_event() -> None:
    """Its two workers wait for each other, and send again every second."""
    played = play(PUBLISHED, draw_all_reduces(RANGE, "loss", 3130))
    assert played.verdict is AllReduceVerdict.STALLED
    for client in played.testbed.network.clients:
        me = client.state.header
        assert me.stalled and 0 <= me.stalled_at - me.last_arrival - me.stall_timeout < 10_000


def test_the_table_has_the_same_counts_as_text_and_as_json() -> None:
    found = [VerdictCounts(fault, subject) for fault in ALL_REDUCE_FAULTS for subject in SUBJECTS]
    found[0].counts[AllReduceVerdict.WRONG] = 1_234
    head, rule, *rows = table_lines(found)
    assert head.count("|") == rule.count("|") == 8 and len(rows) == len(ALL_REDUCE_FAULTS)
    assert rows[0] == "| frames are lost | 0 | 0 | 1,234 | 0 | 0 | 0 |"
    run = CliRunner().invoke(main, ["--schedules", "1", "--json"])
    assert run.exit_code == 0
    rows_of_json = json.loads(run.stdout)
    assert len(rows_of_json) == len(ALL_REDUCE_FAULTS) * len(SUBJECTS)
    assert rows_of_json[0]["schedules"] == {
        "equal": 1, "stalled and reported": 0, "wrong": 0, "stalled in silence": 0
    }  # fmt: skip
    assert rows_of_json[0]["first_seed"] == {"equal": 0}
