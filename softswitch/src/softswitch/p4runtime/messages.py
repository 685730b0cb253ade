"""P4Runtime's messages and its gRPC service: the only module that says where they come from.

They are made of P4Runtime's compiled .proto files (`messages.binpb`, by `scripts/p4runtime-messages`) in a
descriptor pool of their own. Generated code would register in protobuf's global pool, where packages that
bring P4Runtime or google.rpc are in each other's way: finsy, googleapis-common-protos, and PyPI's p4runtime,
which no protobuf since 4.21 loads. So these classes are not finsy's, which only lends its type hints; `adopt`
turns the messages of others into these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, cast

import grpc
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

FILE = Path(__file__).with_name("messages.binpb")
"""A `FileDescriptorSet` in binary form, each file after those that it imports."""

M = TypeVar("M", bound=Message)
_SERVICE = "p4.v1.P4Runtime"
_KINDS = {(False, False): "unary_unary", (False, True): "unary_stream", (True, True): "stream_stream"}
"""gRPC's names of RPCs, by whether the client and whether the server streams."""


def _load() -> DescriptorPool:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(FILE.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _messages(file: str) -> Any:
    """The messages of a .proto file, by name."""
    descriptors = _POOL.FindFileByName(file).message_types_by_name
    return SimpleNamespace(**{name: _message(descriptor) for name, descriptor in descriptors.items()})


def _message(descriptor: Descriptor) -> Any:
    """A message's class, which has those inside it as attributes: protobuf's own Python gives it none."""
    kind = GetMessageClass(descriptor)
    for name, inner in descriptor.nested_types_by_name.items():
        if not hasattr(kind, name):
            setattr(kind, name, _message(inner))
    return kind


def adopt(message: M) -> M:
    """The same message as an instance of the class here, whoever made it."""
    kind = GetMessageClass(_POOL.FindMessageTypeByName(message.DESCRIPTOR.full_name))
    return cast(M, kind.FromString(message.SerializeToString()))


def method_handlers(
    servicer: object, requests: Mapping[str, Callable[[bytes], Any]] = {}
) -> grpc.GenericRpcHandler:
    """What a gRPC server needs to serve P4Runtime by `servicer`, which has a method of each RPC's name.

    `requests` are of RPCs whose requests are to be something else than messages.
    """
    handlers = {}
    for rpc in _POOL.FindServiceByName(_SERVICE).methods:
        make = getattr(grpc, f"{_KINDS[rpc.client_streaming, rpc.server_streaming]}_rpc_method_handler")
        handlers[rpc.name] = make(
            getattr(servicer, rpc.name),
            request_deserializer=requests.get(rpc.name, GetMessageClass(rpc.input_type).FromString),
            response_serializer=GetMessageClass(rpc.output_type).SerializeToString,
        )
    return grpc.method_handlers_generic_handler(_SERVICE, handlers)


def client_methods(channel: grpc.Channel) -> Any:
    """P4Runtime's RPCs over a channel, by name: what generated code calls a stub."""
    methods = {}
    for rpc in _POOL.FindServiceByName(_SERVICE).methods:
        kind = _KINDS[rpc.client_streaming, rpc.server_streaming]
        methods[rpc.name] = getattr(channel, kind)(
            f"/{_SERVICE}/{rpc.name}",
            request_serializer=GetMessageClass(rpc.input_type).SerializeToString,
            response_deserializer=GetMessageClass(rpc.output_type).FromString,
        )
    return SimpleNamespace(**methods)


_POOL = _load()

if TYPE_CHECKING:
    from finsy.proto import p4d, p4i, p4r, p4t, rpc_status
else:
    p4d = _messages("p4/v1/p4data.proto")
    p4i = _messages("p4/config/v1/p4info.proto")
    p4r = _messages("p4/v1/p4runtime.proto")
    p4t = _messages("p4/config/v1/p4types.proto")
    rpc_status = _messages("google/rpc/status.proto")

__all__ = ["FILE", "adopt", "client_methods", "method_handlers", "p4d", "p4i", "p4r", "p4t", "rpc_status"]
