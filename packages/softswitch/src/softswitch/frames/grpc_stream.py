"""Frames over gRPC: BMv2's service `p4.bm.DataplaneInterface`, for one client at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from grpc import StatusCode

from softswitch.errors import SwitchError
from softswitch.frames.dataplane import SERVICE, STATUS_DOWN, STATUS_UP, Empty, Packet, PortStatus
from softswitch.frames.ports import FramePorts
from softswitch.p4runtime.access import AccessCheck, AccessPolicy, CheckedHandlers, make_policy

MAX_QUEUED_FRAMES = 4096
"""Frames that wait for a client; while there are more, the client's own frames are not read."""
_THREADS = 4  # for the stream, clients that are refused, and changes of port status


class FrameQueue:
    """Frames that wait for a client, until `end`."""

    def __init__(self) -> None:
        self._frames: deque[Any] = deque()
        self._changed = threading.Condition()
        self._has_ended = False

    def __len__(self) -> int:
        return len(self._frames)

    def put(self, frame: Any) -> bool:
        """Add a frame, unless twice the maximum wait; return whether it was added."""
        with self._changed:
            if self._has_ended or len(self._frames) >= 2 * MAX_QUEUED_FRAMES:
                return False
            self._frames.append(frame)
            self._changed.notify_all()
            return True

    def wait_for_room(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._has_ended or len(self._frames) < MAX_QUEUED_FRAMES)

    def __iter__(self) -> Iterator[Any]:
        """Take the frames, and wait for the next, until the queue has ended and is empty."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._has_ended or len(self._frames) > 0)
                if not self._frames:
                    return
                frame = self._frames.popleft()
                self._changed.notify_all()
            yield frame

    def end(self) -> None:
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()


class GrpcStream:
    """Serve DataplaneInterface at HOST:PORT; `open` replaces port 0 in `address` by the actual one.

    `access` says who may call; the default is `make_policy()`.
    """

    name = "gRPC"

    def __init__(self, address: str, device_id: int, access: AccessPolicy | None = None) -> None:
        self.address, self._device_id = address, device_id
        self._access = make_policy() if access is None else access
        self._check: AccessCheck
        self._lock = threading.Lock()
        self._responses: FrameQueue | None = None  # to the client
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
        self._check = AccessCheck(self._access)
        service = grpc.method_handlers_generic_handler(SERVICE, handlers)
        self._server.add_generic_rpc_handlers((CheckedHandlers(service, self._check, is_async=False),))
        try:
            port = self._server.add_insecure_port(self.address)
        except RuntimeError:  # gRPC gives no reason
            self._check.close()
            raise SwitchError(
                f"--dp-grpc-server-addr {self.address}: cannot listen there: expected a free HOST:PORT"
            ) from None
        host = self.address.rpartition(":")[0]
        self._check.listens_at(host, port)
        self.address = f"{host}:{port}"
        self._server.start()

    def send(self, port: int, frame: bytes, tag: int) -> bool:
        with self._lock:
            if self._responses is None:
                return False
            return self._responses.put(Packet(id=tag, device_id=self._device_id, port=port, packet=frame))

    def close(self) -> None:
        self._server.stop(grace=None).wait()
        self._check.close()

    def _stream(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Iterator[Any]:
        if not self._ports.started.is_set():
            context.abort(StatusCode.UNAVAILABLE, "not ready: no program runs")
        responses = FrameQueue()
        with self._lock:
            if self._responses is not None:
                context.abort(StatusCode.RESOURCE_EXHAUSTED, "only one client authorized at a time")
            self._responses = responses
        context.add_callback(responses.end)  # when the client disconnects
        reader = threading.Thread(target=self._read, args=(requests, responses), daemon=True)
        reader.start()
        try:
            yield from responses
        finally:
            with self._lock:
                self._responses = None

    def _read(self, requests: Iterator[Any], responses: FrameQueue) -> None:
        try:
            for request in requests:
                responses.wait_for_room()
                if request.device_id == self._device_id and request.packet:
                    self._ports.receive(request.port, request.packet, request.id)
        except grpc.RpcError:  # the client has disconnected
            pass
        finally:
            responses.end()

    def _set_port_status(self, request: Any, context: grpc.ServicerContext) -> Any:
        if request.device_id != self._device_id:
            context.abort(StatusCode.INVALID_ARGUMENT, "Invalid device id")
        if request.oper_status not in (STATUS_DOWN, STATUS_UP):
            context.abort(StatusCode.INVALID_ARGUMENT, "Invalid oper status")
        self._ports.set_link_state(request.port, request.oper_status == STATUS_UP)
        return Empty()
