"""The service over gRPC: a unary call for each method of `interface.Runtime`, in JSON."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import grpc
from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.p4runtime.status import Context
from softswitch.runtime.interface import SERVICE, Runtime

METHODS = [name for name, _ in inspect.getmembers(Runtime, inspect.isfunction) if not name.startswith("_")]
_Handler = Callable[[bytes, Context], Awaitable[bytes]]


def runtime_handlers(
    runtime: asyncio.Future[Runtime], on_changed: Callable[[], None] = lambda: None
) -> grpc.GenericRpcHandler:
    """Return gRPC handlers that wait for `runtime`, and call `on_changed` on their thread after each RPC."""
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        name: grpc.unary_unary_rpc_method_handler(_handler(runtime, name, on_changed)) for name in METHODS
    }
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _handler(runtime: asyncio.Future[Runtime], name: str, on_changed: Callable[[], None]) -> _Handler:
    async def handle(request: bytes, context: Context) -> bytes:
        method = getattr(await asyncio.shield(runtime), name)
        signature, kinds = _signature(method)
        try:
            bound = signature.bind(**json.loads(request or b"{}"))
            for argument, value in bound.arguments.items():
                check_type(value, kinds[argument], argument)
        except (TypeError, ValueError) as error:
            await context.abort(StatusCode.INVALID_ARGUMENT, f"Error: {method.__name__}: {error}")
        try:
            answer = method(**bound.arguments)
        except SwitchError as error:
            await context.abort(StatusCode.FAILED_PRECONDITION, str(error))
        on_changed()
        return json.dumps({"answer": answer}).encode()

    return handle


@cache
def _signature(method: Callable[..., object]) -> tuple[inspect.Signature, dict[str, object]]:
    return inspect.signature(method), get_type_hints(method)


def check_type(value: object, kind: Any, name: str) -> None:  # a type expression
    """Raise TypeError unless a JSON value has type `kind`: a class, a list, an optional, or a `TypedDict`."""
    if get_origin(kind) is UnionType:
        if value is None and NoneType in get_args(kind):
            return
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is list:
        if not isinstance(value, list):
            raise TypeError(f"{name}: expected a list, got {value!r}")
        for each in value:
            check_type(each, get_args(kind)[0], name)
    elif is_typeddict(kind):
        _check_fields(value, kind, name)
    elif not isinstance(value, (int, float) if kind is float else kind) or (
        isinstance(value, bool) and kind is not bool
    ):
        raise TypeError(f"{name}: expected {kind.__name__}, got {value!r}")


def _check_fields(value: object, kind: Any, name: str) -> None:  # a `TypedDict`
    fields = get_type_hints(kind)
    if not isinstance(value, dict) or value.keys() - fields or kind.__required_keys__ - value.keys():
        raise TypeError(f"{name}: expected an object with {', '.join(fields)}, got {value!r}")
    for key, each in value.items():
        check_type(each, fields[key], f"{name}.{key}")
