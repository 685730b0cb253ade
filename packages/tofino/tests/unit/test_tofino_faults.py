"""The twin of the Tofino program under faults: agents, frames, and the switch end as with `hotset`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from foundation.designs.hotset import OFFLOAD, OFFLOAD_PROXY
from foundation.protocol.rpc import PULL
from hotline_simulator.faults.draw import draw_faults
from hotline_simulator.faults.kinds import play_schedule
from hotline_simulator.faults.matrix import MATRIX_ROWS
from hotline_simulator.faults.operations import KEYS, WorkerOperations
from hotline_simulator.faults.schedule import FaultSchedule
from hotline_simulator.faults.testbed import SimulatedTestbed
from packages.tofino.tests.harness.twins import contents, small_twin, twin_testbed

ARMS = {arm.name: arm for arm in (OFFLOAD, OFFLOAD_PROXY)}
ROWS = [(fault, arm) for fault, arm in MATRIX_ROWS if arm in ARMS]
SCHEDULES, SOAKED = 3, 250


@pytest.fixture(scope="module")
def twins() -> dict[str, SimulatedTestbed]:
    compiled = small_twin()
    return {name: twin_testbed(arm, compiled) for name, arm in ARMS.items()}


@pytest.fixture(scope="module")
def originals() -> dict[str, SimulatedTestbed]:
    # Rows of one value, as the twin has them.
    return {name: SimulatedTestbed(arm) for name, arm in ARMS.items()}


def operations_of(operations: WorkerOperations) -> list[Any]:
    """Return all operations, and the values that pulls returned; with the seed, these determine the history.

    `history_of` also computes each pushed value, in Python, which takes longer than playing the schedule.
    """
    found = list[Any]()
    for w, worker in enumerate(operations.progress):
        invoked = operations.history[w, : int(worker.operations)]
        is_key = invoked.mask[:, None] >> np.arange(KEYS, dtype=np.uint64) & np.uint64(1) == 1
        has_value = is_key & ((invoked.kind == PULL) & (invoked.completed > 0))[:, None]
        pulled = operations.pulled[w, : len(invoked)]
        found += [np.array(invoked).tolist(), np.where(has_value, pulled, 0).tolist()]
    return found


def end_of(testbed: SimulatedTestbed, schedule: FaultSchedule) -> list[Any]:
    """Play a schedule; return whatever depends on what the switch did with each frame."""
    outcome = play_schedule(testbed, schedule)
    world = testbed.world
    cables = [np.array(links).tolist() for links in (world.up, world.down)]
    return [
        outcome,
        operations_of(testbed.operations),
        testbed.stored_values().tolist(),
        cables,
        contents(testbed),
    ]


@pytest.mark.no_cover
@pytest.mark.parametrize(("fault", "arm"), ROWS)
@pytest.mark.parametrize(
    ("first", "schedules"),
    [(0, SCHEDULES), pytest.param(1 << 20, SOAKED, marks=pytest.mark.soak)],
    ids=["some", "many"],
)
def test_a_schedule_ends_as_with_hotset(
    fault: str,
    arm: str,
    first: int,
    schedules: int,
    twins: dict[str, SimulatedTestbed],
    originals: dict[str, SimulatedTestbed],
) -> None:
    for seed in range(first, first + schedules):
        schedule = draw_faults(fault, arm, seed)
        ours = end_of(originals[arm], schedule)
        assert ours[0].holds
        assert end_of(twins[arm], schedule) == ours, schedule.to_json()
