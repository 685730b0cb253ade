"""P4Runtime's messages and its gRPC service.

They are created from P4Runtime's compiled .proto files (`messages.binpb`, by Hotline's
`tools/scripts/p4runtime-messages`) in a separate descriptor pool. Generated code would register in protobuf's
global pool, and conflict there with other packages that have P4Runtime or google.rpc: finsy,
googleapis-common-protos, and PyPI's p4runtime, which protobuf 4.21 and later cannot load. So these classes
are not finsy's, which only provides type hints; `adopt` converts messages of other classes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast

import grpc
from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

DESCRIPTORS_FILE = Path(__file__).with_name("messages.binpb")
"""A serialized `FileDescriptorSet`, with each file after those that it imports."""

M = TypeVar("M", bound=Message)
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
_SERVICE = "p4.v1.P4Runtime"
# By whether the client and the server send streams.
_RPC_KINDS = {(False, False): "unary_unary", (False, True): "unary_stream", (True, True): "stream_stream"}


def _load_pool() -> DescriptorPool:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(DESCRIPTORS_FILE.read_bytes()).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _message_classes(file: str) -> Any:  # a namespace of generated classes
    descriptors = _POOL.FindFileByName(file).message_types_by_name
    return SimpleNamespace(**{name: _message_class(descriptor) for name, descriptor in descriptors.items()})


def _message_class(descriptor: Descriptor) -> Any:  # a generated class
    message_class = GetMessageClass(descriptor)
    for name, nested in descriptor.nested_types_by_name.items():
        if not hasattr(message_class, name):
            setattr(message_class, name, _message_class(nested))
    return message_class


def adopt(message: M) -> M:
    """Convert a message of another class for the same type, finsy's for example, to this module's class."""
    message_class = GetMessageClass(_POOL.FindMessageTypeByName(message.DESCRIPTOR.full_name))
    return cast(M, message_class.FromString(message.SerializeToString()))


def method_handlers(
    servicer: object, request_parsers: Mapping[str, Callable[[bytes], object]] = {}
) -> grpc.GenericRpcHandler:
    """Return the handlers of a gRPC server; `servicer` has a coroutine method for each RPC.

    A method that answers with a stream writes to its context.

    `request_parsers` replace protobuf's deserializers of requests, by RPC. Bytes that cannot be parsed end
    the call with INVALID_ARGUMENT; in a stream of requests they raise DecodeError.
    """
    handlers = {}
    for rpc in _POOL.FindServiceByName(_SERVICE).methods:
        make_handler = getattr(
            grpc, f"{_RPC_KINDS[rpc.client_streaming, rpc.server_streaming]}_rpc_method_handler"
        )
        parse = request_parsers.get(rpc.name, GetMessageClass(rpc.input_type).FromString)
        handlers[rpc.name] = make_handler(
            _with_parser(getattr(servicer, rpc.name), parse, rpc),
            response_serializer=GetMessageClass(rpc.output_type).SerializeToString,
        )
    return grpc.method_handlers_generic_handler(_SERVICE, handlers)


def _with_parser(method: Any, parse: Callable[[bytes], object], rpc: MethodDescriptor) -> Any:
    """Make `method` parse its requests from bytes: gRPC would answer UNKNOWN to malformed bytes."""

    async def parse_request(data: bytes, context: Context) -> object:
        try:
            return parse(data)
        except DecodeError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, _describe_malformed(rpc, error))

    async def parse_requests(stream: AsyncIterator[bytes]) -> AsyncIterator[object]:
        # The method ends the call, since it may be writing answers to earlier requests.
        async for data in stream:
            try:
                yield parse(data)
            except DecodeError as error:
                raise DecodeError(_describe_malformed(rpc, error)) from None

    async def handle_request(data: bytes, context: Context) -> object:
        return await method(await parse_request(data, context), context)

    async def handle_requests(stream: AsyncIterator[bytes], context: Context) -> None:
        await method(parse_requests(stream), context)

    return handle_requests if rpc.client_streaming else handle_request


def _describe_malformed(rpc: MethodDescriptor, error: DecodeError) -> str:
    return f"cannot parse the {rpc.name} request: {error}"


def client_methods(channel: grpc.Channel) -> Any:  # a namespace of gRPC's callables
    """Return P4Runtime's RPCs over a channel as attributes, like a generated stub."""
    methods = {}
    for rpc in _POOL.FindServiceByName(_SERVICE).methods:
        rpc_kind = _RPC_KINDS[rpc.client_streaming, rpc.server_streaming]
        methods[rpc.name] = getattr(channel, rpc_kind)(
            f"/{_SERVICE}/{rpc.name}",
            request_serializer=GetMessageClass(rpc.input_type).SerializeToString,
            response_deserializer=GetMessageClass(rpc.output_type).FromString,
        )
    return SimpleNamespace(**methods)


_POOL = _load_pool()

if TYPE_CHECKING:
    from finsy.proto import p4d, p4i, p4r, p4t, rpc_status
else:
    p4d = _message_classes("p4/v1/p4data.proto")
    p4i = _message_classes("p4/config/v1/p4info.proto")
    p4r = _message_classes("p4/v1/p4runtime.proto")
    p4t = _message_classes("p4/config/v1/p4types.proto")
    rpc_status = _message_classes("google/rpc/status.proto")

__all__ = ["p4d", "p4i", "p4r", "p4t", "rpc_status"]
