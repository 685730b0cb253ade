"""Frames over gRPC: BMv2's service `p4.bm.DataplaneInterface`, for one client at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import grpc
from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.frames.dataplane import SERVICE, STATUS_DOWN, STATUS_UP, Empty, Packet, PortStatus
from softswitch.frames.ports import FramePorts

_THREADS = 4  # for the stream, clients that are refused, and changes of port status


class GrpcStream:
    """Serve DataplaneInterface at HOST:PORT; `open` replaces port 0 in `address` by the actual one."""

    name = "gRPC"

    def __init__(self, address: str, device_id: int) -> None:
        self.address, self._device_id = address, device_id
        self._lock = threading.Lock()
        self._responses: SimpleQueue[Any] | None = None  # to the client; an item None ends the stream
        self._ports: FramePorts
        # Without SO_REUSEPORT, `open` fails if the port is in use.
        self._server = grpc.server(ThreadPoolExecutor(_THREADS), options=[("grpc.so_reuseport", 0)])

    def open(self, ports: FramePorts) -> None:
        self._ports = ports
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "PacketStream": grpc.stream_stream_rpc_method_handler(
                self._stream, Packet.FromString, Packet.SerializeToString
            ),
            "SetPortOperStatus": grpc.unary_unary_rpc_method_handler(
                self._set_port_status, PortStatus.FromString, Empty.SerializeToString
            ),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        try:
            port = self._server.add_insecure_port(self.address)
        except RuntimeError:  # gRPC gives no reason
            raise SwitchError(
                f"--dp-grpc-server-addr {self.address}: cannot listen there: expected a free HOST:PORT"
            ) from None
        self.address = f"{self.address.rpartition(':')[0]}:{port}"
        self._server.start()

    def send(self, port: int, frame: bytes, tag: int) -> bool:
        with self._lock:
            if self._responses is None:
                return False
            self._responses.put(Packet(id=tag, device_id=self._device_id, port=port, packet=frame))
        return True

    def close(self) -> None:
        self._server.stop(grace=None).wait()

    def _stream(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        if not self._ports.started.is_set():
            context.abort(StatusCode.UNAVAILABLE, "not ready: no program runs")
        responses: SimpleQueue[Any] = SimpleQueue()
        with self._lock:
            if self._responses is not None:
                context.abort(StatusCode.RESOURCE_EXHAUSTED, "only one client authorized at a time")
            self._responses = responses
        reader = threading.Thread(target=self._read, args=(requests, responses), daemon=True)
        reader.start()
        try:
            yield from iter(responses.get, None)
        finally:
            with self._lock:
                self._responses = None

    def _read(self, requests: Iterator[Any], responses: SimpleQueue[Any]) -> None:
        try:
            for request in requests:
                if request.device_id == self._device_id and request.packet:
                    self._ports.receive(request.port, request.packet, request.id)
        except grpc.RpcError:  # the client has disconnected
            pass
        finally:
            responses.put(None)

    def _set_port_status(self, request: Any, context: grpc.ServicerContext) -> Any:
        if request.device_id != self._device_id:
            context.abort(StatusCode.INVALID_ARGUMENT, "Invalid device id")
        if request.oper_status not in (STATUS_DOWN, STATUS_UP):
            context.abort(StatusCode.INVALID_ARGUMENT, "Invalid oper status")
        self._ports.set_link_state(request.port, request.oper_status == STATUS_UP)
        return Empty()
