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
from softswitch.ending import undo_at_end
from softswitch.kernel import compiler
from softswitch.kernel.instructions import (
    CALL,
    INSTRUCTION_BYTES,
    JUMP,
    LONG_JUMP,
    MAY_GOTO,
    AssemblyError,
    Instruction,
    decode,
    encode,
    make_instruction,
    make_jump,
    wide_loads,
)
from softswitch.kernel.spills import move_spills
from softswitch.kernel.target import LOOP_GUARD_MAGIC

ENTRY_SECTION = "entry"

_CODE, _RELOCATIONS = 1, 9  # SHT_PROGBITS, SHT_REL
_R_BPF_64_32 = 10  # relocation of a call
_SECTIONS_OFFSET, _SECTION_COUNTS_OFFSET = 0x28, 0x3A  # e_shoff, e_shentsize in the header of the file
_SYMBOL_BYTES = 24
_IMMEDIATE_OFFSET = 4  # in an instruction
_EQUAL, _NOT_EQUAL = (0x15, 0x16), (0x55, 0x56)  # opcodes of jumps, for 64 and 32 bits


def compile_module(module: str, area_bytes: int) -> tuple[bytes, int]:
    """Return a module's instructions, with placeholders for maps, and the new size of each CPU's area.

    The area grows by the slots that do not fit on BPF's stack (`spills`). Raises KernelError.
    """
    code = link(cached_object((module, compiler.VERSION), lambda: _compile_in_subprocess(module)))
    code, spill_bytes = move_spills(code, area_bytes)
    return place_may_goto(code), area_bytes + spill_bytes


def program_section(name: str) -> str:
    """Return the section of one of several programs in a module."""
    return f"program/{name}"  # a symbol of LLVM's has the section's name, so it must not be the function's


def compile_programs(module: str, names: Sequence[str]) -> dict[str, bytes]:
    """Return the instructions of a module's programs, each a function in its own section.

    The programs have no loops, and fit on BPF's stack. Raises KernelError.
    """
    object_code = cached_object((module, compiler.VERSION), lambda: _compile_in_subprocess(module))
    return {name: link(object_code, program_section(name)) for name in names}


def _compile_in_subprocess(module: str) -> bytes:
    """Return object code, compiled in a subprocess since LLVM's BPF back end aborts on errors."""
    command = [sys.executable, "-m", compiler.__name__]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment) as process:
        undo_at_end(process, process.kill)
        try:
            object_code, errors = process.communicate(module.encode())
        finally:
            undo_at_end(process, None)
    if process.returncode != 0 or not object_code:
        lines = errors.decode(errors="replace").strip().splitlines() or ["LLVM gave no object code"]
        raise AssemblyError(_llvm_message(lines))
    return object_code


def _llvm_message(lines: Sequence[str]) -> str:
    """Return LLVM's message without its location; in a Python traceback, the message follows the frames."""
    messages = [line for line in lines if not line.startswith((" ", "Traceback"))]
    error = (messages or lines)[0]
    match = re.search(r"in function .*?: (.*)", error)
    return f"LLVM's BPF back end gave up: {match[1].rstrip('.') if match else error}"


def insert_map_descriptors(code: bytes, descriptors: Mapping[int, int]) -> bytes:
    patched_code = bytearray(code)
    for offset, instruction in wide_loads(code):
        if instruction.immediate in descriptors:
            struct.pack_into(
                "<i", patched_code, offset + _IMMEDIATE_OFFSET, descriptors[instruction.immediate]
            )
    return bytes(patched_code)


def place_may_goto(code: bytes) -> bytes:
    """Replace comparisons with `LOOP_GUARD_MAGIC` by `may_goto`, which jumps when the kernel ends a loop."""
    # A comparison for inequality becomes a `may_goto` over a jump.
    groups: list[list[Instruction]] = []
    for instruction in decode(code):
        if (
            instruction.target is None
            or instruction.immediate != LOOP_GUARD_MAGIC
            or instruction.opcode in (CALL, LONG_JUMP)
        ):
            groups.append([instruction])
        elif instruction.opcode in _EQUAL:
            groups.append([make_jump(MAY_GOTO, instruction.target)])
        elif instruction.opcode in _NOT_EQUAL:
            groups.append([make_instruction(MAY_GOTO, offset=1), make_jump(JUMP, instruction.target)])
        else:
            raise AssemblyError(f"expected == or != in a loop's guard, got opcode {instruction.opcode:#x}")
    return encode(groups)


# ---- object code (ELF64, little-endian)


class _Section(NamedTuple):
    name: str
    kind: int
    offset: int
    size: int
    link: int  # section of a relocation's symbols, or of the symbols' names
    info: int  # section that relocations change


def _read_sections(data: bytes) -> list[_Section]:
    (table,) = struct.unpack_from("<Q", data, _SECTIONS_OFFSET)
    size, count, name_section = struct.unpack_from("<HHH", data, _SECTION_COUNTS_OFFSET)
    # Name, type, flags, address, offset, size, link, info, alignment and entry size of each section.
    section_headers = [
        struct.unpack_from("<IIQQQQIIQQ", data, table + size * index) for index in range(count)
    ]
    _, _, _, _, names_offset, *_ = section_headers[name_section]

    def name_at(name_offset: int) -> str:
        return data[names_offset + name_offset : data.index(b"\0", names_offset + name_offset)].decode()

    return [
        _Section(name_at(name_offset), kind, offset, size, link, info)
        for name_offset, kind, _, _, offset, size, link, info, _, _ in section_headers
    ]


def link(data: bytes, entry_section: str = ENTRY_SECTION) -> bytes:
    sections = _read_sections(data)
    code_sections = [
        index
        for name in (entry_section, ".text")
        for index, section in enumerate(sections)
        if section.name == name and section.kind == _CODE
    ]
    section_starts: dict[int, int] = {}
    code = bytearray()
    for index in code_sections:
        section_starts[index] = len(code)
        code += data[sections[index].offset :][: sections[index].size]
    for section in sections:
        if section.kind == _RELOCATIONS and section.info in section_starts:
            _apply_relocations(data, sections, section, section_starts, code)
    return bytes(code)


def _apply_relocations(
    data: bytes, sections: list[_Section], section: _Section, section_starts: dict[int, int], code: bytearray
) -> None:
    symbols = sections[section.link]
    for offset, info in struct.iter_unpack("<QQ", data[section.offset :][: section.size]):
        symbol, relocation_type = info >> 32, info & 0xFFFFFFFF
        name_offset, _, _, defined_in, value, _ = struct.unpack_from(
            "<IBBHQQ", data, symbols.offset + _SYMBOL_BYTES * symbol
        )
        call_offset = section_starts[section.info] + offset
        if relocation_type != _R_BPF_64_32 or defined_in not in section_starts:
            names_offset = sections[symbols.link].offset
            symbol_name = data[
                names_offset + name_offset : data.index(b"\0", names_offset + name_offset)
            ].decode()
            raise AssemblyError(f"LLVM needs `{symbol_name or section.name}`, which BPF does not have")
        # The addend is the target's position in its section - 1; a call's immediate is relative to the next
        # instruction.
        (addend,) = struct.unpack_from("<i", code, call_offset + _IMMEDIATE_OFFSET)
        target = section_starts[defined_in] + value + (addend + 1) * INSTRUCTION_BYTES
        struct.pack_into(
            "<i", code, call_offset + _IMMEDIATE_OFFSET, (target - call_offset) // INSTRUCTION_BYTES - 1
        )
        code[call_offset + 1] = code[call_offset + 1] & 0x0F | 0x10  # BPF_PSEUDO_CALL
