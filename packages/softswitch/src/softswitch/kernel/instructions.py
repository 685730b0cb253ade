"""Decode BPF instructions, and encode them again after some were replaced by several."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from softswitch.errors import KernelError

INSTRUCTION_BYTES = 8
_FORMAT = struct.Struct("<BBhi")
# Opcodes.
WIDE_LOAD, CALL, EXIT, JUMP, LONG_JUMP, MAY_GOTO = 0x18, 0x85, 0x95, 0x05, 0x06, 0xE5
MOVE, ADD = 0xBF, 0x07  # 64-bit: move a register, add a constant
LOAD, STORE = 0x79, 0x7B  # 64-bit
JUMP_CLASSES = (5, 6)  # comparing 64 and 32 bits
_PSEUDO_CALL = 1  # source register of a call of a function of the program
_NEAR_JUMP_LIMIT = 1 << 14
"""Limit of the distance of a 16-bit jump: half of its range, as the kernel inserts instructions."""


class AssemblyError(KernelError):
    """LLVM cannot compile a program for BPF, or its output cannot be loaded."""


@dataclass
class Instruction:
    """An instruction of 8 bytes; `target` is the position that it jumps to or calls."""

    opcode: int
    registers: int
    offset: int
    immediate: int
    target: int | None = None

    @property
    def opcode_class(self) -> int:
        return self.opcode & 7

    @property
    def dst(self) -> int:
        return self.registers & 15

    @property
    def src(self) -> int:
        return self.registers >> 4

    @property
    def is_local_call(self) -> bool:
        return self.opcode == CALL and self.src == _PSEUDO_CALL


def make_instruction(
    opcode: int, dst: int = 0, src: int = 0, offset: int = 0, immediate: int = 0
) -> Instruction:
    return Instruction(opcode, src << 4 | dst, offset, immediate)


def make_jump(opcode: int, target: int) -> Instruction:
    return Instruction(opcode, registers=0, offset=0, immediate=0, target=target)


def wide_loads(code: bytes) -> Iterator[tuple[int, Instruction]]:
    """Yield each load of a 64-bit constant, which takes two instructions, with its byte offset."""
    offset = 0
    while offset < len(code):
        instruction = Instruction(*_FORMAT.unpack_from(code, offset))
        if instruction.opcode == WIDE_LOAD:
            yield offset, instruction
            offset += INSTRUCTION_BYTES
        offset += INSTRUCTION_BYTES


def decode(code: bytes) -> list[Instruction]:
    instructions = [Instruction(*fields) for fields in _FORMAT.iter_unpack(code)]
    second_halves = {offset // INSTRUCTION_BYTES + 1 for offset, _ in wide_loads(code)}
    for position, instruction in enumerate(instructions):
        if position in second_halves:
            continue
        if instruction.is_local_call or instruction.opcode == LONG_JUMP:
            instruction.target = position + 1 + instruction.immediate
        elif instruction.opcode_class in JUMP_CLASSES and instruction.opcode not in (CALL, EXIT):
            instruction.target = position + 1 + instruction.offset
    return instructions


def encode(groups: Sequence[Sequence[Instruction]]) -> bytes:
    """Return the code of groups, one for each instruction of `decode`; targets are positions of groups."""
    starts = _group_starts(groups)
    groups = [
        [expanded for instruction in group for expanded in _expand_jump(instruction, start, starts)]
        for group, start in zip(groups, starts, strict=True)
    ]
    starts = _group_starts(groups)
    instructions = [instruction for group in groups for instruction in group]
    for position, instruction in enumerate(instructions):
        if instruction.target is None:
            continue
        distance = starts[instruction.target] - position - 1
        if instruction.opcode in (CALL, LONG_JUMP):
            instruction.immediate = distance
        else:
            instruction.offset = distance
    return b"".join(_FORMAT.pack(e.opcode, e.registers, e.offset, e.immediate) for e in instructions)


def _group_starts(groups: Sequence[Sequence[Instruction]]) -> list[int]:
    return list(accumulate(map(len, groups[:-1]), initial=0))


def _expand_jump(instruction: Instruction, position: int, starts: Sequence[int]) -> list[Instruction]:
    """Return a jump in a form that reaches its target."""
    if (
        instruction.target is None
        or instruction.opcode in (CALL, LONG_JUMP)
        or abs(starts[instruction.target] - position) < _NEAR_JUMP_LIMIT
    ):
        return [instruction]
    long_jump = make_jump(LONG_JUMP, instruction.target)
    if instruction.opcode == JUMP:
        return [long_jump]
    # If the condition holds, the long jump is taken, else the jump that skips it.
    instruction.target, instruction.offset = None, 1
    return [instruction, make_instruction(JUMP, offset=1), long_jump]
