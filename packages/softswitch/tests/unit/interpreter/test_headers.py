"""The interpreter on unions, stacks and varbit fields: hand-written frames, and what BMv2 makes of them."""

from __future__ import annotations

import pytest

from softswitch.interpreter import InterpretedPipeline
from switch_harness.constructs import compiled

PROGRAMS = {name: compiled(name) for name in ("header_unions", "varbit", "stacks")}


def answer(name: str, frame: str) -> str:
    """Return the frame that the program sends by port 1 for a frame; both in hex, blanks are ignored."""
    [output] = InterpretedPipeline(PROGRAMS[name]).process(1, bytes.fromhex(frame), 0, 0)
    assert output.port == 1
    return output.frame.hex()


def without_blanks(text: str) -> str:
    return bytes.fromhex(text).hex()


SHORT, LONG = "01 aaaa", "02 bbbbbbbb cc"


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        # op, member of `one`, valid (1 one, 2 two, 4 many[0].short, 8 many[1].long, 16 equal), error, length
        (f"00 01 00 00 00 {SHORT} 00", f"00 01 01 00 09 {SHORT} 00"),
        (f"00 02 00 00 00 {LONG} 00", f"00 02 01 00 0c {LONG} 00"),
        (f"00 03 00 00 00 {SHORT} {LONG} 00", f"00 03 03 00 0f {SHORT} {LONG} 00"),
        # making another member valid invalidates this one, whose bytes BMv2 still counts
        (f"01 02 00 00 00 {LONG} 00", "01 02 01 00 0f 00 1234 00"),
        (f"02 01 00 00 00 {SHORT} 00", "02 01 01 00 0f 00 00000000 56 00"),
        # assignment copies the valid member, and the union is equal then
        (f"03 02 00 00 00 {LONG} 00", f"03 02 13 00 0c {LONG} {LONG} 00"),
        (f"03 00 00 00 00 {LONG}", f"03 00 10 01 0b {LONG}"),
        (f"04 01 00 00 00 {SHORT} 00", "04 01 10 00 06 00"),
        (f"04 02 00 00 00 {LONG} 00", f"04 02 01 00 0c {LONG} 00"),
        # stacks of unions; `pop_front` moves the first to the end, as BMv2 swaps unions and invalidates none
        (f"00 00 00 00 00 {SHORT} {LONG} 00", f"00 00 1c 00 0f {SHORT} {LONG} 00"),
        # a full stack: the remaining headers stay in the payload
        (f"00 00 00 00 00 {SHORT * 3} {LONG} 00", f"00 00 14 03 15 {SHORT * 3} {LONG} 00"),
        (f"05 00 00 00 00 {LONG} {LONG} 00", "05 00 10 00 0f 00 0000 00"),
        (f"06 00 00 00 00 {SHORT} {LONG} 00", f"06 00 10 00 0f {SHORT} {LONG} 00"),
        (f"07 00 00 00 00 {LONG} {SHORT} 00", f"07 00 14 00 0f {SHORT} {LONG} 00"),
        (f"08 01 00 00 00 {SHORT} {LONG} 00", f"08 01 01 00 0f {SHORT} {LONG} {SHORT} 00"),
        (f"0a 00 00 00 00 {LONG} 00", f"0a 00 01 00 0c {LONG} {LONG} 00"),
    ],
)
def test_header_unions_are_parsed_changed_and_emitted_as_in_bmv2(frame: str, expected: str) -> None:
    assert answer("header_unions", frame) == without_blanks(expected)


ONE, TWO, THREE = "1111", "1222", "1333"


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        # op, position, error, lastIndex, length (2), seen (2); the lookahead makes a header of 2 bytes valid
        (f"00 00 00 00 0000 0000 {ONE}{TWO} 0000", f"00 00 00 01 0010 0000 {ONE}{TWO} 0000"),
        ("00 00 00 00 0000 0000 1fff 1222", "00 00 00 00 000e 0000 1fff 1222"),
        (f"00 00 00 00 0000 0000 {ONE * 5}", f"00 00 03 03 0014 0000 {ONE * 5}"),
        ("00 00 00 00 0000 0000 10", "00 00 01 00 0009 0000 10"),
        (f"01 00 00 00 0000 0000 {ONE}{TWO} 0000", f"01 00 00 01 0012 0000 0123 {ONE}{TWO} 0000"),
        (f"02 00 00 00 0000 0000 {ONE}{TWO} 0000", f"02 00 00 01 0010 0000 {TWO} 0000"),
        (f"03 00 00 00 0000 0000 {ONE}{TWO} 0000", f"03 00 00 01 0010 0000 {ONE} 0000"),
        (f"04 00 00 00 0000 0000 {ONE}{TWO} 0000", "04 00 00 01 0010 0000 0000"),
        (f"05 02 00 00 0000 0000 {ONE}{TWO}{THREE}{ONE} 0000",
         f"05 02 00 03 0014 {THREE} {ONE}{TWO}{THREE}{ONE} 0000"),
        (f"06 01 00 00 0000 0000 {ONE}{TWO} 0000", f"06 01 00 01 0010 0000 {ONE}1456 0000"),
        (f"07 00 00 00 0000 0000 {ONE}{TWO} 0000", f"07 00 00 01 0010 0000 {ONE}{TWO} {ONE}{TWO} 0000"),
        (f"08 00 00 00 0000 0000 {ONE}{TWO} 0000", f"08 00 00 01 0010 0000 {ONE}{TWO}{TWO} 0000"),
        (f"09 00 00 00 0000 0000 {ONE}{TWO} 0000", f"09 00 00 01 0010 0000 {ONE} 0000 0000"),
        (f"0a 00 00 00 0000 0000 2555 2555 {ONE} 0000", f"0a 00 00 d1 0012 0e0e 2555 {ONE} 2555 0000"),
        (f"0c 00 00 00 0000 0000 {ONE}{TWO} 0000", f"0c 00 00 01 0010 0000 {TWO}{TWO} 0000"),
    ],
)  # fmt: skip
def test_header_stacks_are_pushed_popped_and_emitted_as_in_bmv2(frame: str, expected: str) -> None:
    assert answer("stacks", frame) == without_blanks(expected)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        # op, error, length (2), sum (2); first: bits, data, tail; second likewise
        ("00 00 0000 0000 08 aa bbbb 00 cccc dd", "00 00 000e {} 08 aa bbbb 00 cccc dd"),
        ("00 00 0000 0000 0c aa bbbb", "00 06 000a {} 0c aa bbbb"),
        ("00 00 0000 0000 40 aa bbbb", "00 01 000a {} 40 aa bbbb"),
        (f"00 00 0000 0000 88 {'aa' * 17} bbbb", f"00 04 001a {{}} 88 {'aa' * 17} bbbb"),
        # a copy does not change the length of the packet
        ("01 00 0000 0000 08 aa bbbb 10 eeee cccc", "01 00 000f {} 08 aa bbbb 08 aa bbbb"),
        ("03 00 0000 0000 08 aa bbbb 00 cccc", "03 00 0009 {} 00 cccc"),
        # setValid again: the field has its old length, and is 0
        ("04 00 0000 0000 08 aa bbbb 00 cccc", "04 00 000d {} 00 00 0000 00 cccc"),
        # assignment of the varbit field alone: `bits` still has the old length
        ("09 00 0000 0000 08 aa bbbb 10 eeee cccc", "09 00 000f {} 08 eeee bbbb 10 eeee cccc"),
        ("86 00 0000 0000 00 bbbb 01 01 aa 02 00 ddee", "86 00 0010 {} 00 bbbb 02 00 ddee"),
        ("88 00 0000 0000 00 bbbb 01 01 aa 02 00 ddee", "88 00 0010 {} 00 bbbb 02 00 ddee 02 00 ddee"),
    ],
)
def test_fields_of_variable_length_are_parsed_and_emitted_as_in_bmv2(frame: str, expected: str) -> None:
    got = answer("varbit", frame)
    assert got == without_blanks(expected.format(got[8:12]))


def test_a_checksum_covers_a_varbit_field_at_its_current_length() -> None:
    got = answer("varbit", "00 00 0000 0000 08 aa bbbb 10 1234 cccc")
    length = 0x000F
    total = length + 0xAABB + 0xBB12 + 0x3400  # length, aa, bbbb, 1234, padded
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert int(got[8:12], 16) == total ^ 0xFFFF
