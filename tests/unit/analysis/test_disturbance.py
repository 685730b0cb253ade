"""Blocks beyond their bounds, and the reasons."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from analysis.disturbance import (
    DISTURBANCES,
    blocks_without_costs,
    cost_sources,
    invalidated_kinds,
    is_outside,
    judge_all,
    key_of,
    reasons_to_repeat,
    undisturbed_capacities,
)
from analysis.disturbed_blocks import CLOSED_LOOP, DisturbedBlocks, are_disturbed, withheld_by
from analysis.record import Block, CapacityCheck, Contention, MachineUse, ProgramUse, ServerUse
from foundation.logs.columns import RPC
from tests.harness.records import a_record
from tests.unit.analysis.synthetic import block

QUIET: dict[str, Any] = {"duration_ms": 500.0, "run_queue_ms": {"ps-0": 5.0, "worker-1": 20.0}}


def a_block(**changes: Any) -> Block:
    return block(0, 0.5, "offload").model_copy(update={**QUIET, **changes})


EARLIER = [
    a_block(pressure_ms=100.0, retransmissions=8, max_lateness_ns=9_000_000),
    a_block(pressure_ms=120.0, retransmissions=9, max_lateness_ns=8_000_000),
    a_block(pressure_ms=130.0, retransmissions=70, max_lateness_ns=900_000_000),
]
"""Medians: 24 % pressure, 9 retransmissions, 9 ms late; waits of 1 % and 4 %."""


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, []),
        # Of two CPUs' 1,000 ms 2 % and 5 %.
        ({"steal_ms": 20.0, "others_cpu_ms": 50.0}, []),
        ({"steal_ms": 20.1}, ["steal"]),
        ({"restarts": 1}, ["restart"]),
        ({"clock_step_ms": 1.0}, []),
        ({"clock_step_ms": 1.1}, ["clock"]),
        ({"others_cpu_ms": 50.1}, ["others' CPU"]),
        # Three times as much as usual.
        ({"pressure_ms": 360.0}, []),
        ({"pressure_ms": 361.0}, ["pressure"]),
        ({"retransmissions": 27}, []),
        ({"retransmissions": 28}, ["retransmissions"]),
        # The period is 10 ms.
        ({"max_lateness_ns": 27_000_000}, []),
        ({"max_lateness_ns": 27_000_001}, ["lateness"]),
        # Three times as long as usual, but less than a tenth of the block; and that of another process.
        ({"run_queue_ms": {"ps-0": 50.0, "worker-1": 60.0}}, []),
        ({"run_queue_ms": {"ps-0": 50.1, "worker-1": 60.0}}, ["run queue"]),
        ({"run_queue_ms": {"ps-0": 50.0, "worker-1": 60.1}}, ["run queue"]),
        ({"run_queue_ms": {"new": 51.0}}, ["run queue"]),
        ({"steal_ms": 400.0, "pressure_ms": 400.0}, ["steal", "pressure"]),
    ],
)
def test_a_block_is_disturbed_by_each_reason_beyond_its_bound(
    changes: dict[str, Any], found: list[str]
) -> None:
    assert reasons_to_repeat(a_block(**changes), EARLIER, cpus=2) == found


@pytest.mark.parametrize("disturbed", ["a", "b"])
@pytest.mark.parametrize(("field", "reason", "share"), [
    ("steal_ms", "steal", 0.02), ("others_cpu_ms", "others' CPU", 0.05),
])  # fmt: skip
def test_a_block_is_disturbed_by_any_of_its_machines(
    disturbed: str, field: str, reason: str, share: float
) -> None:
    """One of two machines with 1 and 9 CPUs; of all ten CPUs the same time would be no disturbance."""
    cpus = {"a": 1, "b": 9}
    for factor, found in ((1.0, []), (1.01, [reason])):
        uses = {
            name: MachineUse(
                cpus=number, pressure_ms=0.0,
                **{"steal_ms": 0.0, "others_cpu_ms": 0.0}
                | ({field: factor * share * number * 500.0} if name == disturbed else {}),
            )
            for name, number in cpus.items()
        }  # fmt: skip
        assert reasons_to_repeat(a_block(machines=uses), EARLIER, cpus=10) == found


def test_a_usual_level_of_waits_is_no_disturbance() -> None:
    still = [a_block(run_queue_ms={}) for _ in range(3)]
    waits = {"pressure_ms": 50.0, "max_lateness_ns": 10_000_000, "run_queue_ms": {"a": 50.0}}
    assert reasons_to_repeat(a_block(retransmissions=10, **waits), still, cpus=2) == []


def test_two_blocks_have_no_usual_level() -> None:
    assert reasons_to_repeat(a_block(pressure_ms=500.0, steal_ms=100.0), EARLIER[:2], cpus=2) == ["steal"]


def test_blocks_of_records_without_disturbance_counters_are_not_disturbed() -> None:
    assert reasons_to_repeat(block(0, 0.5, "offload"), [block(1, 0.5, "offload")] * 3, cpus=2) == []


def blocks(disturbed: int, *reasons: str) -> list[Block]:
    return [a_block(disturbed=list(reasons))] * disturbed + [a_block()] * (10 - disturbed)


@pytest.mark.parametrize(("disturbed", "noisy"), [(0, False), (2, False), (3, True)])
def test_more_than_a_fifth_of_blocks_are_too_many(disturbed: int, noisy: bool) -> None:
    assert ("time" in invalidated_kinds(blocks(disturbed, "steal"))) is noisy


@pytest.mark.parametrize(
    ("reason", "touched"),
    [
        ("steal", {"time"}),
        ("others' CPU", {"time"}),
        ("pressure", {"time"}),
        ("run queue", {"time"}),
        ("lateness", {"time"}),
        ("retransmissions", {"time", "count"}),
        ("restart", {"time", "count", "cpu"}),
    ],
)
def test_a_disturbance_invalidates_only_the_kinds_of_metrics_that_depend_on_the_cause(
    reason: str, touched: set[str]
) -> None:
    assert set(invalidated_kinds(blocks(3, reason))) == touched


def test_disturbed_blocks_are_counted_with_their_reasons() -> None:
    several = [*blocks(2, "steal", "restart")[:2], a_block(disturbed=["restart"]), *blocks(0)[:7]]
    restarts = DisturbedBlocks(blocks=10, disturbed=3, reasons={"restart": 3})
    of_time = DisturbedBlocks(blocks=10, disturbed=3, reasons={"restart": 3, "steal": 2})
    assert invalidated_kinds(several) == {"time": of_time, "count": restarts, "cpu": restarts}
    # The most frequent first.
    assert list(invalidated_kinds(several)["time"].reasons) == ["restart", "steal"]
    assert invalidated_kinds([]) == {}


# -- an absolute bound of waits


def a_waiting_block(share: float, **changes: Any) -> Block:
    """Return a block of 500 ms in which a worker waited for this share, and agents used a CPU for 250 ms."""
    of: dict[str, Any] = {
        "run_queue_ms": {"worker-1": share * 500, "ps-0": 1.0},
        "worker_cpu_s": 0.15,
        "servers": ServerUse(cpu_s=0.1),
        "program_s": ProgramUse(workers=0.02, servers=0.01),
    }
    return a_block(**{**of, **changes})


@pytest.mark.parametrize(("share", "found"), [(0.6, []), (0.61, ["run queue"])])
def test_an_agent_that_waits_longer_than_all_agents_run_is_disturbed_from_the_first_block(
    share: float, found: list[str]
) -> None:
    """Half of the block and a tenth of it. Earlier blocks that waited as long do not make it usual."""
    assert reasons_to_repeat(a_waiting_block(share), [], cpus=2) == found
    earlier = [a_waiting_block(share) for _ in range(3)]
    assert reasons_to_repeat(a_waiting_block(share), earlier, cpus=2) == found


@pytest.mark.parametrize("changes", [{"program_s": None}, {"period_ns": 0}])
def test_waits_have_no_absolute_bound_where_other_processes_of_the_run_use_cpus(
    changes: dict[str, Any],
) -> None:
    assert reasons_to_repeat(a_waiting_block(0.9, **changes), [], cpus=2) == []


# -- sources of costs


def a_run(disturbed: dict[tuple[str, int, float], list[str]], **changes: Any) -> Any:
    """Return a record of ten rounds at two loads, in which these blocks were disturbed."""
    blocks = [
        a_block(arm=arm, round=number, load=load, disturbed=disturbed.get((arm, number, load), []))
        for number in range(10)
        for load in (0.5, 0.8)
        for arm in ("baseline", "proxy", "offload")
    ]
    return a_record(blocks=blocks, **changes)


def test_sources_of_costs_are_blocks_of_the_fitted_arms_by_load_and_closed_loops() -> None:
    stolen = Contention(disturbed=["steal"])
    record = a_run(
        {("offload", 3, 0.5): ["steal"], ("proxy", 3, 0.5): ["steal"], ("baseline", 1, 0.8): ["lateness"]},
        capacity_contention={"baseline": Contention(), "proxy": stolen},
        capacity_checks=[
            CapacityCheck(when="end", capacity={}, contention={"offload": stolen, "baseline": Contention()})
        ],
        empty_rpcs_contention=Contention(disturbed=["steal"]),
    )
    found = cost_sources(record, ["baseline", "offload"])
    assert found == (
        DisturbedBlocks(blocks=20, disturbed=1, reasons={"steal": 1}),
        DisturbedBlocks(blocks=20, disturbed=1, reasons={"lateness": 1}),
        DisturbedBlocks(blocks=4, disturbed=2, reasons={"steal": 2}, kind=CLOSED_LOOP),
    )
    assert withheld_by(found) is found[-1] and are_disturbed(found)
    assert withheld_by(found[:2]) is None and are_disturbed(found[:2])
    assert [blocks.taken for blocks in found] == [0.0] * 3
    # Of two CPUs' 2 s in rounds at each load; steal below its bound disturbs nothing.
    record.machine = {"cpus": 2}
    record.blocks[0].steal_ms = 6.0
    record.blocks[0].others_cpu_ms = 34.0
    record.empty_rpcs_contention.duration_ms = 400.0
    record.empty_rpcs_contention.others_cpu_ms = 80.0
    taken = [blocks.taken for blocks in cost_sources(record, ["baseline", "offload"])]
    assert taken == pytest.approx([40 / (2 * 20 * 500), 0, 0.1])
    # A record of before closed loops were judged has its rounds alone.
    quiet = cost_sources(a_run({}), ["baseline", "offload"])
    assert len(quiet) == 2 and withheld_by(quiet) is None and not are_disturbed(quiet)


@pytest.mark.parametrize("reason", DISTURBANCES)
@pytest.mark.parametrize(("number", "is_withheld"), [(4, False), (5, True)])
def test_each_disturbance_of_more_than_a_fifth_of_blocks_withholds_costs(
    reason: str, number: int, is_withheld: bool
) -> None:
    record = a_run({("offload", round_, 0.8): [reason] for round_ in range(number)})
    found = withheld_by(cost_sources(record, ["baseline", "offload"]))
    assert (found is not None) is is_withheld
    assert found is None or found.reasons == {reason: number}


def test_costs_are_fitted_to_undisturbed_blocks_if_an_arm_has_any() -> None:
    always = {("offload", number, 0.8): ["steal"] for number in range(10)}
    record = a_run({**always, ("offload", 2, 0.5): ["steal"], ("proxy", 4, 0.8): ["pressure"]})
    found = blocks_without_costs(record)
    assert found == (("offload", 2, 0.5), ("proxy", 4, 0.8))
    rows = pl.DataFrame(
        {"arm": [each.arm for each in record.blocks], "round": [each.round for each in record.blocks],
         "load": [each.load for each in record.blocks]},
        schema={name: RPC[name] for name in ("arm", "round", "load")},
    )  # fmt: skip
    kept = rows.filter(is_outside(found))
    assert len(kept) == 60 - 2
    assert kept.filter(arm="offload", round=2)["load"].to_list() == pytest.approx([0.8])
    assert len(rows.filter(is_outside(()))) == 60


def test_disturbed_capacities_are_left_out_if_an_arm_has_undisturbed_capacities() -> None:
    stolen, quiet = Contention(disturbed=["steal"]), Contention()
    record = a_record(
        capacity={"baseline": 100.0, "offload": 150.0},
        capacity_contention={"baseline": stolen, "offload": stolen},
        capacity_checks=[
            CapacityCheck(
                when="end",
                capacity={"baseline": 90.0, "offload": 120.0},
                contention={"baseline": quiet, "offload": stolen},
            )
        ],
    )
    # All of offload were disturbed.
    assert undisturbed_capacities(record) == [{"offload": 150.0}, {"baseline": 90.0, "offload": 120.0}]
    record.capacity_contention = {}
    assert undisturbed_capacities(record) == [{"baseline": 100.0, "offload": 150.0}, {"baseline": 90.0}]


def test_the_first_blocks_of_an_arm_are_compared_with_later_blocks_for_costs() -> None:
    """When they ran, there was nothing to compare them with; others keep what was found then."""
    record = a_run({})
    slow = {("offload", 0, 0.5), ("offload", 2, 0.5), ("offload", 3, 0.5)}
    for each in record.blocks:
        each.run_queue_ms = {"worker-1": 90.0 if key_of(each) in slow else 20.0}
    found = [key_of(each) for each in judge_all(record.blocks) if each.disturbed]
    assert found == [("offload", 0, 0.5), ("offload", 2, 0.5)]
    assert blocks_without_costs(record) == tuple(found)
    assert [blocks.disturbed for blocks in cost_sources(record, ["baseline", "offload"])] == [2, 0]
    # Two other blocks say no more of what is usual than two earlier ones did.
    few = [each for each in record.blocks if each.round < 3]
    assert not any(each.disturbed for each in judge_all(few))
