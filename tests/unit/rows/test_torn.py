"""Rows under faults: no row is torn, and programs that tear rows, or mix them up, are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from foundation.designs import collect, hotset
from foundation.designs.interface import Arm
from foundation.designs.registry import design
from foundation.protocol.rows import RowRange, RowRanges
from hosts.keys import KeySpace
from simulator.faults.model import judge
from simulator.faults.operations import KEYS, make_operations
from simulator.faults.schedule import ranges_of
from simulator.faults.switch import compile_small
from simulator.faults.testbed import SimulatedTestbed
from softswitch.p4runtime.loaded_config import read_p4info
from tests.harness.faults import fails_soon

Description = dict[str, Any]
MIXED = ranges_of(hotset.DESIGN)


def without(fragment: str) -> Callable[[Description], int]:
    """Return a change of a program that removes the statements with this source text."""
    return removing(lambda step: step["source_info"]["source_fragment"].startswith(fragment))


def without_copy(source: str, target: str) -> Callable[[Description], int]:
    """Return a change of a program that no longer copies one variable of ingress to another one."""
    fields = [{"type": "field", "value": ["scalars", f"HotlineIngress.{name}"]} for name in (target, source)]
    return removing(lambda step: step["op"] == "assign" and step["parameters"] == fields)


def removing(is_removed: Callable[[dict[str, Any]], bool]) -> Callable[[Description], int]:
    def change(description: Description) -> int:
        found = 0
        for action in description["actions"]:
            remaining = [step for step in action["primitives"] if not is_removed(step)]
            found += len(action["primitives"]) - len(remaining)
            action["primitives"] = remaining
        return found

    return change


def looked_up_by(field: str, replacement: list[str]) -> Callable[[Description], int]:
    """Return a change of a program that looks rows up by another field."""

    def change(description: Description) -> int:
        found = 0
        for table in description["pipelines"][0]["tables"]:
            for part in table["key"] if "hot_params" in table["name"] else ():
                if part["name"] == field:
                    part["target"] = replacement
                    found += 1
        return found

    return change


def changed(arm: Arm, change: Callable[[Description], int]) -> Any:
    description = json.loads(design(arm.design).program.read_bytes())
    assert change(description), "expected a statement to change, found none"
    return compile_small(json.dumps(description).encode(), read_p4info(design(arm.design).p4info))


HALF_ELSEWHERE = without_copy("slot_01", "slot_03")  # another lane's row is there
COUNT_AS_DIM = looked_up_by("dim", ["rpc", "count"])
FIRST_KEY = looked_up_by("key", ["keys[0]", "key"])  # for all lanes


@pytest.mark.parametrize(
    ("arm", "change", "fault"),
    [
        pytest.param(hotset.OFFLOAD_PROXY, without("values_c.write"), "duplication", id="no third value"),
        pytest.param(hotset.OFFLOAD_PROXY, HALF_ELSEWHERE, "duplication", id="second half elsewhere"),
        pytest.param(hotset.OFFLOAD_PROXY, COUNT_AS_DIM, "hot set", id="count as dim"),
        pytest.param(hotset.OFFLOAD_PROXY, FIRST_KEY, "hot set", id="key of lane 0"),
        pytest.param(
            collect.COLLECT, without("pending_c.write"), "duplication", id="collect: no third sum",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            collect.COLLECT, HALF_ELSEWHERE, "duplication", id="collect: second half elsewhere",
            marks=pytest.mark.soak,
        ),
        pytest.param(
            collect.COLLECT, COUNT_AS_DIM, "hot set", id="collect: count as dim", marks=pytest.mark.soak
        ),
        pytest.param(
            collect.COLLECT, FIRST_KEY, "hot set", id="collect: key of lane 0", marks=pytest.mark.soak
        ),
    ],
)  # fmt: skip
def test_a_program_that_tears_rows_or_mixes_rows_up_is_found(
    arm: Arm, change: Callable[[Description], int], fault: str
) -> None:
    fails_soon(SimulatedTestbed(arm, changed(arm, change), ranges=MIXED), fault)


def test_a_program_that_publishes_a_part_of_a_row_is_found() -> None:
    arm = collect.COLLECT
    testbed = SimulatedTestbed(arm, changed(arm, without("published_b.write")), ranges=MIXED)
    _, outcome = fails_soon(testbed, "duplication")
    assert outcome.judgement.torn


@pytest.mark.parametrize("rows", [MIXED, (RowRange(0, 4),)], ids=["mixed", "four"])
def test_a_row_with_a_push_in_some_values_only_is_torn(rows: RowRanges) -> None:
    space = KeySpace(KEYS, None, rows)
    operations = make_operations(1, space)
    whole = np.zeros(space.n_values, np.uint32)
    assert judge(operations, whole).torn == 0
    position = KEYS - 1
    places = space.value_places(np.array([position]))
    for torn in range(len(places)):
        values = whole.copy()
        values[places[torn]] = 5
        assert judge(operations, values).torn == 1
    whole[places] = 5 * np.arange(1, len(places) + 1)
    judgement = judge(operations, whole)
    assert (judgement.torn, judgement.doubled) == (0, 1)
