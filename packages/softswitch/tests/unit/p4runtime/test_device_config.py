"""The program in `p4_device_config`: as JSON, or in the message that BMv2's clients put around it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch.errors import ProgramError
from softswitch.load import load_program
from softswitch.p4runtime.device_config import extract_program
from switch_harness import PROGRAMS
from switch_harness.bmv2_client import varint

PROGRAM = (PROGRAMS / "control.json").read_bytes()


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def config(data: bytes, reassign: bool = True, extras: bytes = b"") -> bytes:
    """Encode p4.tmp.P4DeviceConfig, byte by byte."""
    return (b"\x08\x01" if reassign else b"") + (field(2, extras) if extras else b"") + field(3, data)


def test_the_program_is_extracted_from_the_message_of_the_p4_tutorials() -> None:
    assert extract_program(config(PROGRAM)) == PROGRAM
    extras = field(1, field(1, b"port") + field(2, b"9090"))
    assert extract_program(config(PROGRAM, reassign=False, extras=extras)) == PROGRAM


@given(st.binary(min_size=1))
def test_any_program_is_extracted_from_its_message(data: bytes) -> None:
    assert extract_program(config(data)) == data


@pytest.mark.parametrize("space", [b"", b"\n", b"\r\n\t ", b"// p4c\n", b"\n/* p4c */", b"\xef\xbb\xbf"])
def test_plain_json_stays_unchanged(space: bytes) -> None:
    assert extract_program(space + PROGRAM) == space + PROGRAM


def test_data_that_is_neither_message_nor_json_is_refused_as_json() -> None:
    with pytest.raises(ProgramError, match="not JSON"):
        load_program(extract_program(b"\xff\xff\xff"))


def test_a_message_without_a_program_is_refused() -> None:
    with pytest.raises(ProgramError, match="device_data"):
        extract_program(b"\x08\x01")
