"""A switch with SwitchML's or `exact`'s program behind a UDP socket, for workers on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hosts.sockets import Address
from hotline_allreduce.switchml.packet import parse
from packages.allreduce.tests.harness.switchml import SwitchUnderTest

_DATAGRAM_BYTES = 2048


@contextmanager
def serving(switch: SwitchUnderTest, workers: Sequence[Address]) -> Iterator[Address]:
    """Serve workers at these addresses, in this order, in the context; yield the switch's address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        address: Address = sock.getsockname()

        def serve() -> None:
            while True:
                datagram, source = sock.recvfrom(_DATAGRAM_BYTES)
                if not datagram:  # the end
                    return
                for receiver, packet in switch.take(workers.index(source), parse(datagram)):
                    sock.sendto(packet.build(), workers[receiver])

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield address
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closing:
                closing.sendto(b"", address)
            thread.join()


def free_addresses(count: int) -> list[Address]:
    """Return addresses of loopback that no socket has."""
    socks = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for sock in socks:
        sock.bind(("127.0.0.1", 0))
    addresses: list[Address] = [sock.getsockname() for sock in socks]
    for sock in socks:
        sock.close()
    return addresses
