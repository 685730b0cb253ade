"""The client of the service: a `Runtime` whose calls go over gRPC."""

from __future__ import annotations

import inspect
import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import grpc

from softswitch.errors import SwitchError
from softswitch.progress import describe_load
from softswitch.runtime.interface import SERVICE, Runtime

MAX_MESSAGE_BYTES = 128 << 20  # a large table is one response
CONNECT_TIMEOUT_S = 3.0


class _RemoteRuntime:
    """The methods of `Runtime` as RPCs, which raise SwitchError if the switch refuses them."""

    def __init__(self, channel: grpc.Channel, address: str) -> None:
        self._channel = channel
        self._address = address

    def __getattr__(self, name: str) -> Callable[..., object]:
        signature = inspect.signature(getattr(Runtime, name))
        rpc = self._channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=_serialize,
            response_deserializer=json.loads,
        )

        def call(*args: object, **kwargs: object) -> object:
            arguments = dict(signature.bind(self, *args, **kwargs).arguments)
            del arguments["self"]
            try:
                return rpc(arguments)["answer"]
            except grpc.RpcError as error:
                raise self._make_error(error) from None

        setattr(self, name, call)  # so that the next call of this method finds it
        return call

    def _make_error(self, error: grpc.RpcError) -> SwitchError:
        code, details = error.code(), error.details()
        if code is grpc.StatusCode.UNAVAILABLE:
            return SwitchError(f"Error: the switch at {self._address} does not answer")
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return SwitchError(f"Error: the server at {self._address} is not softswitch, or an older version")
        return SwitchError(details)


def _serialize(arguments: dict[str, object]) -> bytes:
    return json.dumps(arguments).encode()


@contextmanager
def connect(address: str) -> Iterator[Runtime]:
    """Connect to the switch whose gRPC server is at HOST:PORT; raises SwitchError if it does not answer."""
    limits = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ]
    with grpc.insecure_channel(address, options=limits) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=CONNECT_TIMEOUT_S)
        except grpc.FutureTimeoutError:
            raise SwitchError(_describe_silence(address)) from None
        yield cast(Runtime, _RemoteRuntime(channel, address))


def _describe_silence(address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except (OSError, ValueError):
        return f"no switch answers at {address}: use --grpc HOST:PORT"
    return (
        f"the server at {address} accepts connections, and has not answered within {CONNECT_TIMEOUT_S:g} s: "
        f"expected a switch, which may be slow ({describe_load()})"
    )
