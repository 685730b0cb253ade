"""No fault loses or doubles an update: 600 schedules here, 100,000 in `make soak`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from foundation.protocol.rpc import PULL, PUSH
from hotline_simulator.faults.draw import draw_faults
from hotline_simulator.faults.kinds import FAULTS, KINDS, Fault, faults_of, kinds_of, play_schedule
from hotline_simulator.faults.matrix import (
    MATRIX_ROWS,
    Tally,
    as_rows,
    cached_testbed,
    play_effective,
    play_seeds,
    quantiles,
    tally_of,
)
from hotline_simulator.faults.model import Judgement, judge
from hotline_simulator.faults.operations import WorkerOperations
from hotline_simulator.faults.player import Player, ScheduleOutcome
from hotline_simulator.faults.schedule import ARMS, RPCS, SERVERS, WORKERS, FaultSchedule
from hotline_simulator.faults.testbed import SimulatedTestbed
from hotline_simulator.state import HEAD_BYTES
from switch_harness.wording import says
from tests.harness.cli import invoke
from tests.harness.faults import some_and_many

SCHEDULES, SOAKED = 600, 100_000
BOUND_MS = {"loss": 60_000, "everything": 60_000}
"""Bounds of the recovery time in ms. A frame lost at random is sent again after a second at most, and may be
lost many times; the other faults need one or two retransmissions."""
SOON_MS = 1_000


@pytest.mark.no_cover
@pytest.mark.parametrize(("fault", "arm"), MATRIX_ROWS)
@some_and_many(SCHEDULES, SOAKED, rows=len(MATRIX_ROWS))
def test_no_fault_loses_doubles_or_tears_an_update(fault: str, arm: str, first: int, schedules: int) -> None:
    tally = Tally.model_validate_json(play_seeds(fault, arm, first, schedules))
    assert tally.failures == ()
    assert (tally.lost, tally.doubled, tally.torn, tally.misread, tally.stuck) == (0, 0, 0, 0, 0)
    assert tally.happened == tally.schedules == schedules
    assert len(tally.recovery_ms) == schedules and max(tally.recovery_ms) < BOUND_MS.get(fault, SOON_MS)
    assert tally.rpcs >= RPCS * schedules and tally.during >= schedules and tally.sent >= schedules


def test_the_testbed_has_at_least_3_workers_2_servers_and_15_faults() -> None:
    assert WORKERS >= 3 and SERVERS >= 2 and RPCS >= 200 and len(FAULTS) >= 15


def test_an_arm_gets_the_faults_of_its_design() -> None:
    """The switch of *none* keeps no state, and its servers have no journal."""
    injected = {arm: {fault for fault, of in MATRIX_ROWS if of == arm} for arm in ARMS}
    needs_more = {"server restarted", "switch restarted", "kills"}
    needs_contents = {"controller killed", "second controller", "hot set"}
    every = set(FAULTS) - {"uplink"}
    with_switch = dict.fromkeys(("offload", "offload-proxy", "collect"), every)
    assert injected == {**with_switch, "none": every - needs_more - needs_contents}


def test_the_fault_everything_draws_from_all_faults_of_a_design() -> None:
    schedules = [draw_faults("everything", "none", seed) for seed in range(300)]
    drawn = {injection.kind for schedule in schedules for injection in schedule.injections}
    assert drawn == set(kinds_of("none")) - {"worker killed"} >= {"delay", "link", "disk full"}


@pytest.mark.parametrize("fault", faults_of("offload-proxy"))
def test_a_schedule_is_a_history(fault: str) -> None:
    testbed, schedule = cached_testbed("offload-proxy"), draw_faults(fault, "offload-proxy", 77)
    assert FaultSchedule.from_json(schedule.to_json()) == schedule
    found = []
    for _ in range(2):
        play_schedule(testbed, draw_faults("everything", "offload-proxy", 5))
        outcome = play_schedule(testbed, schedule)
        found.append(
            (outcome, testbed.operations.history.tobytes(), testbed.now, testbed.stored_values().tolist())
        )
        assert max(testbed.operations.progress.operations) > 3
    assert found[0] == found[1]


def test_a_row_of_the_table_is_the_sum_of_its_schedules() -> None:
    testbed = cached_testbed("offload")
    each = [play_effective(testbed, "link", "offload", seed) for seed in range(3)]
    whole = Tally.model_validate_json(play_seeds("link", "offload", 0, 3))
    assert Tally.total(each) == whole and whole.holds
    (row,) = as_rows({("link", "offload"): whole})
    _, p50, p99 = (round(each, 3) for each in sorted(whole.recovery_ms))
    assert row["recovery_ms"] == {"p50": p50, "p99": p99}
    numbers = {*Tally.model_fields} - {"failures", "recovery_ms"}
    for name in numbers:
        assert row[name] == sum(getattr(tally, name) for tally in each)
    assert (row["fault"], row["arm"], len(row)) == ("link", "offload", len(numbers) + 3)
    for wrong in ({"lost": 1}, {"doubled": 1}, {"misread": 1}, {"torn": 1}, {"stuck": 1}, {"happened": 2}):
        assert not whole.model_copy(update=wrong).holds


def test_the_tally_counts_the_outcomes_of_a_schedule() -> None:
    outcome = ScheduleOutcome(
        took_effect=False, rpcs=7, during=3, recovery_ms=1.5, at_rest=False,
        judgement=Judgement(sent=11, lost=1, doubled=2, early=4, late=8, torn=16),
    )  # fmt: skip
    schedule = draw_faults("link", "offload", 3)
    (failure,) = (tally := tally_of(schedule, outcome, redrawn=2)).failures
    assert FaultSchedule.from_json(failure.schedule) == schedule and "lost=1" in failure.outcome
    assert tally.model_dump(exclude={"failures"}) == {
        "schedules": 1, "happened": 0, "redrawn": 2, "rpcs": 7, "during": 3, "sent": 11, "lost": 1,
        "doubled": 2, "torn": 16, "misread": 12, "stuck": 1, "recovery_ms": (1.5,),
    }  # fmt: skip
    assert quantiles(range(1, 101)) == {"p50": 50, "p99": 99}


def test_without_retransmissions_the_counted_rpcs_are_the_sent_frames() -> None:
    testbed = cached_testbed("offload")
    outcome = play_schedule(testbed, replace(draw_faults("loss", "offload", 8), loss=0.0))
    assert outcome.rpcs == outcome.during == int(testbed.world.up.frames[:WORKERS].sum()) > RPCS
    assert outcome.judgement.sent == sum(
        bin(row["mask"] & row["added"]).count("1") for row in rows_of(testbed) if row["kind"] == PUSH
    )


def rows_of(testbed: SimulatedTestbed) -> list[dict[str, Any]]:
    """Return the operations of the history."""
    names = testbed.operations.history.dtype.names or ()
    found = []
    for w in range(WORKERS):
        for row in testbed.operations.history[w, : int(testbed.operations.progress.operations[w])]:
            found.append({name: int(getattr(row, name)) for name in names})
    return found


@pytest.mark.parametrize("fault", ["link", "server restarted", "hot set"])
def test_during_and_recovery_are_counted_from_injection_and_end(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An observer of injection and end, and the history, give the same numbers."""
    testbed, injected, ended = cached_testbed("offload-proxy"), [], []
    made, mark_recovered = Fault.__init__, Player.mark_recovered

    def seen(fault: Fault, player: Player, injection: Any) -> None:
        injected.append(player.count_answered())
        made(fault, player, injection)

    def healed(player: Player, before: int) -> None:
        ended.append(testbed.now)
        mark_recovered(player, before)

    monkeypatch.setattr(KINDS[fault], "__init__", seen)
    monkeypatch.setattr(Player, "mark_recovered", healed)
    recoveries = []
    for seed in range(40, 50):
        injected.clear()
        ended.clear()
        outcome = play_schedule(testbed, draw_faults(fault, "offload-proxy", seed))
        assert (len(injected), len(ended)) == (1, 1) and outcome.took_effect
        assert outcome.during == outcome.rpcs - injected[0] and injected[0] >= 20
        pairs = [(row["invoked"], row["completed"]) for row in rows_of(testbed)]
        waits = [completed - ended[0] for invoked, completed in pairs if invoked <= ended[0] < completed]
        recoveries.append(max(waits, default=0) / 1e6)
        assert outcome.recovery_ms == recoveries[-1]
    assert max(recoveries) > 0


def test_a_link_that_is_down_is_recovered_from_by_a_retransmission() -> None:
    """What was lost is sent again after a timeout, of 20 ms at least."""
    whole = Tally.model_validate_json(play_seeds("link", "offload", 0, 100))
    assert 15 < sorted(whole.recovery_ms)[50] < 45 and max(whole.recovery_ms) < 100
    assert HEAD_BYTES == 42


def test_pulls_are_checked_again_when_all_workers_have_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    testbed, spans = cached_testbed("offload"), []

    def judge_and_record(
        operations: WorkerOperations,
        values: NDArray[np.uint32],
        blind_spans: NDArray[np.int64],
        *rest: Any,
        **more: Any,
    ) -> Judgement:
        spans.extend(blind_spans.tolist())
        return judge(operations, values, blind_spans, *rest, **more)

    monkeypatch.setattr("hotline_simulator.faults.player.judge", judge_and_record)
    checked_pulls = 0
    for seed in range(16):
        assert play_schedule(testbed, draw_faults("switch restarted", "offload", seed)).judgement.holds
        ((begin, end),) = spans
        spans.clear()
        assert begin < end < testbed.now
        checked_pulls += sum(row["kind"] == PULL and row["invoked"] > end for row in rows_of(testbed))
    assert checked_pulls > 20


# -- the command


def test_the_command_writes_rows(tmp_path: Path) -> None:
    into = tmp_path / "some" / "faults.json"
    options = ["--schedules", "2", "--processes", "1", "--into", str(into), "--json"]
    ran = invoke("faults", "link", "loss", *options)
    assert ran.exit_code == 0, ran.output
    rows = json.loads(ran.stdout)
    assert rows == json.loads(into.read_text())
    expected = [(fault, arm) for fault in ("loss", "link") for arm in ARMS]
    assert [(row["fault"], row["arm"]) for row in rows] == expected


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["fire"], "expected fault (loss, duplication,"),
        (
            ["--arm", "baseline"],
            "expected arm (offload, offload-proxy, collect, none), in a network ARM@spine, ARM@leaves, "
            "ARM@worker-leaves, ARM@both, collect@worker-leaves-sprayed, or MODULE:ARM of a design, "
            "got 'baseline'",
        ),
        (["hot set", "--arm", "none"], "hot set cannot be injected into none"),
        (["--replay", "/nowhere/x.json"], "/nowhere/x.json: cannot be read: No such file or directory"),
    ],
)
def test_unknown_names_and_files_are_refused(options: list[str], text: str) -> None:
    ran = invoke("faults", *options)
    assert ran.exit_code == 1 and text in ran.output


def test_a_file_without_a_schedule_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("nothing")
    ran = invoke("faults", "--replay", str(file))
    assert ran.exit_code == 1 and says(ran.output, "schedule", file)


def test_a_schedule_is_played_again_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    file.write_text(draw_faults("worker killed", "offload", 3).to_json())
    ran = invoke("faults", "--replay", str(file), "--json")
    assert ran.exit_code == 0
    played = json.loads(ran.stdout)
    assert played["holds"] is True
    history = played["history"]
    assert [row["invoked_us"] for row in history] == sorted(row["invoked_us"] for row in history)
    assert {row["op"] for row in history} == {"PULL", "PUSH"}
    assert {row["worker"] for row in history} == {1, 2, 3}
    never = [row for row in history if row["completed_us"] is None]
    assert len(never) == 1 and (never[0]["op"] == "PULL" or never[0]["unknown"])
    ran = invoke("faults", "--replay", str(file))
    assert ran.exit_code == 0 and len(ran.stdout.splitlines()) == len(history) + 2
