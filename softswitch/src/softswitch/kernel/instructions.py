"""Decode BPF instructions, and encode them again after some were replaced by several."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from softswitch.errors import KernelError

SIZE = 8
_FORMAT = struct.Struct("<BBhi")
WIDE_LOAD, CALL, EXIT, JUMP, LONG_JUMP, MAY_GOTO = 0x18, 0x85, 0x95, 0x05, 0x06, 0xE5
MOVE, ADD = 0xBF, 0x07  # 64-bit: move a register, add a constant
LOAD, STORE = 0x79, 0x7B  # 64-bit
JUMP_CLASSES = (5, 6)
_NEAR = 1 << 14
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
    def kind(self) -> int:
        return self.opcode & 7

    @property
    def dst(self) -> int:
        return self.registers & 15

    @property
    def src(self) -> int:
        return self.registers >> 4

    @property
    def is_local_call(self) -> bool:
        return self.opcode == CALL and self.src == 1


def instruction(opcode: int, dst: int = 0, src: int = 0, offset: int = 0, immediate: int = 0) -> Instruction:
    return Instruction(opcode, src << 4 | dst, offset, immediate)


def wide_loads(code: bytes) -> Iterator[tuple[int, Instruction]]:
    """Yield the byte offset of each load of a 64-bit constant, which takes two instructions."""
    at = 0
    while at < len(code):
        found = Instruction(*_FORMAT.unpack_from(code, at))
        if found.opcode == WIDE_LOAD:
            yield at, found
            at += SIZE
        at += SIZE


def decode(code: bytes) -> list[Instruction]:
    found = [Instruction(*fields) for fields in _FORMAT.iter_unpack(code)]
    constants = {at // SIZE + 1 for at, _ in wide_loads(code)}
    for position, each in enumerate(found):
        if position in constants:
            continue
        if each.is_local_call or each.opcode == LONG_JUMP:
            each.target = position + 1 + each.immediate
        elif each.kind in JUMP_CLASSES and each.opcode not in (CALL, EXIT):
            each.target = position + 1 + each.offset
    return found


def encode(groups: Sequence[Sequence[Instruction]]) -> bytes:
    """Return the code of groups, one for each instruction of `decode`; targets are positions of groups."""
    starts = _starts(groups)
    groups = [
        [part for each in group for part in _reaching(each, start, starts)]
        for group, start in zip(groups, starts, strict=True)
    ]
    starts = _starts(groups)
    placed = [each for group in groups for each in group]
    for position, each in enumerate(placed):
        if each.target is None:
            continue
        distance = starts[each.target] - position - 1
        if each.opcode in (CALL, LONG_JUMP):
            each.immediate = distance
        else:
            each.offset = distance
    return b"".join(_FORMAT.pack(e.opcode, e.registers, e.offset, e.immediate) for e in placed)


def _starts(groups: Sequence[Sequence[Instruction]]) -> list[int]:
    return list(accumulate(map(len, groups[:-1]), initial=0))


def _reaching(each: Instruction, position: int, starts: Sequence[int]) -> list[Instruction]:
    """Return a jump in a form that reaches its target."""
    if each.target is None or each.opcode in (CALL, LONG_JUMP) or abs(starts[each.target] - position) < _NEAR:
        return [each]
    far = Instruction(LONG_JUMP, 0, 0, 0, each.target)
    if each.opcode == JUMP:
        return [far]
    each.target, each.offset = None, 1
    return [each, instruction(JUMP, offset=1), far]
