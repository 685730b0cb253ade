"""Rows under faults: no row is torn, and programs that tear rows, or mix them up, are found."""

from __future__ import annotations

import json

import numpy as np
import pytest

from foundation.designs import collect, hotset
from foundation.designs.interface import Arm
from foundation.designs.registry import design
from foundation.protocol.rows import RowRange, RowRanges
from hosts.keys import KeySpace
from hotline_simulator.faults.model import judge
from hotline_simulator.faults.operations import KEYS, make_operations
from hotline_simulator.faults.schedule import ranges_of
from hotline_simulator.faults.switch import compile_small
from hotline_simulator.faults.testbed import SimulatedTestbed
from hotline_simulator.simulated_switch import CompiledConfig
from softswitch.p4runtime.loaded_config import read_p4info
from tests.harness.faults import fails_soon
from tests.harness.programs import Edit, edited

MIXED = ranges_of(hotset.DESIGN)


def changed(arm: Arm, edit: Edit) -> CompiledConfig:
    description = edited(design(arm.design), edit)
    return compile_small(json.dumps(description).encode(), read_p4info(design(arm.design).p4info))


NO_THIRD_VALUE = Edit("hotset/bank.p4", "values_c.write((bit<32>)slot, sum_c);")
NO_THIRD_SUM = Edit("collect/bank.p4", "pending_c.write((bit<32>)slot, sum_c);")
NO_SECOND_PUBLISHED = Edit("collect/bank.p4", "published_b.write((bit<32>)slot, quad.b);")
HALF_ELSEWHERE = Edit(
    "hotset/ingress.p4",
    "EACH_BANK_AND_HALF(COPY_SLOT)\n",
    "bit<16> lane_3 = slot_03;\nEACH_BANK_AND_HALF(COPY_SLOT)\nslot_03 = lane_3;\n",
)
COUNT_AS_DIM = Edit("hotset/lane_lookup.p4", "rpc.dim: exact", "rpc.count: exact")
FIRST_KEY = Edit("hotset/ingress.p4", "hdr.rpc, hdr.keys[i].key); }", "hdr.rpc, hdr.keys[0].key); }")


@pytest.mark.parametrize(
    ("arm", "edit", "fault"),
    [
        pytest.param(hotset.OFFLOAD_PROXY, NO_THIRD_VALUE, "duplication", id="no third value"),
        pytest.param(hotset.OFFLOAD_PROXY, HALF_ELSEWHERE, "duplication", id="second half elsewhere"),
        pytest.param(hotset.OFFLOAD_PROXY, COUNT_AS_DIM, "hot set", id="count as dim"),
        pytest.param(hotset.OFFLOAD_PROXY, FIRST_KEY, "hot set", id="key of lane 0"),
        pytest.param(
            collect.COLLECT, NO_THIRD_SUM, "duplication", id="collect: no third sum",
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
def test_a_program_that_tears_rows_or_mixes_rows_up_is_found(arm: Arm, edit: Edit, fault: str) -> None:
    fails_soon(SimulatedTestbed(arm, changed(arm, edit), ranges=MIXED), fault)


def test_a_program_that_publishes_a_part_of_a_row_is_found() -> None:
    arm = collect.COLLECT
    testbed = SimulatedTestbed(arm, changed(arm, NO_SECOND_PUBLISHED), ranges=MIXED)
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
