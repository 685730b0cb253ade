"""Parser states that go on to themselves: each way out leaves what the interpreter leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from softswitch.codegen import parser
from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.limits import MAX_PARSER_STEPS
from switch_harness.kernel import LEAST, OnLoopback
from switch_harness.small_programs import compile_small

INGRESS = """
    hdr.first.kind = standard.parser_error == error.StackOutOfBounds ? 8w1
        : standard.parser_error == error.PacketTooShort ? 8w2 : 8w0;
    hdr.first.count = meta.position;
    standard.egress_spec = 3;
"""
TAKES_ELEMENTS = """
    state take {
        packet.extract(hdr.items.next);
        meta.position = meta.position - 1;
        transition select(meta.position) { 0: accept; 7: after; 5 &&& 7: take; 200: last; default: take; }
    }
    state after { packet.extract(hdr.other); transition accept; }
    state last { packet.extract(hdr.others.next); transition take; }
"""
COUNTS_BYTES = """
    state take {
        packet.advance(8);
        meta.position = meta.position + 1;
        transition select(packet.lookahead<bit<8>>()) { 0: accept; default: take; }
    }
"""
STATES = {"elements": TAKES_ELEMENTS, "bytes": COUNTS_BYTES}


def program_of(name: str, folder: Path) -> Program:
    start = "meta.position = hdr.first.count; transition take;"
    return compile_small(folder, parser=start, states=STATES[name], ingress=INGRESS).program


def frames(count: int) -> list[bytes]:
    """Return frames of all lengths, whose second byte is `count`, and the last one 0 or not."""
    lengths = range(LEAST, 2 * LEAST + 16)
    return [bytes([9, count, *range(1, length - 2), end]) for length in lengths for end in (0, 1)]


@pytest.mark.parametrize(("make", "least"), [(CompiledPipeline, 0), (OnLoopback, LEAST)])
@pytest.mark.parametrize("name", STATES)
def test_each_way_out_of_a_loop_leaves_cursor_position_and_fields_as_interpreted(
    name: str, make: Callable[[Program], InterpretedPipeline], least: int, tmp_path: Path
) -> None:
    program = program_of(name, tmp_path)
    pipeline, expected = make(program), InterpretedPipeline(program)
    results = set()
    for count in (0, 1, 2, 3, 4, 8, 9, 201, 255):
        for frame in frames(count):
            found, [output] = pipeline.process(1, frame, 0, 0), expected.process(1, frame, 0, 0)
            # The kernel sends no frame that is shorter than an Ethernet header.
            assert found == ([output] if len(output.frame) >= least else [])
            results.add(output.frame[0])
    assert results == ({0, 1, 2} if name == "elements" else {0, 2})


def test_states_are_counted_where_no_stack_ends_a_loop(tmp_path: Path) -> None:
    elements, counted = program_of("elements", tmp_path), program_of("bytes", tmp_path)
    assert not parser._may_exceed(elements.parser, elements.stacks, MAX_PARSER_STEPS)
    assert parser._may_exceed(counted.parser, counted.stacks, MAX_PARSER_STEPS)
    # A stack of many elements may be longer than the limit.
    assert parser._may_exceed(elements.parser, elements.stacks, 10)
    first, *others = elements.parser
    without = [replace(each, operations=()) for each in others]
    assert parser._may_exceed((first, *without), elements.stacks, MAX_PARSER_STEPS)
