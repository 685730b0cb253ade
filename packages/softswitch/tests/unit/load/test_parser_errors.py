"""`parser_error` has the program's own code of each error: older p4c numbered NoError 1, today's 0."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from random import Random

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.load import load_program
from switch_harness.corpus import compare
from switch_harness.older_json import PORT, RECIRCULATED, error_codes, program

Pipeline = InterpretedPipeline | CompiledPipeline
MAKERS: dict[str, Callable[[Program], Pipeline]] = {
    "interpreted": InterpretedPipeline,
    "compiled": CompiledPipeline,
}
FIRST_CODES = (0, 1, 5)


@cache
def pipeline(maker: str, first_code: int) -> Pipeline:
    return MAKERS[maker](load_program(json.dumps(program(first_code))))


def word(value: int) -> bytes:
    return value.to_bytes(4, "big")


@pytest.mark.parametrize("first_code", FIRST_CODES)
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(
    ("frame", "header", "error", "payload"),
    [
        (word(9) + b"after", word(9), "NoError", b"after"),
        (word(10) + b"after", word(10), "Large", b"after"),
        (b"cut", b"", "PacketTooShort", b"cut"),
        # The second pass has no error; the first one's is in the field list, and a pass overwrites it.
        (word(RECIRCULATED) + b"after", word(3), "NoError", b"after"),
    ],
)
def test_each_error_has_the_code_of_the_program(
    maker: str, first_code: int, frame: bytes, header: bytes, error: str, payload: bytes
) -> None:
    expected = header + word(error_codes(first_code)[error]) + payload
    assert pipeline(maker, first_code).process(1, frame, 0, 0) == [(PORT, expected)]


@pytest.mark.parametrize("first_code", FIRST_CODES)
def test_random_frames_give_the_same_output_with_either_numbering_of_errors(first_code: int) -> None:
    assert compare(load_program(json.dumps(program(first_code))), 100, Random(first_code)) == "alike"
