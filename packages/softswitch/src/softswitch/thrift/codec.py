"""Thrift's binary protocol: reading and writing of the values that type hints describe.

The protocol is in the specification `thrift-binary-protocol.md` of Apache Thrift. This module has what BMv2's
services use: no sets, no unions, and structs whose fields are numbered from 1 in the order of declaration.
A library would add threads or a second event loop, and calls have to run on the event loop of the switch.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import cache
from types import NoneType
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias, get_args, get_origin, get_type_hints

from softswitch.errors import SwitchError

MAX_MESSAGE_BYTES = 128 << 20  # as of a message over gRPC
_MAX_NESTING = 16  # levels of a value that is skipped


class WireType(IntEnum):
    STOP = 0
    BOOL = 2
    BYTE = 3
    DOUBLE = 4
    I16 = 6
    I32 = 8
    I64 = 10
    STRING = 11
    STRUCT = 12
    MAP = 13
    SET = 14
    LIST = 15


class IntegerType(NamedTuple):
    wire_type: WireType
    is_signed: bool = True


I16: TypeAlias = Annotated[int, IntegerType(WireType.I16)]
I32: TypeAlias = Annotated[int, IntegerType(WireType.I32)]
U32: TypeAlias = Annotated[int, IntegerType(WireType.I32, is_signed=False)]
I64: TypeAlias = Annotated[int, IntegerType(WireType.I64)]
"""Integers of methods and structs. The protocol's have a sign; BMv2 casts handles to unsigned numbers."""

_FORMATS = {
    WireType.BOOL: struct.Struct(">?"),
    WireType.BYTE: struct.Struct(">b"),
    WireType.DOUBLE: struct.Struct(">d"),
    WireType.I16: struct.Struct(">h"),
    WireType.I32: struct.Struct(">i"),
    WireType.I64: struct.Struct(">q"),
}
_U8, _LENGTH = struct.Struct(">B"), _FORMATS[WireType.I32]
_FIELD, _ELEMENTS, _PAIRS = struct.Struct(">Bh"), struct.Struct(">Bi"), struct.Struct(">BBi")


class MalformedMessage(SwitchError):
    """A message that is not of the binary protocol, or not of the declared types."""


class Source:
    """The bytes of one message, which a stream delivers."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._remaining_bytes = MAX_MESSAGE_BYTES

    async def read(self, size: int) -> bytes:
        if not 0 <= size <= self._remaining_bytes:
            raise MalformedMessage(f"expected a message of at most {MAX_MESSAGE_BYTES} bytes")
        self._remaining_bytes -= size
        return await self._reader.readexactly(size)

    async def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(await self.read(form.size))

    async def read_string(self) -> bytes:
        (length,) = await self.unpack(_LENGTH)
        return await self.read(length)


class Codec(Protocol):
    """How values of one type are read and written. Their Python type depends on the codec."""

    wire_type: WireType

    async def read(self, source: Source) -> Any: ...

    def write(self, out: bytearray, value: Any) -> None: ...


class _NumberCodec:
    def __init__(self, wire_type: WireType) -> None:
        self.wire_type = wire_type
        self._form = _FORMATS[wire_type]

    async def read(self, source: Source) -> Any:
        (value,) = await source.unpack(self._form)
        return value

    def write(self, out: bytearray, value: Any) -> None:
        out += self._form.pack(value)


class _IntegerCodec:
    """Codec of integers; bits that do not fit are cut off, as by BMv2's casts."""

    def __init__(self, integer_type: IntegerType) -> None:
        self.wire_type = integer_type.wire_type
        self._is_signed = integer_type.is_signed
        self._size = _FORMATS[self.wire_type].size
        self._mask = (1 << 8 * self._size) - 1

    async def read(self, source: Source) -> int:
        return int.from_bytes(await source.read(self._size), "big", signed=self._is_signed)

    def write(self, out: bytearray, value: int) -> None:
        out += (value & self._mask).to_bytes(self._size, "big")


class _BytesCodec:
    wire_type = WireType.STRING

    async def read(self, source: Source) -> bytes:
        return await source.read_string()

    def write(self, out: bytearray, value: bytes) -> None:
        out += _LENGTH.pack(len(value)) + value


class _TextCodec:
    wire_type = WireType.STRING

    async def read(self, source: Source) -> str:
        data = await source.read_string()
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise MalformedMessage(f"expected text in UTF-8, got {data[:40]!r}") from None

    def write(self, out: bytearray, value: str) -> None:
        data = value.encode()
        out += _LENGTH.pack(len(data)) + data


class _ListCodec:
    wire_type = WireType.LIST

    def __init__(self, element: Codec) -> None:
        self._element = element

    async def read(self, source: Source) -> list[Any]:
        wire_type, count = await source.unpack(_ELEMENTS)
        if count and wire_type != self._element.wire_type:
            raise MalformedMessage(
                f"expected a list of type {self._element.wire_type.name}, got type {wire_type}"
            )
        return [await self._element.read(source) for _ in range(count)]

    def write(self, out: bytearray, value: Sequence[Any]) -> None:
        out += _ELEMENTS.pack(self._element.wire_type, len(value))
        for element in value:
            self._element.write(out, element)


class _MapCodec:
    wire_type = WireType.MAP

    def __init__(self, key: Codec, value: Codec) -> None:
        self._key, self._value = key, value

    async def read(self, source: Source) -> dict[Any, Any]:
        key_type, value_type, count = await source.unpack(_PAIRS)
        if count and (key_type, value_type) != (self._key.wire_type, self._value.wire_type):
            raise MalformedMessage(f"expected another map than one of types {key_type} and {value_type}")
        return {await self._key.read(source): await self._value.read(source) for _ in range(count)}

    def write(self, out: bytearray, value: dict[Any, Any]) -> None:
        out += _PAIRS.pack(self._key.wire_type, self._value.wire_type, len(value))
        for key, element in value.items():
            self._key.write(out, key)
            self._value.write(out, element)


class StructField(NamedTuple):
    name: str
    codec: Codec
    is_optional: bool = False  # None if the message lacks it


class StructCodec:
    """Structs that are `make(*values)`; the fields are numbered from `first_id`."""

    wire_type = WireType.STRUCT

    def __init__(
        self, name: str, fields: Sequence[StructField], make: Callable[..., Any], first_id: int = 1
    ) -> None:
        self._name, self._fields, self._make = name, fields, make
        self._first_id = first_id

    async def read(self, source: Source) -> Any:
        values: dict[int, Any] = {}
        while (wire_type := (await source.unpack(_U8))[0]) != WireType.STOP:
            (field_id,) = await source.unpack(_FORMATS[WireType.I16])
            position = field_id - self._first_id
            if 0 <= position < len(self._fields) and self._fields[position].codec.wire_type == wire_type:
                values[position] = await self._fields[position].codec.read(source)
            else:
                await skip(source, wire_type)
        for position, field in enumerate(self._fields):
            if position not in values and not field.is_optional:
                number = position + self._first_id
                raise MalformedMessage(f"{self._name}: expected field {number}, {field.name}, got none")
        return self._make(*(values.get(position) for position in range(len(self._fields))))

    def write(self, out: bytearray, value: Sequence[Any]) -> None:
        for field_id, (field, field_value) in enumerate(
            zip(self._fields, value, strict=True), start=self._first_id
        ):
            if field_value is not None:
                out += _FIELD.pack(field.codec.wire_type, field_id)
                field.codec.write(out, field_value)
        out.append(WireType.STOP)


async def skip(source: Source, wire_type: int, nesting: int = 0) -> None:
    """Read a value of a type that is not declared, and drop it."""
    if nesting > _MAX_NESTING:
        raise MalformedMessage(f"expected at most {_MAX_NESTING} levels of values")
    if wire_type in _FORMATS:
        await source.read(_FORMATS[WireType(wire_type)].size)
    elif wire_type == WireType.STRING:
        await source.read_string()
    elif wire_type == WireType.STRUCT:
        while (field_type := (await source.unpack(_U8))[0]) != WireType.STOP:
            await source.unpack(_FORMATS[WireType.I16])
            await skip(source, field_type, nesting + 1)
    elif wire_type in (WireType.LIST, WireType.SET):
        element_type, count = await source.unpack(_ELEMENTS)
        for _ in range(count):
            await skip(source, element_type, nesting + 1)
    elif wire_type == WireType.MAP:
        key_type, value_type, count = await source.unpack(_PAIRS)
        for _ in range(count):
            await skip(source, key_type, nesting + 1)
            await skip(source, value_type, nesting + 1)
    else:
        raise MalformedMessage(f"expected a type of the binary protocol, got type {wire_type}")


def fields_of(hints: dict[str, Any]) -> Iterator[StructField]:
    """Yield the fields of a struct, or arguments of a method, from their type hints by name."""
    for name, hint in hints.items():
        arguments = get_args(hint)
        if NoneType in arguments:
            (hint,) = (argument for argument in arguments if argument is not NoneType)
            yield StructField(name, codec_of(hint), is_optional=True)
        else:
            yield StructField(name, codec_of(hint))


@cache
def codec_of(hint: Any) -> Codec:  # a type expression
    """Return the codec of an annotated `int`, bool, float, str, bytes, list, dict or `NamedTuple`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        (integer_type,) = hint.__metadata__
        return _IntegerCodec(integer_type)
    if origin is list:
        return _ListCodec(codec_of(arguments[0]))
    if origin is dict:
        return _MapCodec(*map(codec_of, arguments))
    simple_codecs: dict[object, Codec] = {
        bool: _NumberCodec(WireType.BOOL),
        float: _NumberCodec(WireType.DOUBLE),
        bytes: _BytesCodec(),
        str: _TextCodec(),
    }
    if hint in simple_codecs:
        return simple_codecs[hint]
    return StructCodec(hint.__name__, tuple(fields_of(get_type_hints(hint, include_extras=True))), hint)
