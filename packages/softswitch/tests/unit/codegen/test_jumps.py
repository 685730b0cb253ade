"""Jumps in actions where p4c's own programs do not go: loops without end, and JSON that is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.errors import ProgramError
from softswitch.interpreter import InterpretedPipeline
from softswitch.limits import MAX_BACKWARD_JUMPS
from softswitch.load import load_program
from softswitch.pipeline import LogRecord, Pipeline
from switch_harness import PROGRAMS
from switch_harness.constructs import compiled, fill_branches
from switch_harness.wording import mentions, says

Make = type[InterpretedPipeline] | type[CompiledPipeline]
MANY_LAPS = pytest.mark.parametrize(
    "make", [pytest.param(InterpretedPipeline, marks=pytest.mark.soak), CompiledPipeline]
)
"""Interpreted they take seconds."""
BOTH = pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])


def wound_down(pipeline: Pipeline, left: int, laps: int) -> list[int]:
    """Return the laps of `wind_down`, from the sums of the outputs; the next table adds 2."""
    frame = bytes([4, left, 0, laps]) + bytes(9)
    return [int.from_bytes(output.frame[4:8], "big") - 2 for output in pipeline.process(1, frame, 0, 0)]


@MANY_LAPS
def test_a_loop_without_end_is_ended_with_its_packet(make: Make) -> None:
    pipeline = make(compiled("jumps"))
    fill_branches(pipeline)
    assert wound_down(pipeline, 3, 0) == []
    [notice] = pipeline.take_notices()
    assert isinstance(notice, LogRecord)
    assert notice.failed
    assert says(notice.text, "dropped", "packet")
    assert "jumps.p4:" in notice.text
    # The next packet has all its laps.
    assert [wound_down(pipeline, 255, 1), wound_down(pipeline, 255, 2)] == [[255], [128]]
    assert pipeline.take_notices() == []


def primitives() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    program: dict[str, Any] = json.loads((PROGRAMS / "jumps.json").read_text())
    [action] = [each for each in program["actions"] if each["name"] == "Branch.wind_down"]
    return program, action["primitives"]


def target_of(jump: dict[str, Any]) -> dict[str, Any]:
    target: dict[str, Any] = jump["parameters"][-1]
    return target


def sum_is_not(laps: int) -> dict[str, Any]:
    """A condition on the 32-bit count of laps: `wind_down`'s own variable has only 8 bits."""
    count = {"type": "field", "value": ["probe", "sum"]}
    differs = {"op": "!=", "left": count, "right": {"type": "hexstr", "value": hex(laps)}}
    number = {"op": "b2d", "left": None, "right": {"type": "expression", "value": differs}}
    return {"type": "expression", "value": number}


@MANY_LAPS
def test_a_loop_runs_up_to_the_limit_of_backward_jumps(make: Make) -> None:
    program, body = primitives()
    [jump] = [each for each in body if each["op"] == "_jump_if_zero"]
    for laps, left in ((MAX_BACKWARD_JUMPS - 1, [MAX_BACKWARD_JUMPS - 1]), (MAX_BACKWARD_JUMPS, [])):
        jump["parameters"][0] = sum_is_not(laps)
        pipeline = make(load_program(json.dumps(program).encode()))
        fill_branches(pipeline)
        assert wound_down(pipeline, 1, 0) == left


@BOTH
def test_a_jump_behind_the_end_ends_the_action(make: Make) -> None:
    program, body = primitives()
    [jump] = [each for each in body if each["op"] == "_jump_if_zero"]
    target_of(jump)["value"] = hex(len(body) + 7)
    pipeline = make(load_program(json.dumps(program).encode()))
    fill_branches(pipeline)
    assert wound_down(pipeline, 9, 3) == [3]


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ({"type": "field", "value": ["probe", "op"]}, "jump to a computed primitive is not supported"),
        (
            {"type": "hexstr", "value": "-0x1"},
            "`_jump_if_zero`: expected 1 conditions and a target from 0 on, got 1 and -1",
        ),
    ],
)
def test_jumps_that_p4c_does_not_print_are_refused(parameter: dict[str, Any], message: str) -> None:
    program, body = primitives()
    [jump] = [each for each in body if each["op"] == "_jump_if_zero"]
    jump["parameters"][-1] = parameter
    with pytest.raises(ProgramError, match=rf"jumps\.p4:\d+: {message}"):
        load_program(json.dumps(program).encode())


def test_a_jump_without_its_condition_is_refused() -> None:
    program, body = primitives()
    [jump] = [each for each in body if each["op"] == "_jump_if_zero"]
    del jump["parameters"][0]
    with pytest.raises(ProgramError, match=mentions("_jump_if_zero", 1, 0)):
        load_program(json.dumps(program).encode())
