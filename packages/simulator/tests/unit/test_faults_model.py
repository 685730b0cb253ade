"""The model that judges histories, on histories made by hand, and on broken systems, which it must find."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.designs.hotset import OFFLOAD_PROXY
from foundation.designs.registry import DEFAULT, design
from foundation.protocol.codec import Values
from foundation.protocol.rpc import PULL, PUSH
from hotline_agents.hotset.ps.store import HotsetStore
from hotline_simulator.faults import matrix
from hotline_simulator.faults.kinds import play_schedule
from hotline_simulator.faults.model import Judgement, judge
from hotline_simulator.faults.operations import EXTREMES, KEYS, WorkerOperations, delta_of, make_operations
from hotline_simulator.faults.schedule import FaultSchedule
from hotline_simulator.faults.shrink import shrink
from hotline_simulator.faults.switch import compile_small
from hotline_simulator.faults.testbed import SimulatedTestbed
from hotline_simulator.simulated_switch import CompiledConfig
from nativekit.plain import plain
from softswitch.p4runtime.loaded_config import read_p4info
from switch_harness.wording import says
from tests.harness.cli import invoke
from tests.harness.faults import fails_soon
from tests.harness.programs import Edit, edited

_delta_of = plain(delta_of)


def history(*operations: tuple[int, int, int, int, list[int]], seed: int = 7) -> WorkerOperations:
    """Return (worker, kind, invoked, completed or 0, keys); incomplete operations are not acknowledged."""
    made = make_operations(3)
    made.header.seed = np.uint64(seed)
    for w, kind, invoked, completed, keys in operations:
        k = int(made.progress[w].operations)
        operation = made.history[w, k]
        operation.kind, operation.invoked, operation.completed = kind, invoked, completed
        operation.mask = np.uint64(sum(1 << key for key in keys))
        operation.added = operation.mask if completed else np.uint64(0)
        made.progress[w].operations += 1
    return made


def held(operations: WorkerOperations, *pushes: tuple[int, int, int]) -> Values:
    """Return the values that are held after pushes (worker, operation, key)."""
    values = np.zeros(KEYS, np.uint32)
    for w, k, key in pushes:
        values[key] += np.uint32(_delta_of(operations.header, w, k, key))
    return values


TWO = ((0, PUSH, 10, 20, [3, 5]), (1, PUSH, 15, 30, [5]))


def test_acknowledged_pushes_are_held_exactly_once() -> None:
    made = history(*TWO)
    whole = held(made, (0, 0, 3), (0, 0, 5), (1, 0, 5))
    assert judge(made, whole) == Judgement(sent=3, lost=0, doubled=0, early=0, late=0, torn=0)
    assert judge(made, whole).holds
    lost = judge(made, held(made, (0, 0, 3), (0, 0, 5)))
    assert (lost.lost, lost.doubled, lost.holds) == (1, 0, False)
    doubled = judge(made, held(made, (0, 0, 3), (0, 0, 5), (1, 0, 5), (1, 0, 5)))
    assert (doubled.lost, doubled.doubled, doubled.holds) == (0, 1, False)


def test_an_unacknowledged_push_of_a_dead_worker_counts_once_or_not() -> None:
    made = history(*TWO, (2, PUSH, 40, 0, [3, 9]))
    sure = [(0, 0, 3), (0, 0, 5), (1, 0, 5)]
    for unknown in ([], [(2, 0, 3)], [(2, 0, 9)], [(2, 0, 3), (2, 0, 9)]):
        assert judge(made, held(made, *sure, *unknown)).holds
    assert judge(made, held(made, *sure, (2, 0, 9), (2, 0, 9))).doubled == 1


def test_a_pull_brings_pushes_acknowledged_before_and_none_begun_later() -> None:
    def pulled(value: int, invoked: int, completed: int, blind: list[list[int]] | None = None) -> Judgement:
        made = history(*TWO, (2, PULL, invoked, completed, [5]))
        made.pulled[2, 0, 5] = value
        intervals = np.array(blind or [[0, 0]], np.int64)
        return judge(made, held(made, (0, 0, 3), (0, 0, 5), (1, 0, 5)), intervals)

    made = history(*TWO)
    first, second = (int(_delta_of(made.header, w, 0, 5)) for w in (0, 1))
    assert first != second
    assert pulled(first + second, 31, 40).holds
    assert (pulled(first, 31, 40).early, pulled(first, 31, 40).holds) == (1, False)
    assert pulled(first, 20, 40).holds and pulled(first, 29, 40).holds
    assert pulled(0, 19, 40).holds and pulled(0, 20, 40).early == 1
    assert pulled(first + second + 1, 31, 40).late == 1
    assert pulled(first + second, 2, 12).late == 1 and pulled(first, 2, 12).holds
    assert pulled(first, 31, 40, [[39, 50]]).holds and pulled(first, 31, 40, [[40, 50]]).early == 1


@settings(max_examples=50)
@given(st.integers(0, 2**62), st.booleans())
def test_pushed_values_follow_from_the_seed(seed: int, is_extreme: bool) -> None:
    made = history(*TWO, seed=seed)
    made.header.is_extreme = is_extreme
    deltas = [int(_delta_of(made.header, 0, k, key)) for k in range(8) for key in range(KEYS)]
    assert len(set(deltas)) > 50
    if is_extreme:
        assert set(EXTREMES.tolist()) <= set(deltas) and max(deltas) < 2**32
    else:
        assert min(deltas) >= 1 and max(deltas) <= 1000


# -- the suite bites


@cache
def program_without(assignment: str) -> CompiledConfig:
    """Compile our program without an assignment of `exactly_once.p4`."""
    description = edited(design(DEFAULT), Edit("hotset/exactly_once.p4", f"{assignment};"))
    return compile_small(json.dumps(description).encode(), read_p4info(design(DEFAULT).p4info))


def test_a_switch_that_knows_no_duplicates_is_found_and_the_schedule_cut_short() -> None:
    testbed = SimulatedTestbed(OFFLOAD_PROXY, program_without("meta.is_duplicate = true"))
    schedule, outcome = fails_soon(testbed, "duplication")
    assert outcome.judgement.doubled or outcome.judgement.late
    short = shrink(testbed, schedule)
    assert not play_schedule(testbed, short).holds
    assert short.rpcs < schedule.rpcs and (short.loss, short.reordering) == (0, 0)


def test_a_switch_that_forgets_the_bitmap_of_a_push_is_found() -> None:
    """A duplicate gets today's hits: a key that has left the hot set is added twice, a new one is lost."""
    fails_soon(SimulatedTestbed(OFFLOAD_PROXY, program_without("meta.served = last.served")), "everything")


def test_a_server_that_does_not_refuse_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    release = HotsetStore.release

    def keep(store: HotsetStore, at: Any) -> Values:
        heads = store._head_cells(at)
        owners = store._words[heads]
        values = release(store, at)
        store._words[heads] = owners
        return values

    monkeypatch.setattr(HotsetStore, "release", keep)
    _, outcome = fails_soon(SimulatedTestbed(OFFLOAD_PROXY), "hot set")
    assert outcome.judgement.early


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], SimulatedTestbed]]:
    """Break the testbed of the command, which plays in this process; return the testbed of an arm."""
    testbed = SimulatedTestbed(OFFLOAD_PROXY, program_without("meta.is_duplicate = true"))
    monkeypatch.setattr(matrix, "cached_testbed", lambda arm: testbed)

    def here(function: Any, tasks: Any, scheduler: Any, processes: Any) -> Iterator[tuple[int, Any]]:
        for number, task in zip(count(), tasks, strict=False):
            yield number, function(*task)

    monkeypatch.setattr(matrix, "run_in_parallel", here)
    yield lambda arm: testbed


def test_the_command_writes_the_shortest_schedule_that_fails(
    broken: Callable[[str], SimulatedTestbed], tmp_path: Path
) -> None:
    into = ("--into", tmp_path / "f.json")
    ran = invoke("faults", "duplication", "--arm", "offload-proxy", "--schedules", 40, *into)
    assert ran.exit_code == 1
    file = tmp_path / "fault-duplication-offload-proxy.json"
    assert says(ran.output, "--replay", file)
    short = FaultSchedule.from_json(file.read_text())
    assert not play_schedule(broken("offload-proxy"), short).holds
    assert invoke("faults", "--replay", file).exit_code == 1
    (row,) = json.loads((tmp_path / "f.json").read_text())
    assert row["doubled"] + row["misread"] > 0
