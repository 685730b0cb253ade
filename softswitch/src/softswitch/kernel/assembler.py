"""Make instructions for bpf(2) from LLVM IR: compile, link, move spills, insert `may_goto` and maps."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from softswitch.cache import cached_object
from softswitch.kernel import compiler
from softswitch.kernel.instructions import (
    CALL,
    JUMP,
    LONG_JUMP,
    MAY_GOTO,
    SIZE,
    AssemblyError,
    Instruction,
    decode,
    encode,
    wide_loads,
)
from softswitch.kernel.spills import move_spills
from softswitch.kernel.target import MAGIC

ENTRY_SECTION = "entry"

_CODE, _SYMBOLS, _RELOCATIONS = 1, 2, 9  # section types
_R_BPF_64_32 = 10
_EQUAL, _NOT_EQUAL = (0x15, 0x16), (0x55, 0x56)


def compile_module(module: str, area_bytes: int) -> tuple[bytes, int]:
    """Return a module's instructions, with placeholders for maps, and the new size of each CPU's area.

    The area grows by what does not fit on BPF's stack (`spills`). Raises KernelError.
    """
    code = link(cached_object((module, compiler.VERSION), lambda: _compile(module)))
    code, spill_bytes = move_spills(code, area_bytes)
    return place_may_goto(code), area_bytes + spill_bytes


def _compile(module: str) -> bytes:
    """Return object code, compiled in a subprocess since LLVM's BPF back end aborts on errors."""
    command = [sys.executable, "-m", compiler.__name__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run(command, input=module.encode(), capture_output=True, env=environment, check=False)
    if result.returncode != 0 or not result.stdout:
        lines = result.stderr.decode(errors="replace").strip().splitlines() or ["LLVM gave no object code"]
        raise AssemblyError(_reason(lines))
    return result.stdout


def _reason(lines: Sequence[str]) -> str:
    """Return LLVM's message without its location; in a Python traceback, the message follows the frames."""
    messages = [line for line in lines if not line.startswith((" ", "Traceback"))]
    error = (messages or lines)[0]
    match = re.search(r"in function .*?: (.*)", error)
    return f"LLVM's BPF back end gave up: {match[1].rstrip('.') if match else error}"


def insert_map_descriptors(code: bytes, descriptors: Mapping[int, int]) -> bytes:
    out = bytearray(code)
    for at, each in wide_loads(code):
        if each.immediate in descriptors:
            struct.pack_into("<i", out, at + 4, descriptors[each.immediate])
    return bytes(out)


def place_may_goto(code: bytes) -> bytes:
    """Replace each comparison with `MAGIC` by a `may_goto`, which jumps when the kernel ends the loop."""
    # A comparison for inequality becomes a `may_goto` over a jump.
    groups: list[list[Instruction]] = []
    for each in decode(code):
        if each.target is None or each.immediate != MAGIC or each.opcode in (CALL, LONG_JUMP):
            groups.append([each])
        elif each.opcode in _EQUAL:
            groups.append([Instruction(MAY_GOTO, 0, 0, 0, each.target)])
        elif each.opcode in _NOT_EQUAL:
            groups.append([Instruction(MAY_GOTO, 0, 1, 0), Instruction(JUMP, 0, 0, 0, each.target)])
        else:
            raise AssemblyError(f"expected == or != in a loop's guard, got opcode {each.opcode:#x}")
    return encode(groups)


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
            symbol_name = data[strings + name : data.index(b"\0", strings + name)].decode()
            raise AssemblyError(f"LLVM needs `{symbol_name or section.name}`, which BPF does not have")
        (addend,) = struct.unpack_from("<i", code, at + 4)
        target = start[defined_in] + value + (addend + 1) * SIZE
        struct.pack_into("<i", code, at + 4, (target - at) // SIZE - 1)
        code[at + 1] = code[at + 1] & 0x0F | 0x10  # BPF_PSEUDO_CALL
