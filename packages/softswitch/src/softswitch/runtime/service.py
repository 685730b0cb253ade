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

from softswitch.errors import NESTED_TOO_DEEPLY, SwitchError
from softswitch.p4runtime.messages import Context
from softswitch.p4runtime.status import abort
from softswitch.runtime.interface import SERVICE, Runtime

METHODS = [name for name, _ in inspect.getmembers(Runtime, inspect.isfunction) if not name.startswith("_")]
_Handler = Callable[[bytes, Context], Awaitable[bytes]]


def runtime_handlers(
    runtime: asyncio.Future[Runtime], on_changed: Callable[[], None] = lambda: None
) -> grpc.GenericRpcHandler:
    """Return gRPC handlers that wait for `runtime`, and call `on_changed` on their thread after each RPC."""
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        name: grpc.unary_unary_rpc_method_handler(_make_handler(runtime, name, on_changed))
        for name in METHODS
    }
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _make_handler(runtime: asyncio.Future[Runtime], name: str, on_changed: Callable[[], None]) -> _Handler:
    async def handle(request: bytes, context: Context) -> bytes:
        method = getattr(await asyncio.shield(runtime), name)
        signature, types = _get_signature(method)
        try:
            bound_arguments = signature.bind(**json.loads(request or b"{}"))
            for argument, value in bound_arguments.arguments.items():
                check_type(value, types[argument], argument)
        except RecursionError:
            await abort(context, StatusCode.INVALID_ARGUMENT, f"Error: the request: {NESTED_TOO_DEEPLY}")
        except (TypeError, ValueError) as error:
            await abort(context, StatusCode.INVALID_ARGUMENT, f"Error: {method.__name__}: {error}")
        try:
            answer = method(**bound_arguments.arguments)
        except SwitchError as error:
            await abort(context, StatusCode.FAILED_PRECONDITION, str(error))
        on_changed()
        return json.dumps({"answer": answer}).encode()

    return handle


@cache
def _get_signature(method: Callable[..., object]) -> tuple[inspect.Signature, dict[str, object]]:
    return inspect.signature(method), get_type_hints(method)


def check_type(value: object, type_hint: Any, name: str) -> None:  # a type expression
    """Raise TypeError unless a JSON value has this type: a class, a list, an optional, or a `TypedDict`."""
    if get_origin(type_hint) is UnionType:
        if value is None and NoneType in get_args(type_hint):
            return
        (type_hint,) = (element for element in get_args(type_hint) if element is not NoneType)
    if get_origin(type_hint) is list:
        if not isinstance(value, list):
            raise TypeError(f"{name}: expected a list, got {value!r}")
        for element in value:
            check_type(element, get_args(type_hint)[0], name)
    elif is_typeddict(type_hint):
        _check_fields(value, type_hint, name)
    elif not isinstance(value, (int, float) if type_hint is float else type_hint) or (
        isinstance(value, bool) and type_hint is not bool
    ):
        raise TypeError(f"{name}: expected {type_hint.__name__}, got {value!r}")


def _check_fields(value: object, type_hint: Any, name: str) -> None:  # a `TypedDict`
    fields = get_type_hints(type_hint)
    if not isinstance(value, dict) or value.keys() - fields or type_hint.__required_keys__ - value.keys():
        raise TypeError(f"{name}: expected an object with {', '.join(fields)}, got {value!r}")
    for field_name, field_value in value.items():
        check_type(field_value, fields[field_name], f"{name}.{field_name}")
