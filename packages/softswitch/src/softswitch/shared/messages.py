"""Messages between a switch's command and the shared process, each a JSON object over SOCK_SEQPACKET."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

MAX_BYTES = 1 << 20
MAX_FDS = 5  # standard streams, network namespace, mount namespace
NAMESPACES = ("net", "mnt")


def send(connection: socket.socket, fds: list[int] | None = None, **message: object) -> None:
    """Send a message with file descriptors; raises OSError, also if it is too long for the socket."""
    socket.send_fds(connection, [json.dumps(message).encode()], fds or [])


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Receive a message with its file descriptors; None at the end of the connection."""
    try:
        octets, fds, _, _ = socket.recv_fds(connection, MAX_BYTES, MAX_FDS)
    except ConnectionError:
        return None
    return (json.loads(octets), list(fds)) if octets else None


def start_request(arguments: list[str]) -> dict[str, object]:
    """Return what a fork has to take over from this process to be the switch that it would be."""
    umask = os.umask(0o77)
    os.umask(umask)
    return {
        "arguments": arguments,
        "folder": os.getcwd(),
        "umask": umask,
        "cpus": sorted(os.sched_getaffinity(0)),
        "environment": dict(os.environ),
    }
