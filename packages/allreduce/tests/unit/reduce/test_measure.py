"""All-reduces at hosts beside what links allow: counted by hand on small vectors."""

from __future__ import annotations

import pytest

from hotline_allreduce.simulation.measure import AllReduceResult, largest_window, measure
from hotline_allreduce.simulation.subject import PSDENSE, RING, Subject
from hotline_simulator.costs import Network

TEN_GBIT = Network(rate_mbit=10_000, delay_us=1, queue_kb=1024)
NS_A_BYTE = 0.8
FRAME = 14 + 20 + 8 + 16 + 4 * 256
"""Ethernet, IPv4, UDP, the packet's header, 256 values."""
TAKEN = 14 + 20 + 8 + 16
GAP = 24
"""Preamble, checksum and gap, which a link carries with each frame."""
N = 2048


def of(
    subject: Subject, workers: int, servers: int, values: int = N, network: Network = TEN_GBIT
) -> AllReduceResult:
    return measure(subject, workers, servers, values, network)


def test_octets_and_limit_of_servers() -> None:
    """8 chunks: each goes up from 4 workers, and its sum down to 4, by one of 2 servers."""
    found = of(PSDENSE, 4, 2)
    assert found.worker_up == found.worker_down == 8 * FRAME / N == 4.2265625
    assert found.server_up == found.server_down == 8 * FRAME * 4 / 2 / N
    assert found.limit_s == pytest.approx(16 * 884 / 1e9) and int((FRAME + GAP) * NS_A_BYTE) == 884
    assert found.payload_limit_s == pytest.approx(4 / 2 * N * 4 * NS_A_BYTE / 1e9)
    assert (found.retransmissions, found.dropped) == (0, 0)


def test_octets_and_limit_of_a_ring() -> None:
    """6 steps of 2 chunks, each of which is acknowledged."""
    found = of(RING, 4, 1)
    assert found.worker_up == found.worker_down == 12 * (FRAME + TAKEN) / N == 6.6796875
    assert found.server_up == found.server_down == 0
    assert found.limit_s == pytest.approx(12 * (884 + 65) / 1e9) and int((TAKEN + GAP) * NS_A_BYTE) == 65
    assert found.payload_limit_s == pytest.approx(2 * 3 / 4 * N * 4 * NS_A_BYTE / 1e9)
    assert (found.retransmissions, found.dropped) == (0, 0)


def test_chunks_of_64_values_add_a_header_to_each_64_values() -> None:
    found = measure(PSDENSE, 2, 2, N, TEN_GBIT, chunk_size=64)
    assert found.worker_up == (TAKEN + 4 * 64) / 64 == 4.90625


@pytest.mark.parametrize(
    ("subject", "workers", "servers"),
    [(PSDENSE, 4, 4), (PSDENSE, 8, 2), (RING, 2, 1), (RING, 8, 1)],
    ids=lambda each: each.arm.name if isinstance(each, Subject) else str(each),
)
def test_long_vectors_take_at_most_4_percent_longer_than_the_links_allow(
    subject: Subject, workers: int, servers: int
) -> None:
    found = of(subject, workers, servers, 100_000)
    assert found.payload_limit_s < found.limit_s < found.seconds < 1.04 * found.limit_s
    assert found.values_per_s == 100_000 / found.seconds


@pytest.mark.parametrize("subject", [PSDENSE, RING], ids=lambda subject: subject.arm.name)
@pytest.mark.parametrize("workers", [2, 32])
def test_under_loss_sums_are_right_and_later(subject: Subject, workers: int) -> None:
    """`measure` compares every sum; a frame that is lost is sent again, and seen in time and octets."""
    sound = of(subject, workers, 4, 20_000)
    lossy = of(subject, workers, 4, 20_000, TEN_GBIT.model_copy(update={"loss": 0.01}))
    assert sound.retransmissions == 0 < lossy.retransmissions
    assert lossy.worker_up > sound.worker_up and lossy.seconds > 10 * sound.seconds


def test_loads_of_the_busiest_link() -> None:
    assert [RING.load(workers, 1) for workers in (2, 4, 32)] == [1.0, 1.5, 1.9375]
    assert [PSDENSE.load(8, servers) for servers in (1, 2, 8, 16)] == [8.0, 4.0, 1.0, 1.0]


def test_a_window_fits_into_the_queue_before_the_busiest_link() -> None:
    assert largest_window(1.0, TEN_GBIT, 256) == 1024 * 1024 // FRAME == 969
    assert largest_window(32.0, TEN_GBIT, 256) == 1024 * 1024 // FRAME // 32 == 30
    assert largest_window(32.0, TEN_GBIT.model_copy(update={"queue_kb": 16.0}), 256) == 1
