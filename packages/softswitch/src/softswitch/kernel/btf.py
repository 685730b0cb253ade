"""The running kernel's types in BTF: numbers of functions and tracepoints, and offsets of fields.

The format is that of Documentation/bpf/btf.rst.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator
from pathlib import Path

from softswitch.errors import KernelError
from softswitch.kernel import bpf

FILE = Path("/sys/kernel/btf/vmlinux")
_MAGIC = 0xEB9F
_HEADER = struct.Struct("<HBBIIIII")  # magic, version, flags, header's length, offset and length of the parts
_TYPE = struct.Struct("<III")  # offset of the name, information, size or another type
_MEMBER = struct.Struct("<III")  # offset of the name, type, offset in bits
_BIT_OFFSET = (1 << 24) - 1  # in a member's offset, below the size of a bit field
_STRUCT, _UNION, _TYPEDEF, _FUNCTION = 4, 5, 8, 12
_MODIFIERS = (_TYPEDEF, 9, 10, 11, 18)  # volatile, const, restrict, type tag
_EXTRA_BYTES = {1: 4, 3: 12, 14: 4, 17: 4}  # after an integer, array, variable, declaration tag
_BYTES_PER_ITEM = {
    _STRUCT: 12,
    _UNION: 12,
    6: 8,
    13: 8,
    15: 12,
    19: 12,
}  # enumeration, prototype, section, ...
_TRACEPOINT_PREFIX = "btf_trace_"


class Btf:
    """The types of a kernel; raises KernelError if it has none, or lacks one that is asked for."""

    def __init__(self, file: Path = FILE) -> None:
        try:
            self._data = file.read_bytes()
        except OSError as error:
            raise KernelError(
                f"{file}: {error.strerror}; expected a kernel that was built with CONFIG_DEBUG_INFO_BTF"
            ) from error
        magic, _, _, header_bytes, types, type_bytes, names, name_bytes = _HEADER.unpack_from(self._data)
        if magic != _MAGIC:
            raise KernelError(f"{file}: expected BTF, which begins with {_MAGIC:#x}, got {magic:#x}")
        self._names = header_bytes + names
        self._names_end = self._names + name_bytes
        self._positions = [0]  # of types by number; number 0 is `void`
        self._numbers: dict[tuple[int, int], int] = {}  # by kind and offset of the name
        position = header_bytes + types
        end = position + type_bytes
        while position < end:
            name, information, _ = _TYPE.unpack_from(self._data, position)
            kind = information >> 24 & 31
            self._numbers.setdefault((kind, name), len(self._positions))
            self._positions.append(position)
            position += _TYPE.size + _EXTRA_BYTES.get(kind, 0)
            position += _BYTES_PER_ITEM.get(kind, 0) * (information & 0xFFFF)

    def function_hook(self, name: str) -> bpf.TracingHook:
        """Return the hook at the entry of a function."""
        return bpf.TracingHook(bpf.FUNCTION_ENTRY, self._number(_FUNCTION, name, f"the function {name}"))

    def tracepoint_hook(self, name: str) -> bpf.TracingHook:
        number = self._number(_TYPEDEF, _TRACEPOINT_PREFIX + name, f"the tracepoint {name}")
        return bpf.TracingHook(bpf.RAW_TRACEPOINT, number)

    def offset(self, structure: str, path: str) -> int:
        """Return a field's offset in bytes; `path` has the names of nested fields, with dots."""
        number, bits = self._number(_STRUCT, structure, f"struct {structure}"), 0
        for name in path.split("."):
            found = next(self._fields(number, name), None)
            if found is None:
                raise self._missing(f"the field {path} in struct {structure}")
            number, bits = found[0], bits + found[1]
        return bits // 8

    def _fields(self, number: int, name: str) -> Iterator[tuple[int, int]]:
        """Yield type and offset in bits of a field, which may be in an anonymous part."""
        position = self._positions[number]
        _, information, other = _TYPE.unpack_from(self._data, position)
        kind = information >> 24 & 31
        if kind in _MODIFIERS:
            yield from self._fields(other, name)
        if kind not in (_STRUCT, _UNION):
            return
        for index in range(information & 0xFFFF):
            member = position + _TYPE.size + _MEMBER.size * index
            name_offset, number, offset = _MEMBER.unpack_from(self._data, member)
            bits = offset & _BIT_OFFSET if information >> 31 else offset
            if not name_offset:
                yield from ((inner, bits + inner_bits) for inner, inner_bits in self._fields(number, name))
            elif self._is_name(name_offset, name):
                yield number, bits

    def _is_name(self, offset: int, name: str) -> bool:
        encoded = name.encode() + b"\0"
        return self._data.startswith(encoded, self._names + offset)

    def _number(self, kind: int, name: str, description: str) -> int:
        start = self._data.find(b"\0" + name.encode() + b"\0", self._names, self._names_end)
        number = self._numbers.get((kind, start + 1 - self._names)) if start >= 0 else None
        if number is None:
            raise self._missing(description)
        return number

    def _missing(self, description: str) -> KernelError:
        return KernelError(f"expected a kernel with {description}; Linux {platform.release()} has none")
