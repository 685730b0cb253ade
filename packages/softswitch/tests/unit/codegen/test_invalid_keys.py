"""A table's key from an invalid header matches as 0, whatever its fields hold."""

from __future__ import annotations

import pytest

from softswitch import ir
from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir.stale_fields import StaleFields
from switch_harness.constructs import compiled

OPTION = bytes.fromhex("0501237f")
HITS = slice(2, 8)
"""What the tables found: exact, prefix, mask, range, stack and union, each a byte."""

CASES: dict[str, tuple[int, bytes, tuple[int, ...]]] = {
    "never valid": (0, b"", (1, 3, 2, 2, 0, 1)),
    "valid": (0, OPTION, (2, 3, 1, 1, 0, 1)),
    "made invalid": (1, OPTION, (1, 3, 2, 2, 0, 1)),
    "written while invalid": (2, b"", (1, 3, 2, 2, 0, 1)),
    "copied from a valid header": (3, OPTION, (4, 2, 1, 1, 0, 1)),
    "copied from an invalid header": (4, OPTION, (1, 3, 2, 2, 0, 1)),
    "what a push moves out of a stack, by a copy": (6, b"\x41\x41\x41", (1, 3, 2, 2, 5, 1)),
    "an element of a stack, by a copy": (8, b"\x41\x41\x40", (1, 3, 2, 2, 5, 1)),
    "written in an invalid member of a union": (9, b"", (1, 3, 2, 2, 0, 1)),
    "another member of a union": (10, b"\x51", (1, 3, 2, 2, 0, 3)),
    "no member of a union": (11, b"\x51", (1, 3, 2, 2, 0, 1)),
}


@pytest.mark.parametrize("make", [InterpretedPipeline, CompiledPipeline])
@pytest.mark.parametrize(("op", "headers", "hits"), CASES.values(), ids=CASES)
def test_an_invalid_header_matches_as_0(
    make: type[InterpretedPipeline] | type[CompiledPipeline], op: int, headers: bytes, hits: tuple[int, ...]
) -> None:
    has_option = headers == OPTION
    frame = bytes([op, 0x80 if has_option else 0]) + bytes(6) + headers
    ((_, data),) = make(compiled("invalid_keys")).process(1, frame, 0, 0)
    assert tuple(data[HITS]) == hits


def test_only_key_fields_that_can_be_stale_are_checked() -> None:
    """A field that only the parser fills, of a header that stays valid, is 0 while it is invalid."""
    program = compiled("lookups")
    ref = program.field_index
    assert ref["option", "address"] not in program.stale_fields
    assert ref["probe", "signed"] in program.stale_fields  # an action assigns it
    assert ref["scalars", "metadata_t.class"] not in program.stale_fields  # metadata is always valid


def test_a_field_that_a_statement_may_write_in_an_invalid_header_is_stale() -> None:
    headers = tuple(ir.Header(str(n), (ir.FieldType("a", 8), ir.FieldType("b", 8)), False) for n in range(8))
    stacks, unions = (ir.Stack("s", (0, 1), 0), ir.Stack("t", (6, 7), 1)), ((2, 3),)
    statements = (
        ir.Assign(ir.ElementField(ir.Element(0, ir.LastIndex(0)), 0), ir.Constant(1)),
        ir.SetInvalid(ir.Element(1, ir.LastIndex(1))),
        ir.AssignHeader(4, 5),
    )
    stale = StaleFields(headers, stacks, unions, statements, [ir.FieldRef(5, 1)])
    found = {
        (header, field) for header in range(8) for field in range(2) if ir.FieldRef(header, field) in stale
    }
    assert found == {(0, 0), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (4, 0), (4, 1), (5, 1),
                     (6, 0), (6, 1), (7, 0), (7, 1)}  # fmt: skip
