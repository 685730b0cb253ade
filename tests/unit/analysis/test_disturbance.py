"""Blocks beyond their bounds, and the reasons."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.disturbance import DisturbedBlocks, invalidated_kinds, reasons_to_repeat
from analysis.record import Block, MachineUse
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
def test_a_block_is_disturbed_by(changes: dict[str, Any], found: list[str]) -> None:
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


def test_what_is_usual_in_any_case_is_no_disturbance() -> None:
    still = [a_block(run_queue_ms={}) for _ in range(3)]
    waits = {"pressure_ms": 50.0, "max_lateness_ns": 10_000_000, "run_queue_ms": {"a": 50.0}}
    assert reasons_to_repeat(a_block(retransmissions=10, **waits), still, cpus=2) == []


def test_two_blocks_have_no_usual_level() -> None:
    assert reasons_to_repeat(a_block(pressure_ms=500.0, steal_ms=100.0), EARLIER[:2], cpus=2) == ["steal"]


def test_blocks_of_before_these_were_counted_are_not_disturbed() -> None:
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
def test_a_disturbance_invalidates_only_what_it_touches(reason: str, touched: set[str]) -> None:
    assert set(invalidated_kinds(blocks(3, reason))) == touched


def test_it_is_known_how_many_blocks_and_why() -> None:
    several = [*blocks(2, "steal", "restart")[:2], a_block(disturbed=["restart"]), *blocks(0)[:7]]
    restarts = DisturbedBlocks(blocks=10, disturbed=3, reasons={"restart": 3})
    of_time = DisturbedBlocks(blocks=10, disturbed=3, reasons={"restart": 3, "steal": 2})
    assert invalidated_kinds(several) == {"time": of_time, "count": restarts, "cpu": restarts}
    # The most frequent first.
    assert list(invalidated_kinds(several)["time"].reasons) == ["restart", "steal"]
    assert invalidated_kinds([]) == {}
