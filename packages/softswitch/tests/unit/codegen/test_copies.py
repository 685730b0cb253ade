"""Primitives write the header that they are given, which may be a copy of `standard_metadata`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.errors import ProgramError
from softswitch.interpreter import InterpretedPipeline
from softswitch.load import load_program
from softswitch.pipeline import Replica
from softswitch.v1model import Standard
from switch_harness import PROGRAMS
from switch_harness.constructs import compiled

PORT = 3
DROPS = {
    "an action that exits": (0x00, 0x00),
    "a function called by a control": (0x08, 0x00),
    "a function": (0x2F, 0x00),
    "a function in egress": (0x0F, 0x10),
    "a control in egress": (0x0F, 0x38),
}
SENDS = {"a copy that is not used": (0x1F, 0x00), "a copy in egress that is not used": (0x0F, 0x20)}

Pipelines = type[InterpretedPipeline] | type[CompiledPipeline]


def frame(op: int, egress_op: int, group: int = 0) -> bytes:
    return bytes([op, egress_op, PORT, group, 0, 0, 0, 0])


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
@pytest.mark.parametrize("ops", DROPS.values(), ids=DROPS)
def test_a_copy_that_is_copied_back_drops(make: Pipelines, ops: tuple[int, int]) -> None:
    assert make(compiled("copies")).process(1, frame(*ops), 0, 0) == []


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
@pytest.mark.parametrize("ops", SENDS.values(), ids=SENDS)
def test_a_copy_of_another_header_does_not_drop(make: Pipelines, ops: tuple[int, int]) -> None:
    assert [out.port for out in make(compiled("copies")).process(1, frame(*ops), 0, 0)] == [PORT]


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
def test_a_dropped_copy_loses_its_group(make: Pipelines) -> None:
    pipeline = make(compiled("copies"))
    pipeline.replication.write_multicast_group(1, [Replica(4), Replica(5)])
    assert [out.port for out in pipeline.process(1, frame(0x0F, 0, group=1), 0, 0)] == [4, 5]
    assert pipeline.process(1, frame(0x2F, 0, group=1), 0, 0) == []


def test_a_header_without_egress_spec_cannot_be_dropped() -> None:
    text = json.loads((PROGRAMS / "copies.json").read_bytes())
    calls = [call for action in text["actions"] for call in action["primitives"]]
    drop = next(call for call in calls if call["op"] == "mark_to_drop")
    drop["parameters"][0]["value"] = "probe"
    with pytest.raises(ProgramError, match=r"egress_spec.*probe"):
        load_program(json.dumps(text).encode())


def test_a_direct_meter_and_a_copied_header_set_standard_metadata() -> None:
    """A program that sets a field of `standard_metadata` in these ways needs the traffic manager's queues."""
    program = compiled("meters")
    assert not program.sets_standard_field(Standard.PRIORITY)
    table = program.tables["Measure.first"]
    assert table.meter is not None
    priority = program.standard_field(Standard.PRIORITY)
    metered = replace(table, meter=replace(table.meter, target=priority))
    nodes = {**program.ingress.nodes, table.name: metered}
    assert replace(program, ingress=replace(program.ingress, nodes=nodes)).sets_standard_field(
        Standard.PRIORITY
    )
    copied = ir.Action("copy", (), (ir.AssignHeader(priority.header, 0),))
    assert replace(program, actions=(*program.actions, copied)).sets_standard_field(Standard.PRIORITY)
