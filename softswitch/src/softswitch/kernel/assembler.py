"""Make instructions for bpf(2) of LLVM IR: compile (`compiler`), link, insert `may_goto`, insert maps."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from softswitch.cache import cached_object
from softswitch.errors import KernelError
from softswitch.kernel import compiler
from softswitch.kernel.target import MAGIC

ENTRY_SECTION = "entry"

TOO_LITTLE_STACK = "the program computes with numbers so wide that BPF's stack of 512 bytes is too small"
_REFUSED = b"refused: "
"""Cached in place of object code if the stack is too small; the message is not, as its words may change."""

_INSTRUCTION = struct.Struct("<BBhi")
_CODE, _SYMBOLS, _RELOCATIONS = 1, 2, 9  # section types
_R_BPF_64_32 = 10
_WIDE_LOAD, _CALL, _EXIT, _JUMP, _LONG_JUMP, _MAY_GOTO = 0x18, 0x85, 0x95, 0x05, 0x06, 0xE5
_JUMP_CLASSES = (5, 6)
_EQUAL, _NOT_EQUAL = (0x15, 0x16), (0x55, 0x56)
_FAR = 1 << 15


class AssemblyError(KernelError):
    """LLVM cannot compile a program for BPF, or its output cannot be loaded."""


def compile_module(module: str) -> bytes:
    """Return a module's instructions, with placeholders for maps. Raises KernelError if BPF refuses them."""
    found = cached_object((module, compiler.VERSION), lambda: _compile(module))
    if found.startswith(_REFUSED):
        raise AssemblyError(TOO_LITTLE_STACK)
    return place_may_goto(link(found))


def _compile(module: str) -> bytes:
    """Return object code, or `_REFUSED`; by a subprocess, since LLVM's BPF back end aborts on errors."""
    command = [sys.executable, "-m", compiler.__name__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, input=module.encode(), capture_output=True, env=environment, check=False)
    if done.returncode != 0 or not done.stdout:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["LLVM gave no object code"]
        reason = _reason(lines)
        if reason == TOO_LITTLE_STACK:
            return _REFUSED
        raise AssemblyError(reason)
    return done.stdout


def _reason(lines: Sequence[str]) -> str:
    """Return LLVM's message without its location; in a Python traceback it is the line behind the frames."""
    outside = [line for line in lines if not line.startswith((" ", "Traceback"))]
    error = (outside or lines)[0]
    found = re.search(r"in function .*?: (.*)", error)
    if "stack limit" in error:
        return TOO_LITTLE_STACK
    return f"LLVM's BPF back end gave up: {found[1].rstrip('.') if found else error}"


def with_maps(code: bytes, descriptors: Mapping[int, int]) -> bytes:
    out = bytearray(code)
    for at, instruction in _wide_loads(code):
        if instruction.immediate in descriptors:
            struct.pack_into("<i", out, at + 4, descriptors[instruction.immediate])
    return bytes(out)


# ---- instructions


@dataclass
class Instruction:
    """An instruction of 8 bytes; `target` is the position that it jumps to or calls."""

    opcode: int
    registers: int
    offset: int
    immediate: int
    target: int | None = None


def _wide_loads(code: bytes) -> Iterator[tuple[int, Instruction]]:
    """Yield the byte offset of each load of a 64-bit constant, which takes two instructions."""
    at = 0
    while at < len(code):
        instruction = Instruction(*_INSTRUCTION.unpack_from(code, at))
        if instruction.opcode == _WIDE_LOAD:
            yield at, instruction
            at += _INSTRUCTION.size
        at += _INSTRUCTION.size


def decode(code: bytes) -> list[Instruction]:
    found = [Instruction(*fields) for fields in _INSTRUCTION.iter_unpack(code)]
    constants = {at // _INSTRUCTION.size + 1 for at, _ in _wide_loads(code)}
    for position, each in enumerate(found):
        if position in constants:
            continue
        is_local_call = each.opcode == _CALL and each.registers >> 4 == 1
        if is_local_call or each.opcode == _LONG_JUMP:
            each.target = position + 1 + each.immediate
        elif each.opcode & 7 in _JUMP_CLASSES and each.opcode not in (_CALL, _EXIT):
            each.target = position + 1 + each.offset
    return found


def place_may_goto(code: bytes) -> bytes:
    """Replace each comparison with `MAGIC` by a `may_goto`, which jumps when the kernel ends the loop."""
    # A comparison for inequality becomes a `may_goto` over a jump.
    placed: list[Instruction] = []
    place: list[int] = []
    for each in decode(code):
        place.append(len(placed))
        if each.target is None or each.immediate != MAGIC or each.opcode in (_CALL, _LONG_JUMP):
            placed.append(each)
        elif each.opcode in _EQUAL:
            placed.append(Instruction(_MAY_GOTO, 0, 0, 0, each.target))
        elif each.opcode in _NOT_EQUAL:
            placed += [Instruction(_MAY_GOTO, 0, 1, 0), Instruction(_JUMP, 0, 0, 0, each.target)]
        else:
            raise AssemblyError(f"a loop's guard became instruction {each.opcode:#x}")
    for position, each in enumerate(placed):
        if each.target is None:
            continue
        distance = place[each.target] - position - 1
        if each.opcode in (_CALL, _LONG_JUMP):
            each.immediate = distance
        elif -_FAR <= distance < _FAR:
            each.offset = distance
        else:
            raise AssemblyError(f"a jump over {distance} instructions: the program is too large")
    return b"".join(_INSTRUCTION.pack(e.opcode, e.registers, e.offset, e.immediate) for e in placed)


# ---- object code (ELF64, little-endian)


class _Section(NamedTuple):
    name: str
    kind: int
    offset: int
    size: int
    link: int
    info: int


def _sections(data: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    raw = [struct.unpack_from("<IIQQQQIIQQ", data, table + size * number) for number in range(count)]
    strings = raw[names][4]

    def text(at: int) -> str:
        return data[strings + at : data.index(b"\0", strings + at)].decode()

    return [_Section(text(r[0]), r[1], r[4], r[5], r[6], r[7]) for r in raw]


def link(data: bytes) -> bytes:
    sections = _sections(data)
    parts = [
        number
        for name in (ENTRY_SECTION, ".text")
        for number, section in enumerate(sections)
        if section.name == name and section.kind == _CODE
    ]
    start: dict[int, int] = {}
    code = bytearray()
    for number in parts:
        start[number] = len(code)
        code += data[sections[number].offset :][: sections[number].size]
    for section in sections:
        if section.kind == _RELOCATIONS and section.info in start:
            _relocate(data, sections, section, start, code)
    return bytes(code)


def _relocate(
    data: bytes, sections: list[_Section], section: _Section, start: dict[int, int], code: bytearray
) -> None:
    symbols = sections[section.link]
    for offset, info in struct.iter_unpack("<QQ", data[section.offset :][: section.size]):
        symbol, kind = info >> 32, info & 0xFFFFFFFF
        name, _, _, defined_in, value, _ = struct.unpack_from("<IBBHQQ", data, symbols.offset + 24 * symbol)
        at = start[section.info] + offset
        if kind != _R_BPF_64_32 or defined_in not in start:
            strings = sections[symbols.link].offset
            called = data[strings + name : data.index(b"\0", strings + name)].decode()
            raise AssemblyError(f"LLVM needs `{called or section.name}`, which BPF does not have")
        (addend,) = struct.unpack_from("<i", code, at + 4)
        target = start[defined_in] + value + (addend + 1) * _INSTRUCTION.size
        struct.pack_into("<i", code, at + 4, (target - at) // _INSTRUCTION.size - 1)
        code[at + 1] = code[at + 1] & 0x0F | 0x10  # BPF_PSEUDO_CALL
