"""Jumps reach their targets, near and far."""

from __future__ import annotations

import pytest

from softswitch.kernel.instructions import (
    EXIT,
    JUMP,
    LONG_JUMP,
    Instruction,
    decode,
    encode,
    make_instruction,
)

IF_EQUAL = 0x15
NOTHING = make_instruction(0xBF)  # r0 = r0


def landing(code: list[Instruction], position: int) -> int:
    """Return where a jump that is taken ends, through the jumps that it leads to."""
    while code[position].target is not None:
        target = code[position].target
        assert target is not None
        position = target
        if code[position].opcode not in (JUMP, LONG_JUMP):
            break
    return position


@pytest.mark.parametrize("opcode", [JUMP, IF_EQUAL])
@pytest.mark.parametrize("between", [1, 16_000, 20_000, 100_000])
def test_jumps_forward(opcode: int, between: int) -> None:
    jump = Instruction(opcode, 0, 0, 0, target=between + 1)
    code = decode(encode([[jump], *[[NOTHING]] * between, [make_instruction(EXIT)]]))
    assert code[landing(code, 0)].opcode == EXIT
    if opcode == IF_EQUAL and len(code) > between + 2:
        assert landing(code, 1) == 3  # if it is not taken


def test_jumps_back() -> None:
    groups = [[make_instruction(EXIT)], *[[NOTHING]] * 40_000, [Instruction(IF_EQUAL, 0, 0, 0, target=0)]]
    code = decode(encode(groups))
    assert landing(code, 40_001) == 0
