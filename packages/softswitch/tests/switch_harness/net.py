"""A network namespace of veth pairs: one end of each is the switch's, the other the test's."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from switch_harness.waiting import PATIENCE_S

CLONE_NEWNET = 0x40000000
SOL_PACKET, PACKET_STATISTICS, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 6, 8, 23
ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
ETHERNET = bytes.fromhex("020000000002 020000000001 0800")
VLAN = bytes.fromhex("81002007")


CPU = 255


def addressed(port: int, source: int) -> bytes:
    return port.to_bytes(2, "big") + frame(source)


def frame(number: int = 0, size: int = 60) -> bytes:
    return ETHERNET + number.to_bytes(4, "big") + bytes(size - len(ETHERNET) - 4)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Net:
    """Pairs `s<port>` (the switch's) and `h<port>` (the test's), and a raw socket on each of the latter."""

    def __init__(
        self, stack: ExitStack, ports: range, mtu: int = 1500, indices: Mapping[int, int] = {}
    ) -> None:
        """Make the interfaces; `indices` of switch's ends are by port, others are the kernel's choice."""
        self.hosts: dict[int, socket.socket] = {}
        for port in ports:
            index = ("index", str(indices[port])) if port in indices else ()
            ip("link", "add", f"s{port}", *index, "mtu", str(mtu), "type", "veth", "peer", "name", f"h{port}")
            ip("link", "set", f"h{port}", "mtu", str(mtu), "up")
            ip("link", "set", f"s{port}", "up")
            host = stack.enter_context(
                socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            )
            host.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            host.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
            host.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 23)
            host.settimeout(PATIENCE_S)
            host.bind((f"h{port}", 0))
            self.hosts[port] = host
        self.names = {port: f"s{port}" for port in ports}


@contextmanager
def namespace() -> Iterator[None]:
    """Put this thread into a new network namespace, which vanishes with its last socket, and onto one CPU.

    A veth queues frames by the CPU that they are sent from. So those of a thread, of the test or of the
    ports, keep their order only as long as it stays there.
    """
    usable = os.sched_getaffinity(0)
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net") as home:
        assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            for scope in ("all", "default"):  # no frames but the test's
                Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("1")
            os.sched_setaffinity(0, {sorted(usable)[os.getpid() % len(usable)]})
            yield
        finally:
            os.sched_setaffinity(0, usable)
            assert libc.setns(home.fileno(), CLONE_NEWNET) == 0


class Arrived:
    def __init__(self, interface: str) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.bind((interface, 0))
        self._count = 0

    def __enter__(self) -> Arrived:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def has_had(self, number: int) -> bool:
        """Whether exactly so many frames have arrived."""
        return self.count() == number

    def count(self) -> int:
        """Frames until now, whether or not the socket had room for them."""
        statistics = self._socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        self._count += int.from_bytes(statistics[:4], "little")  # the kernel counts from 0 again
        return self._count
