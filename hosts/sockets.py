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
    """A datagram, its arrival in the receive queue and its reading (monotonic, ns), and its source."""

    datagram: bytes
    arrival: int
    read: int
    source: Address


def clock_offset() -> int:
    """Return Unix time, which the kernel stamps with, minus the monotonic clock of agents, in ns."""
    # A delay between the two readings makes the difference too small, so the largest of several is taken.
    return max(time.time_ns() - time.monotonic_ns() for _ in range(_READINGS))


def open_udp(address: Address, shared: bool = False) -> socket.socket:
    """Open a non-blocking socket at `address`; `shared` lets connected sockets bind to it, too."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        # Frames of local senders have partial checksums, which become invalid when a switch edits the frame.
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
    """Send a datagram; one that cannot be sent now is lost, and retransmitted by its caller."""
    try:
        sock.sendto(datagram, to)
    except (BlockingIOError, ConnectionRefusedError):
        log.debug("a datagram to %s was not sent", to)


class Receiver:
    """A reader of datagrams with their arrival times."""

    def __init__(self, sock: socket.socket, offset: int) -> None:
        self._receive = sock.recvmsg
        self._offset = offset

    def receive(self) -> Received | None:
        """Return the next datagram, or None if none waits."""
        try:
            datagram, ancillary, _, source = self._receive(_DATAGRAM_BYTES, _ANCILLARY_BYTES)
        except (BlockingIOError, ConnectionRefusedError):  # the latter: ICMP about an earlier datagram
            return None
        read = time.monotonic_ns()
        if not ancillary:
            return Received(datagram, read, read, source)
        seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2])
        # As the offset of the clocks is measured once, a stamp may seem later than the reading.
        arrival = min(seconds * 1_000_000_000 + nanoseconds - self._offset, read)
        return Received(datagram, arrival, read, source)
