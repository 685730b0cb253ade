"""UDP sockets as the agents need them: arrival timestamps, no checksum, deep receive buffers."""

from __future__ import annotations

import logging
import socket
import struct
import time
from typing import NamedTuple

log = logging.getLogger(__name__)

# Linux, <asm-generic/socket.h>; Python's socket module lacks them.
_SO_NO_CHECK = 11
_SO_RCVBUFFORCE = 33
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@ll")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_DATAGRAM_BYTES = 2048
_RECEIVE_BUFFER = 16 << 20
_READINGS = 16

Address = tuple[str, int]


class Received(NamedTuple):
    """A datagram with its arrival in the receive queue and its reading, monotonic ns, and its source."""

    datagram: bytes
    arrival: int
    read: int
    source: Address


def clock_offset() -> int:
    """Unix time minus the monotonic clock, ns: the kernel stamps with the one, agents use the other.

    What comes between two readings makes their difference too small: the largest is the nearest.
    """
    return max(time.time_ns() - time.monotonic_ns() for _ in range(_READINGS))


def open_udp(address: Address, shared: bool = False) -> socket.socket:
    """A non-blocking socket bound to `address`; `shared` lets connected sockets bind the same one."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        # Frames of local senders carry partial checksums; edited and turned round, none would arrive.
        sock.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)
        try:
            sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER)
        except PermissionError:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def send(sock: socket.socket, datagram: bytes | bytearray | memoryview, to: Address) -> None:
    """Send a datagram; one that cannot go now is lost, like any other, and its caller sends it again."""
    try:
        sock.sendto(datagram, to)
    except (BlockingIOError, ConnectionRefusedError):
        log.debug("a datagram to %s was not sent", to)


class Receiver:
    """Reads datagrams with their times."""

    def __init__(self, sock: socket.socket, offset: int) -> None:
        self._receive = sock.recvmsg
        self._offset = offset

    def receive(self) -> Received | None:
        """The next datagram, or None when there is none."""
        try:
            datagram, ancillary, _, source = self._receive(_DATAGRAM_BYTES, _ANCILLARY_BYTES)
        except (BlockingIOError, ConnectionRefusedError):  # the latter: ICMP about an earlier datagram
            return None
        read = time.monotonic_ns()
        if not ancillary:
            return Received(datagram, read, read, source)
        seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
        # The two clocks' offset is measured once: a stamp may look as if it came just after the reading.
        arrival = min(seconds * 1_000_000_000 + nanoseconds - self._offset, read)
        return Received(datagram, arrival, read, source)
