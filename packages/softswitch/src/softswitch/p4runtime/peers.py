"""The user at the other end of a TCP connection between two sockets of this network namespace.

The kernel is asked for the client's socket by both ends' addresses (sock_diag(7), some 10 µs). Where it has
no inet_diag, or the server's address is not known, /proc/net/tcp is searched.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h, net/tcp_states.h
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_ESTABLISHED, _ALL_STATES, _NO_COOKIE = 1, 0xFFFFFFFF, 0xFFFFFFFF
_HEADER = struct.Struct("IHHII")  # struct nlmsghdr: length, type, flags, sequence number, port
_REQUEST = struct.Struct("BBBBI")  # struct inet_diag_req_v2: family, protocol, and the states to find
_PORTS = struct.Struct(">HH")  # of struct inet_diag_sockid, as those below: source and destination port
_ADDRESSES = struct.Struct("16s16sIII")  # source, destination, interface, cookie
_ANSWER = struct.Struct("BBBB48xIIIII")  # struct inet_diag_msg: family, state, …, uid, inode
_MAX_ANSWER_BYTES = 4096
_TIMEOUT_S = 1.0
_PROC, _PROC_FILES = Path("/proc/thread-self/net"), ("tcp", "tcp6")


class Endpoint(NamedTuple):
    address: Address
    port: int


def parse_peer(peer: str) -> Endpoint | None:
    """Parse gRPC's name of a peer, such as ipv4:127.0.0.1:4711; None if it is no TCP endpoint."""
    kind, _, rest = peer.partition(":")
    host, _, port = unquote(rest).rpartition(":")
    if kind not in ("ipv4", "ipv6") or not port.isdecimal():
        return None
    try:
        return Endpoint(_unmapped(ipaddress.ip_address(host.strip("[]").partition("%")[0])), int(port))
    except ValueError:
        return None


def _unmapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, if any."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


class PeerUsers:
    """Finds the users of clients; thread-safe. It sees the network namespace in which it was created."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests = 0
        self._netlink: socket.socket | None = None
        with contextlib.suppress(OSError):  # a kernel without it: /proc/net/tcp has the same
            self._netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)
            self._netlink.settimeout(_TIMEOUT_S)

    def close(self) -> None:
        if self._netlink is not None:
            self._netlink.close()

    def find_uid(self, client: Endpoint, servers: Iterable[Endpoint]) -> int | None:
        """Return the user ID of a client's open socket; None if this namespace has no such socket.

        `servers` are the endpoints at which the client may be connected, of which the address may be 0.0.0.0
        or :: for any.
        """
        endpoints = list(servers)
        for server in endpoints:
            # A client of this machine mostly has the address that it connects to.
            address = client.address if server.address.is_unspecified else server.address
            if address.version == client.address.version:
                uid = self._ask_kernel(client, Endpoint(address, server.port))
                if uid is not None:
                    return uid
        return self._search_proc(client, endpoints)

    def _ask_kernel(self, client: Endpoint, server: Endpoint) -> int | None:
        if self._netlink is None:
            return None
        family = socket.AF_INET if client.address.version == 4 else socket.AF_INET6
        body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
        body += _PORTS.pack(client.port, server.port)
        body += _ADDRESSES.pack(client.address.packed, server.address.packed, 0, _NO_COOKIE, _NO_COOKIE)
        with self._lock:
            try:
                answer = self._exchange(self._netlink, body)
            except OSError:
                return None
        _, answer_type, *_ = _HEADER.unpack_from(answer)
        if answer_type != _SOCK_DIAG_BY_FAMILY:  # an error: there is no such socket, or no inet_diag
            return None
        _, state, _, _, _, _, _, uid, inode = _ANSWER.unpack_from(answer, _HEADER.size)
        return uid if _is_open(state, inode) else None

    def _exchange(self, netlink: socket.socket, body: bytes) -> bytes:
        """Send a request, and return its own answer: never that of one whose wait has timed out."""
        self._requests = (self._requests + 1) % (1 << 32)
        size = _HEADER.size + len(body)
        netlink.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, self._requests, 0) + body)
        while True:
            answer = netlink.recv(_MAX_ANSWER_BYTES)
            _, _, _, number, _ = _HEADER.unpack_from(answer)
            if number == self._requests:
                return answer

    def _search_proc(self, client: Endpoint, servers: Iterable[Endpoint]) -> int | None:
        for found_client, found_server, uid in self._proc_sockets():
            if found_client == client and any(
                found_server.port == server.port
                and (server.address.is_unspecified or server.address == found_server.address)
                for server in servers
            ):
                return uid
        return None

    def _proc_sockets(self) -> Iterator[tuple[Endpoint, Endpoint, int]]:
        """Yield the local and the remote endpoint of each open connection, and its user."""
        for name in _PROC_FILES:
            try:
                lines = (_PROC / name).read_text().splitlines()[1:]
            except OSError:  # without IPv6
                continue
            for line in lines:
                _, local, remote, state, _, _, _, uid, _, inode, *_ = line.split()
                if _is_open(int(state, 16), int(inode)):
                    yield _parse_proc(local), _parse_proc(remote), int(uid)


def _is_open(state: int, inode: int) -> bool:
    """Return whether a process has the socket: one that it has closed is shown as root's."""
    return state == _ESTABLISHED and inode != 0


def _parse_proc(text: str) -> Endpoint:
    address, port = text.split(":")
    words = [bytes.fromhex(address[start : start + 8]) for start in range(0, len(address), 8)]
    # Words of 32 bits in the byte order of the machine.
    packed = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return Endpoint(_unmapped(ipaddress.ip_address(packed)), int(port, 16))
