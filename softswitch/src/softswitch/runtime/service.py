"""The service over gRPC: a unary call for each method of `interface.Runtime`, in JSON."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, get_type_hints

import grpc
from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.p4runtime.status import Context
from softswitch.runtime.interface import SERVICE, Runtime
from softswitch.runtime.types import check_type

METHODS = [name for name, _ in inspect.getmembers(Runtime, inspect.isfunction) if not name.startswith("_")]
_Handler = Callable[[bytes, Context], Awaitable[bytes]]


def runtime_handlers(
    runtime: asyncio.Future[Runtime], changed: Callable[[], None] = lambda: None
) -> grpc.GenericRpcHandler:
    """What a gRPC server needs to serve the calls, which wait for the `runtime`.

    After each `changed` is called, on the same thread.
    """
    handlers: dict[str, Any] = {
        name: grpc.unary_unary_rpc_method_handler(_handler(runtime, name, changed)) for name in METHODS
    }
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _handler(runtime: asyncio.Future[Runtime], name: str, changed: Callable[[], None]) -> _Handler:
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
        changed()
        return json.dumps({"answer": answer}).encode()

    return handle


@cache
def _signature(method: Callable[..., Any]) -> tuple[inspect.Signature, dict[str, Any]]:
    return inspect.signature(method), get_type_hints(method)
