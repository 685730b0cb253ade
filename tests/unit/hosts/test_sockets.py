"""The agents' sockets."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from hosts.sockets import Receiver, common_port, open_udp

HOST = "127.0.0.1"


@pytest.mark.parametrize("size", [0, 1, 1_400])
def test_a_connected_socket_receives_from_one_port_only(size: int) -> None:
    """A forged answer from a port that no switch checks does not reach an agent."""
    with ExitStack() as stack:
        service, stranger = (stack.enter_context(open_udp((HOST, 0))) for _ in range(2))
        port = service.getsockname()[1]
        agent = stack.enter_context(open_udp((HOST, 0), source_port=port))
        for sender, mark in ((stranger, b"f"), (service, b"s"), (stranger, b"f")):
            sender.sendto(mark * size, agent.getsockname())
        receiver = Receiver(agent)
        [received] = [each for each in (receiver.receive(), receiver.receive()) if each is not None]
        assert received.datagram == b"s" * size and received.source == (HOST, port)


def test_the_common_port_of_several_peers_is_found() -> None:
    assert common_port([("10.0.3.1", 5001), ("10.0.3.2", 5001)]) == 5001
    assert common_port([("10.0.3.1", 5001), ("10.0.3.2", 5002)]) is None
