"""The counters of all-reduces that the wire cuts, from near their ends."""

from __future__ import annotations

import pytest

from foundation.protocol.codec import MAX_U32
from hotline_allreduce.ring import design as ring
from packages.allreduce.tests.harness.dense import DenseTestbed, integers, total
from packages.allreduce.tests.harness.switchml import SwitchMLTestbed
from packages.allreduce.tests.unit.atp.test_agents import Network as AtpNetwork
from packages.allreduce.tests.unit.atp.test_agents import small


def test_a_ring_adds_correctly_when_round_numbers_pass_32_bits() -> None:
    testbed = DenseTestbed(ring.DESIGN, 3, faults=0.2)
    for client in testbed.clients:
        client.state.header.round_number = MAX_U32 - 2
    for _ in range(5):
        vectors = [integers(testbed.random, 200) for _ in range(3)]
        assert all(result.tolist() == total(vectors) for result in testbed.all_reduce(vectors))


@pytest.mark.parametrize("window", [1, 3, 5, 64])
def test_switchml_adds_correctly_when_chunk_numbers_pass_32_bits(window: int) -> None:
    """A slot alternates its two sets there, too, also if its window does not divide 2^32."""
    testbed = SwitchMLTestbed(3, window=window, loss=0.1)
    numbers = (MAX_U32 + 1) // (2 * window) * 2 * window
    for client in testbed.clients:
        client.state.header.first_packet = numbers - 12
    for _ in range(5):
        vectors = [integers(testbed.random, 300) for _ in range(3)]
        assert all(result.tolist() == total(vectors) for result in testbed.all_reduce(vectors))
    assert all(packet.chunk <= MAX_U32 for _, packet in testbed.sent)
    assert {packet.chunk for _, packet in testbed.sent} >= {0, numbers - 1}


@pytest.mark.parametrize("check", [False, True])
def test_atp_adds_correctly_when_round_numbers_pass_32_bits(check: bool) -> None:
    network = AtpNetwork({1: 3}, check=check)
    for client in network.clients[1]:
        client.state.header.round_number = MAX_U32 - 2
    for _ in range(5):
        vectors = [small(network.random, 200, 3) for _ in range(3)]
        assert all(result.tolist() == total(vectors) for result in network.all_reduce({1: vectors})[1])
