"""The calls of Thrift clients: services behind one connection, told apart by the names of their methods."""

from __future__ import annotations

import asyncio
import inspect
import logging
import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple, get_type_hints

from softswitch.errors import SwitchError
from softswitch.runtime.interface import Runtime
from softswitch.runtime.refusals import RuntimeRefusal
from softswitch.thrift.codec import (
    I32,
    Codec,
    MalformedMessage,
    Source,
    StructCodec,
    StructField,
    WireType,
    codec_of,
    fields_of,
    skip,
)
from softswitch.thrift.conversion import CurrentNames
from softswitch.thrift.learning import LearnNotifications
from softswitch.thrift.replication import SimplePreLagService, SimpleSwitchService
from softswitch.thrift.standard import StandardService

VERSION_1 = b"\x80\x01"
"""First bytes of a message in the strict form, which Thrift's libraries write."""
SEPARATOR = ":"  # between the names of a service and its method
CONTEXT = "cxt_id"  # the argument whose only value is 0
_LOG = logging.getLogger(__name__)
_TYPE, _NUMBER = struct.Struct(">H"), struct.Struct(">i")


class MessageType(IntEnum):
    CALL = 1
    REPLY = 2
    EXCEPTION = 3


class ApplicationError(IntEnum):
    """Types of a TApplicationException."""

    UNKNOWN_METHOD = 1
    INTERNAL_ERROR = 6
    PROTOCOL_ERROR = 7


class CallHeader(NamedTuple):
    message_type: int
    name: str
    number: int  # which the reply repeats


class Method(NamedTuple):
    """How the arguments and the result of a method are encoded, and the codes of its exception."""

    arguments: StructCodec
    argument_names: tuple[str, ...]
    result: StructCodec | None  # None if it returns nothing
    error_codes: Mapping[str, int] | None


class _Exception(NamedTuple):
    code: I32


class _ApplicationException(NamedTuple):
    message: str
    type: I32


_EXCEPTION = StructCodec("result", [StructField("ouch", codec_of(_Exception))], tuple)
_APPLICATION_EXCEPTION = codec_of(_ApplicationException)


def make_services(runtime: Runtime, port: int, notifications: LearnNotifications | None) -> dict[str, object]:
    """Return the services by the names that BMv2 registers; `port` is the Thrift port."""
    return {
        "standard": StandardService(runtime, CurrentNames(runtime), port, notifications),
        "simple_pre_lag": SimplePreLagService(runtime),
        "simple_switch": SimpleSwitchService(runtime),
    }


class CallServer:
    """Answers the calls of one client after the other, on the thread of the event loop.

    `on_changed` is called after each call.
    """

    def __init__(self, services: Mapping[str, object], on_changed: Callable[[], None]) -> None:
        self._services = services
        self._on_changed = on_changed

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bytes, denial: str | None
    ) -> None:
        """Answer calls until the client closes its connection; `first` are bytes of it that were read.

        Every call fails with the text `denial` unless it is None.
        """
        while True:
            source = Source(reader)
            first = first or await reader.read(1)
            if not first:
                return
            first += await source.read(len(VERSION_1) - len(first))
            if first != VERSION_1:
                _LOG.error("Thrift: expected a message that begins with %r, got %r", VERSION_1, first)
                return
            try:
                header = await _read_header(source)
            except MalformedMessage as error:
                _LOG.error("Thrift: %s", error)
                return
            try:
                reply = await self._answer(source, header, denial)
            except MalformedMessage as error:
                writer.write(_fail(header, ApplicationError.PROTOCOL_ERROR, str(error)))
                return
            writer.write(reply)
            await writer.drain()
            first = b""

    async def _answer(self, source: Source, header: CallHeader, denial: str | None) -> bytes:
        if header.message_type != MessageType.CALL:
            raise MalformedMessage(f"expected a call, got a message of type {header.message_type}")
        service_name, _, method_name = header.name.rpartition(SEPARATOR)
        service = self._services.get(service_name)
        service_class: type = type(service)
        method = None if service is None else _methods(service_class).get(method_name)
        if method is None or denial is not None:
            await skip(source, WireType.STRUCT)
        if denial is not None:
            return _fail(header, ApplicationError.INTERNAL_ERROR, denial)
        if method is None:
            services = ", ".join(self._services)
            text = f"expected SERVICE:METHOD, a method of {services}, got {header.name!r}"
            return _fail(header, ApplicationError.UNKNOWN_METHOD, text)
        arguments = await method.arguments.read(source)
        reply = _call(header, method, getattr(service, method_name), arguments)
        self._on_changed()
        return reply


async def _read_header(source: Source) -> CallHeader:
    (message_type,) = await source.unpack(_TYPE)
    name = (await source.read_string()).decode(errors="backslashreplace")
    (number,) = await source.unpack(_NUMBER)
    return CallHeader(message_type, name, number)


def _call(
    header: CallHeader, method: Method, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> bytes:
    by_name = dict(zip(method.argument_names, arguments, strict=True))
    try:
        if by_name.get(CONTEXT):
            raise SwitchError(f"expected context 0, got {by_name[CONTEXT]}")
        value = function(*arguments)
    except SwitchError as error:
        _LOG.info("%s: %s", header.name, error)
        code = _find_code(error, method.error_codes or {})
        if code is None:
            return _fail(header, ApplicationError.INTERNAL_ERROR, str(error))
        return _reply(header, _EXCEPTION, [_Exception(code)])
    if method.result is None:
        return _reply(header, _NO_RESULT, [])
    return _reply(header, method.result, [value])


def _find_code(error: SwitchError, codes: Mapping[str, int]) -> int | None:
    """Return the code of an error, or None if the method's exception has none that says the same."""
    return codes.get(error.code) if isinstance(error, RuntimeRefusal) else None


def _reply(header: CallHeader, codec: Codec, value: Any) -> bytes:
    return _message(MessageType.REPLY, header, codec, value)


def _fail(header: CallHeader, error: ApplicationError, text: str) -> bytes:
    exception = _ApplicationException(text, error)
    return _message(MessageType.EXCEPTION, header, _APPLICATION_EXCEPTION, exception)


def _message(message_type: MessageType, header: CallHeader, codec: Codec, value: Any) -> bytes:
    name = header.name.rpartition(SEPARATOR)[2].encode()
    out = bytearray(VERSION_1 + _TYPE.pack(message_type) + _NUMBER.pack(len(name)))
    out += name + _NUMBER.pack(header.number)
    codec.write(out, value)
    return bytes(out)


_NO_RESULT = StructCodec("result", [], tuple)


@cache
def _methods(service: type) -> dict[str, Method]:
    functions = inspect.getmembers(service, inspect.isfunction)
    return {name: _describe(function) for name, function in functions if not name.startswith("_")}


def _describe(function: Callable[..., Any]) -> Method:
    hints = get_type_hints(function, include_extras=True)
    returned = hints.pop("return")
    result = None
    if returned is not type(None):
        result = StructCodec("result", [StructField("success", codec_of(returned))], tuple, first_id=0)
    fields = list(fields_of(hints))
    return Method(
        arguments=StructCodec(function.__name__, fields, lambda *values: values),
        argument_names=tuple(field.name for field in fields),
        result=result,
        error_codes=getattr(function, "error_codes", None),
    )
