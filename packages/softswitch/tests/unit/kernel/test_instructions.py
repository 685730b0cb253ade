"""Jumps reach their targets, near and far."""

from __future__ import annotations

import pytest

from softswitch.kernel import bpf
from softswitch.kernel.instructions import (
    EXIT,
    JUMP,
    LONG_JUMP,
    Instruction,
    decode,
    encode,
    make_instruction,
)
from switch_harness.wording import mentions, says

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
def test_jumps_forward_reach_their_targets_near_and_far(opcode: int, between: int) -> None:
    jump = Instruction(opcode, 0, 0, 0, target=between + 1)
    code = decode(encode([[jump], *[[NOTHING]] * between, [make_instruction(EXIT)]]))
    assert code[landing(code, 0)].opcode == EXIT
    if opcode == IF_EQUAL and len(code) > between + 2:
        assert landing(code, 1) == 3  # if it is not taken


def test_jumps_back_reach_their_targets() -> None:
    groups = [[make_instruction(EXIT)], *[[NOTHING]] * 40_000, [Instruction(IF_EQUAL, 0, 0, 0, target=0)]]
    code = decode(encode(groups))
    assert landing(code, 40_001) == 0


@pytest.mark.soak  # the kernel takes seconds to give up
def test_a_program_that_the_verifier_gives_up_is_refused_with_its_reason() -> None:
    """It runs through a loop as often as the program would, a million times."""
    set_zero, add_one = make_instruction(0xB7), make_instruction(0x07, immediate=1)
    jump_if_below = Instruction(0xA5, 0, 0, 1 << 20, target=1)
    groups = [[set_zero], [add_one], [jump_if_below], [make_instruction(EXIT)]]
    with pytest.raises(bpf.BpfError, match=mentions("loop", "long")):
        bpf.load(bpf.SCHED_CLS, encode(groups), "loop")


def test_the_reason_is_found_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is what Linux 6.18 writes, without the states of most registers."""
    log = b"""703: (79) r5 = *(u64 *)(r10 -16)      ; R5=0 R10=fp0 fp-16=0
704: (e5) may_goto pc+142
BPF program is too large. Processed 1000001 insn
processed 1000001 insns (limit 1000000) max_states_per_insn 4 total_states 1 peak_states 1 mark_read 0
"""

    def refuse(_kind: int, _code: bytes, name: str, buffer: bytearray | bytes, _hook: object) -> int:
        if isinstance(buffer, bytearray):
            buffer[: len(log)] = log
        raise bpf.BpfError(f"load BPF program {name}: Argument list too long")

    monkeypatch.setattr(bpf, "_load", refuse)
    with pytest.raises(bpf.BpfError) as raised:
        bpf.load(bpf.SCHED_CLS, b"", "loop")
    assert says(str(raised.value), "BPF", 1000001)
    assert "may_goto" not in str(raised.value)
