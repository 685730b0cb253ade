"""Clients in other network namespaces are no users of this machine's, whatever their user ID is."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from softswitch.p4runtime.access import AccessCheck, make_policy
from softswitch.ports.offloads import call_in_namespace
from switch_harness.net import ip
from switch_harness.waiting import PATIENCE_S

pytestmark = pytest.mark.netns
HERE, THERE = "10.9.0.1", "10.9.0.2"


@pytest.mark.parametrize("is_open", [False, True])
def test_root_of_another_namespace_is_denied(stack: ExitStack, is_open: bool) -> None:
    """It connects over a veth; a process of this namespace, to the same address and port, is served."""
    name = f"sw{os.getpid()}other"
    ip("netns", "add", name)
    stack.callback(ip, "netns", "del", name)
    ip("link", "add", "v0", "type", "veth", "peer", "name", "e0", "netns", name)
    ip("addr", "add", f"{HERE}/24", "dev", "v0")
    ip("link", "set", "v0", "up")
    ip("link", "set", "lo", "up")
    ip("-n", name, "addr", "add", f"{THERE}/24", "dev", "e0")
    ip("-n", name, "link", "set", "e0", "up")
    listener = stack.enter_context(socket.create_server(("", 0)))
    port = listener.getsockname()[1]

    def connect() -> socket.socket:
        return socket.create_connection((HERE, port), PATIENCE_S)

    with closing(AccessCheck(make_policy(is_open=is_open))) as check:
        check.listens_at("0.0.0.0", port)
        for client, is_local in (
            (connect(), True),
            (call_in_namespace(Path("/run/netns") / name, connect), False),
        ):
            with client:
                server, (host, number) = listener.accept()
                with server:
                    assert host == (HERE if is_local else THERE)
                    assert (check.denial(f"ipv4:{host}:{number}") is None) == (is_open or is_local)
