"""UDP sockets as the agents need them: arrival timestamps, no checksum, deep receive buffers."""

from __future__ import annotations

import ctypes
import errno
import logging
import socket
import struct
import time
from collections.abc import Iterable
from typing import NamedTuple

from nativekit.clocks import MIN_STEP_NS

log = logging.getLogger(__name__)

# Linux, <asm-generic/socket.h> and <linux/in.h>; Python's socket module lacks them.
_SO_NO_CHECK = 11
_SO_ATTACH_FILTER = 26
_SO_RCVBUFFORCE = 33
_IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE = 10, 3
SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@ll")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_DATAGRAM_BYTES = 2048
_RECEIVE_BUFFER_BYTES = 16 << 20
_CLOCK_READINGS = 16
_PASSING_ERRORS = {
    errno.EAGAIN, errno.ECONNREFUSED, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.EMSGSIZE, errno.ENETUNREACH,
    errno.ENONET, errno.ENOPROTOOPT, errno.EOPNOTSUPP, errno.EPROTO,
}  # fmt: skip
"""Errors of one call: nothing can be read or sent now, or an ICMP message about an earlier datagram came."""
# Classic BPF, <linux/filter.h>: an instruction is a code, two jump offsets and an operand.
_INSTRUCTION = struct.Struct("HBBI")
_LOAD_16_BITS, _JUMP_IF_EQUAL, _RETURN = 0x28, 0x15, 0x06

Address = tuple[str, int]


class Received(NamedTuple):
    """A datagram, its arrival in the receive queue and its reading (monotonic, ns), and its source."""

    datagram: bytes
    arrival: int
    read: int
    source: Address


def clock_offset() -> int:
    """Return Unix time, as in the kernel's timestamps, minus the monotonic clock of agents, in ns."""
    # A delay between the two readings makes the difference too small, so the largest of several is taken.
    return max(time.time_ns() - time.monotonic_ns() for _ in range(_CLOCK_READINGS))


class StampClock:
    """Converts the kernel's Unix timestamps to monotonic time, as `nativekit.clocks` in compiled code."""

    def __init__(self) -> None:
        self.offset_ns = clock_offset()
        self.offset_since_ns = 0
        """Monotonic time when the last step of the Unix clock was found; no stamp is taken for earlier."""

    def measure(self) -> int:
        """Measure the difference of the clocks; return the monotonic time in ns."""
        unix_ns, now_ns = time.time_ns(), time.monotonic_ns()
        if abs(unix_ns - now_ns - self.offset_ns) >= MIN_STEP_NS:
            self.offset_since_ns = now_ns
        self.offset_ns = unix_ns - now_ns
        return now_ns


def open_udp(address: Address, shared: bool = False, source_port: int | None = None) -> socket.socket:
    """Open a non-blocking socket at `address`; `shared` lets connected sockets bind to it, too.

    With `source_port` the socket drops datagrams from other UDP ports: a switch with service addresses
    verifies the sender only for datagrams that come from the services' port.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        # Frames of local senders have partial checksums, which become invalid when a switch edits the frame.
        sock.setsockopt(socket.SOL_SOCKET, _SO_NO_CHECK, 1)
        # The interface's MTU is valid, whatever ICMP messages say, which any host can forge: a path MTU
        # would split datagrams, and the switch drops fragments.
        sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
        try:
            sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
        except PermissionError:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        if source_port is not None:
            _filter_source_port(sock, source_port)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except BaseException:
        sock.close()
        raise
    return sock


def open_connected_udp(address: Address, peer: Address) -> socket.socket | None:
    """Open a shared socket that takes the datagrams of one peer; return None if this process has too many."""
    try:
        sock = open_udp(address, shared=True)
    except OSError as error:
        log.warning("%s:%d gets no connected socket, and is served by the shared one: %s", *peer, error)
        return None
    sock.connect(peer)
    return sock


def _filter_source_port(sock: socket.socket, port: int) -> None:
    instructions = (
        (_LOAD_16_BITS, 0, 0, 0),  # the source port, at offset 0 of the UDP header
        (_JUMP_IF_EQUAL, 0, 1, port),  # otherwise skip the next instruction
        (_RETURN, 0, 0, 0xFFFF),  # number of bytes to accept
        (_RETURN, 0, 0, 0),  # drop the datagram
    )
    code = b"".join(_INSTRUCTION.pack(*instruction) for instruction in instructions)
    program = ctypes.create_string_buffer(code)
    sock_fprog = struct.pack("HP", len(instructions), ctypes.addressof(program))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, sock_fprog)


def common_port(addresses: Iterable[Address]) -> int | None:
    ports = {port for _, port in addresses}
    return ports.pop() if len(ports) == 1 else None


def send(sock: socket.socket, datagram: bytes | bytearray | memoryview, address: Address) -> None:
    """Send a datagram; if it cannot be sent now, it is dropped, and the caller retransmits it."""
    try:
        sock.sendto(datagram, address)
    except OSError as error:
        if error.errno not in _PASSING_ERRORS:
            raise
        log.debug("a datagram to %s was not sent: %s", address, error)


class Receiver:
    def __init__(self, sock: socket.socket) -> None:
        self._recvmsg = sock.recvmsg
        self._clock = StampClock()

    def receive(self) -> Received | None:
        try:
            datagram, ancillary, _, source = self._recvmsg(_DATAGRAM_BYTES, _ANCILLARY_BYTES)
        except OSError as error:
            if error.errno not in _PASSING_ERRORS:
                raise
            return None
        clock = self._clock
        read = clock.measure()
        if not ancillary:
            return Received(datagram, read, read, source)
        _level, _type, timestamp = ancillary[0]
        seconds, nanoseconds = _TIMESPEC.unpack(timestamp)
        arrival = max(seconds * 1_000_000_000 + nanoseconds - clock.offset_ns, clock.offset_since_ns)
        return Received(datagram, min(arrival, read), read, source)
