"""The other side of the service: a switch over gRPC as if it were here."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import grpc

from softswitch.errors import SwitchError
from softswitch.runtime.interface import SERVICE, Runtime

MAX_MESSAGE = 128 << 20  # bytes; a large table is one answer
CONNECT_S = 3.0
"""How long to wait for a switch that does not answer yet."""


class _Remote:
    """Each method of `Runtime` as a call; what a switch refuses is a `SwitchError`."""

    def __init__(self, channel: grpc.Channel, address: str) -> None:
        self._channel = channel
        self._address = address

    def __getattr__(self, name: str) -> Callable[..., Any]:
        signature = inspect.signature(getattr(Runtime, name))
        rpc: Any = self._channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=lambda arguments: json.dumps(arguments).encode(),
            response_deserializer=json.loads,
        )

        def call(*args: Any, **kwargs: Any) -> Any:
            arguments = dict(signature.bind(self, *args, **kwargs).arguments)
            del arguments["self"]
            try:
                return rpc(arguments)["answer"]
            except grpc.RpcError as error:
                raise self._error(error) from None

        setattr(self, name, call)
        return call

    def _error(self, error: grpc.RpcError) -> SwitchError:
        code, details = error.code(), error.details()
        if code is grpc.StatusCode.UNAVAILABLE:
            return SwitchError(f"Error: the switch at {self._address} does not answer")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return SwitchError(f"Error: what answers at {self._address} is no softswitch, or an older one")
        return SwitchError(details)


@contextmanager
def connect(address: str) -> Iterator[Runtime]:
    """The switch whose gRPC server is at HOST:PORT; `SwitchError` where there is none."""
    limits = [("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE)]
    with grpc.insecure_channel(address, options=limits) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=CONNECT_S)
        except grpc.FutureTimeoutError:
            raise SwitchError(f"no switch answers at {address}: --grpc HOST:PORT says where it is") from None
        yield cast(Runtime, _Remote(channel, address))
