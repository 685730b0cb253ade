"""Limits that BMv2 does not have: interpreter and compiled code stop at the same point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.pipeline import CounterValue, Output, Pipeline, Replica
from switch_harness.constructs import compiled

MOST_STEPS = 4096
RECIRCULATED = 4  # standard_metadata.instance_type

Make = Callable[[ir.Program], Pipeline]
PIPELINES: Sequence[Make] = (InterpretedPipeline, CompiledPipeline)
both = pytest.mark.parametrize("make", PIPELINES)


def skipping(states_before: int) -> ir.Program:
    """Return states that do nothing, then one that skips a byte and repeats while the next byte is 1."""
    before = [ir.ParserState(f"s{i}", (), (), (ir.Case(0, 0, i + 1),)) for i in range(states_before)]
    loop = ir.ParserState(
        "loop",
        (ir.Advance(ir.Constant(8)),),
        (ir.Lookahead(0, 8),),
        (ir.Case(1, 0xFF, states_before), ir.Case(0, 0, None)),
    )
    nothing = ir.Control("nothing", None, {})
    program = compiled("registers")
    return replace(
        program, parser=(*before, loop), start_state=0, ingress=nothing, egress=nothing, update=(), verify=()
    )


@both
@pytest.mark.parametrize("states_before", [0, 3])
@pytest.mark.parametrize("extra", [-1, 0, 1, 2])
def test_a_parser_stops_at_its_limit_of_steps(make: Make, states_before: int, extra: int) -> None:
    """Every state is a step, also one that cannot come again."""
    wanted = MOST_STEPS - states_before + extra
    frame = b"\1" * wanted + bytes(4)
    taken = min(wanted, MOST_STEPS - states_before)
    assert make(skipping(states_before)).process(1, frame, 0, 0) == [Output(0, frame[taken:])]


@both
def test_recirculation_stops_at_its_limit_of_bytes(make: Make) -> None:
    """Each of 16 copies of 60,011 B goes round and is copied again; 17 of them are below 1 MiB."""
    pipeline = make(compiled("resubmit_recirculate"))
    pipeline.replication.write_multicast_group(1, [Replica(port) for port in range(16)])
    probe = bytes([2, 0x0F, 1]) + bytes(8)
    pipeline.process(1, probe + bytes(60_000), 0, 0)
    went_round = pipeline.cells.read_counter("Send.passes", RECIRCULATED, RECIRCULATED + 1)
    assert went_round == [CounterValue(17, 17 * 60_011)]
