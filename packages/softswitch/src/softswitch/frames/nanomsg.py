"""Frames over a PAIR socket of nanomsg, in the messages of BMv2's `--packet-in` (dev_mgr_packet_in.cpp)."""

from __future__ import annotations

import logging
import struct
import threading
from typing import Any

from softswitch.errors import SwitchError
from softswitch.extras import missing_package
from softswitch.frames.ports import FramePorts

_LOG = logging.getLogger(__name__)
_HEADER = struct.Struct("=iii")  # type, port, and argument: length of a frame or status of a port
_INFO_REPLY = struct.Struct("=iiii")  # type, port, requested information, status
# Types of messages.
PORT_ADD, PORT_REMOVE, PORT_SET_STATUS, PACKET_IN, PACKET_OUT, INFO_REQUEST, INFO_REPLY = range(7)
_NOT_SUPPORTED = 1  # status
_BUFFER_MESSAGES = 1024  # in each direction


class Nanomsg:
    name = "nanomsg"

    def __init__(self, address: str) -> None:
        self.address = address
        self._ports: FramePorts
        self._socket: Any = None  # a pynng socket; pynng has no type annotations
        self._thread = threading.Thread(target=self._receive_messages, name="nanomsg", daemon=True)

    def open(self, ports: FramePorts) -> None:
        try:
            import pynng  # optional dependency
        except ImportError as error:
            raise SwitchError(missing_package(error, "--packet-in") or str(error)) from None
        self._ports, self._closed_error, self._full_error = ports, pynng.Closed, pynng.TryAgain
        try:
            self._socket = pynng.Pair0(
                listen=self.address,
                send_buffer_size=_BUFFER_MESSAGES,
                recv_buffer_size=_BUFFER_MESSAGES,
                recv_max_size=0,  # unlimited
            )
        except pynng.NNGException as error:
            raise SwitchError(f"--packet-in {self.address}: {error}") from None
        self._thread.start()

    def send(self, port: int, frame: bytes, tag: int) -> bool:
        return self._send(_HEADER.pack(PACKET_OUT, port, len(frame)) + frame)

    def close(self) -> None:
        self._socket.close()
        self._thread.join()

    def _send(self, message: bytes) -> bool:
        try:
            self._socket.send(message, block=False)
        except (self._full_error, self._closed_error):
            return False
        return True

    def _receive_messages(self) -> None:
        while True:
            try:
                message = self._socket.recv()
            except self._closed_error:
                return
            if len(message) < _HEADER.size:
                _LOG.error("--packet-in: expected %d bytes or more, got %r", _HEADER.size, message)
            else:
                kind, port, argument = _HEADER.unpack_from(message)
                self._handle_message(kind, port, argument, message[_HEADER.size :])

    def _handle_message(self, kind: int, port: int, argument: int, data: bytes) -> None:
        if kind == PACKET_IN:
            self._ports.receive(port, data[:argument])
        elif kind == INFO_REQUEST:
            self._send(_INFO_REPLY.pack(INFO_REPLY, port, argument, _NOT_SUPPORTED))
        elif kind not in (PORT_ADD, PORT_REMOVE, PORT_SET_STATUS):  # every port always exists
            _LOG.error("--packet-in: expected a message of type 0, 1, 2, 3 or 5, got type %d", kind)
