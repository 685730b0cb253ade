"""The interpreter's parser: value sets, sub-parsers, lookahead, advance, verify, and every error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from softswitch import ir
from softswitch.interpreter import InterpretedPipeline
from softswitch.pipeline import Output
from switch_harness.constructs import compiled

STACKS, VALUE_SETS = compiled("stacks"), compiled("value_sets")


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        # op, position, error, lastIndex, length (2), seen (2)
        ("f0 02 00 00 0000 0000 abcd 0000", "f0 02 00 00 000e 0000 0000"),
        ("f0 05 00 00 0000 0000 abcd 0000", "f0 05 01 00 000c 0000 abcd 0000"),
        ("e0 08 00 00 0000 0000 ab 0000", "e0 08 00 00 000d 0000 0000"),
        ("e0 09 00 00 0000 0000 ab 0000", "e0 09 06 00 000b 0000 ab 0000"),
        ("0b 00 00 00 0000 0000 3456 0000", "0b 00 00 00 000e 3456 0000"),
        ("00 00 00 00 0000 0000 2111 2222 0000", "00 00 00 00 0010 2222 2111 2222 0000"),
        ("00 00 00 00 0000 0000 4000 77 0000", "00 00 00 00 000f 0000 77 0000"),
        ("00 00 00 00 0000 0000 4000 78 0000", "00 00 07 00 000f 0000 78 0000"),
    ],
)
def test_parser_operations_and_errors_are_as_in_bmv2(frame: str, expected: str) -> None:
    outputs = InterpretedPipeline(STACKS).process(1, bytes.fromhex(frame), 0, 0)
    # Skipped bytes are dropped: they are neither in a header nor in the payload.
    assert outputs == [Output(1, bytes.fromhex(expected))]


@pytest.fixture
def sets() -> InterpretedPipeline:
    pipeline = InterpretedPipeline(VALUE_SETS)
    pipeline.cells.write_value_set("P.kinds", [(7,), (0xFF01,)])
    pipeline.cells.write_value_set("P.pairs", [(1, 2), (0x7F, 0x1FF)])
    return pipeline


def visit(pipeline: InterpretedPipeline, kind: int, narrow: int, wide: int, inner: int) -> tuple[int, int]:
    """Return (egress port, states by bit) for a packet; port 2 is for parser errors."""
    head = kind.to_bytes(2, "big") + (narrow << 9 | wide).to_bytes(2, "big")
    [output] = pipeline.process(1, head + bytes([0, inner]), 0, 0)
    return output.port, output.frame[4]


@pytest.mark.parametrize(
    ("kind", "narrow", "wide", "inner", "port", "path"),
    [
        (7, 0, 0, 9, 1, 0b0011),
        (7, 0, 0, 101, 2, 0b0001),
        (7, 1, 2, 10, 1, 0b0111),
        (0xFF01, 0, 5, 0, 1, 0b1011),  # a value set's member, before a mask that matches too
        (0xFF02, 0x7F, 0x1FF, 0, 1, 0b0110),
        (1, 1, 1, 0, 1, 0b0010),
        (9, 1, 2, 0, 1, 0),
    ],
)
def test_value_sets_decide_the_next_parser_state(
    sets: InterpretedPipeline, kind: int, narrow: int, wide: int, inner: int, port: int, path: int
) -> None:
    assert visit(sets, kind, narrow, wide, inner) == (port, path)


def test_a_value_set_is_replaced_as_a_whole(sets: InterpretedPipeline) -> None:
    sets.cells.write_value_set("P.kinds", [(8,)])
    assert visit(sets, 7, 0, 0, 0) == (1, 0)
    assert visit(sets, 8, 0, 0, 0) == (1, 0b0011)


def test_a_parser_loop_that_extracts_nothing_ends_without_error() -> None:
    loop = ir.ParserState("loop", (), (), (ir.Case(0, 0, 1),))
    start = replace(VALUE_SETS.parser[VALUE_SETS.start_state], key=(), cases=(ir.Case(0, 0, 1),))
    endless = replace(VALUE_SETS, parser=(start, loop), start_state=0)
    assert visit(InterpretedPipeline(endless), 1, 0, 0, 0) == (1, 0)
