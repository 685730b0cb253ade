"""veth pairs for one test: the switch opens `NAME-s`, the test sends and receives on `NAME-t`."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23
ETH_P_ALL = 3


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def veth_pairs(prefix: str, ports: range) -> Iterator[dict[int, socket.socket]]:
    """Pairs `<prefix><port>-s` and `-t`; yields a raw socket a port. All gone afterwards."""
    with ExitStack() as stack:
        sockets: dict[int, socket.socket] = {}
        for port in ports:
            ends = f"{prefix}{port}-s", f"{prefix}{port}-t"
            _ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
            stack.callback(_ip, "link", "del", ends[0])
            for end in ends:
                Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
                _ip("link", "set", end, "up")
            # A protocol only with the interface: till then it would take the frames of all interfaces.
            sock = stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
            sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
            sock.bind((ends[1], ETH_P_ALL))
            sockets[port] = sock
        yield sockets
