"""Rates and depths of BMv2's queues, which it takes over Thrift alone (its simple_switch.thrift).

As much of Thrift's binary protocol as these calls need: https://thrift.apache.org/docs/thrift-rpc
"""

from __future__ import annotations

import socket
import struct

from switch_harness.waiting import PATIENCE_S

_VERSION, _CALL, _REPLY = 0x80010000, 1, 2
_I32, _I64, _STOP = 8, 10, b"\0"


class Bmv2Queues:
    """The queues of a BMv2 whose Thrift server listens at a port of the loopback."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self._stream = self._socket.makefile("rb")

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def set_rate(self, port: int, packets: int) -> None:
        """Set the rate of each priority, in packets/s."""
        self._call("set_egress_queue_rate", struct.pack(">bhibhq", _I32, 1, port, _I64, 2, packets))

    def set_depth(self, port: int, packets: int) -> None:
        self._call("set_egress_queue_depth", struct.pack(">bhibhi", _I32, 1, port, _I32, 2, packets))

    def _call(self, method: str, arguments: bytes) -> None:
        name = f"simple_switch:{method}".encode()
        head = struct.pack(f">Ii{len(name)}si", _VERSION | _CALL, len(name), name, 0)
        self._socket.sendall(head + arguments + _STOP)
        kind, length = struct.unpack(">Ii", self._read(8))
        self._read(length + 4)  # the method, without its service, and the call's number
        assert kind == _VERSION | _REPLY, f"BMv2 refuses {method}"
        assert self._read(8) == struct.pack(">bhib", _I32, 0, 0, 0), f"{method} failed"

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        assert len(data) == size, "BMv2 has closed its Thrift connection"
        return data
