"""Queues in virtual time against queueing theory, and the rates and meters of switches in exact numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from softswitch.network import FlowHandle, Network
from switch_harness import PROGRAMS, ecn

ECN = PROGRAMS / "ecn.json"
FRAMES = 400_000
BYTES = 1000
SERVICE_US = 10.0  # of 1,000 bytes at 800 Mbit/s
RATE_MBIT = 800.0
MEAN_BYTES, MAX_BYTES = 150, 1514  # of exponentially distributed lengths


def mean_wait_us(net: Network, flow: FlowHandle) -> float:
    net.run()
    return flow.mean_delay_us - SERVICE_US


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_poisson_frames_of_one_length_wait_as_in_m_d_1(load: float) -> None:
    with Network(seed=3) as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        net.add_link(a, b, mbit=RATE_MBIT, overhead_bytes=0, queue_frames=1 << 16)
        flow = a.send(bytes(BYTES), poisson_us=SERVICE_US / load, count=FRAMES)
        # Pollaczek-Khinchine: the wait is load / (2 (1 - load)) service times.
        assert mean_wait_us(net, flow) == pytest.approx(SERVICE_US * load / (2 * (1 - load)), rel=0.02)


@pytest.mark.parametrize("load, places", [(0.7, 4), (1.2, 8)])
def test_exponential_lengths_are_lost_as_in_m_m_1_k(load: float, places: int) -> None:
    random = np.random.default_rng(5)
    lengths = np.minimum(1 + random.exponential(MEAN_BYTES, FRAMES).astype(int), MAX_BYTES)
    mean_service_us = float(lengths.mean()) * 8 / RATE_MBIT
    times = np.cumsum(random.exponential(mean_service_us / load, FRAMES))
    octets = bytes(MAX_BYTES)
    with Network(seed=3, max_frame_bytes=MAX_BYTES) as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        link = net.add_link(a, b, mbit=RATE_MBIT, overhead_bytes=0, queue_frames=places - 1)
        a.send([octets[:length] for length in lengths], times_us=times.tolist())
        net.run()
        lost = link.counters("a").dropped / FRAMES
        assert lost == pytest.approx(load**places * (1 - load) / (1 - load ** (places + 1)), rel=0.02)


def test_impairments_have_their_probabilities() -> None:
    with Network(seed=7) as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        link = net.add_link(a, b, loss=0.1, duplication=0.05, reordering=0.2, corruption=0.02)
        a.send(bytes(100), every_us=1, count=FRAMES)
        net.run()
        counters = link.counters("a")
        assert counters.sent == FRAMES
        assert counters.delivered == FRAMES - counters.lost + counters.doubled
        assert counters.lost == pytest.approx(0.1 * FRAMES, rel=0.02)
        remaining = FRAMES - counters.lost
        assert counters.doubled == pytest.approx(0.05 * remaining, rel=0.02)
        assert counters.reordered == pytest.approx(0.2 * remaining, rel=0.02)
        assert counters.corrupted == pytest.approx(0.02 * remaining, rel=0.05)


def test_a_corrupted_frame_has_one_changed_bit() -> None:
    received: list[bytes] = []
    with Network() as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        net.add_link(a, b, corruption=1)
        b.on_frame(received.append)
        a.send(bytes(64), every_us=1, count=200)
        net.run()
    changed = [int.from_bytes(frame, "big") for frame in received]
    assert all(bits.bit_count() == 1 for bits in changed)
    assert len(set(changed)) > 100


def test_an_outage_loses_the_frames_of_its_duration() -> None:
    with Network() as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        link = net.add_link(a, b)
        link.fail(at_us=100, for_us=50)
        link.fail(at_us=120, for_us=100)  # both together last from 100 to 220
        flow = a.send(bytes(64), every_us=1, count=1000, at_us=0.5, is_logged=True)
        net.run()
        sent_us = flow.receipts().sent / 1000
        assert sent_us.tolist() == [0.5 + k for k in range(1000) if not 100 <= k < 220]


def test_equal_seeds_give_equal_receipts_and_other_seeds_do_not() -> None:
    def receipts(seed: int) -> bytes:
        with Network(seed=seed) as net:
            a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
            net.add_link(a, b, mbit=10, loss=0.1, reordering=0.1, queue_frames=8)
            flow = a.send(bytes(64), poisson_us=60, count=5000, is_logged=True)
            net.run()
            return flow.receipts().received.tobytes()

    assert receipts(1) == receipts(1) != receipts(2)


def test_random_numbers_are_equal_on_every_machine() -> None:
    # Pinned: the times follow from integers, products and comparisons only, so no library can change them.
    with Network(seed=42) as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        net.add_link(a, b)
        flow = a.send(bytes(64), poisson_us=1000, count=6, is_logged=True)
        net.run()
        assert flow.receipts().sent.tolist() == [0, 159_910, 1_378_315, 1_718_246, 1_923_147, 2_436_543]


def test_a_switch_takes_its_latency_and_its_rate_for_each_frame() -> None:
    with Network() as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        switch = net.add_switch("s", ECN, latency_us=5, max_pps=100_000)
        net.add_link(a, switch)
        net.add_link(switch, b)
        ecn.forward(switch.pipeline, 1, 2)
        flow = a.send([ecn.frame(number) for number in range(3)], is_logged=True)
        net.run()
        assert (flow.receipts().received / 1000).tolist() == [5, 15, 25]


def test_packets_of_higher_priority_leave_first() -> None:
    received: list[int] = []
    with Network() as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        switch = net.add_switch("s", ECN, priority_queues=8)
        net.add_link(a, switch)
        net.add_link(switch, b, mbit=10)
        ecn.forward(switch.pipeline, 1, 2)
        b.on_frame(lambda frame: received.append(ecn.read(frame).number))
        a.send([ecn.frame(number, priority=number % 3) for number in range(6)])
        net.run()
    assert received == [0, 2, 5, 1, 4, 3]  # the first found the link free


STAMPS = """
#include <core.p4>
#include <v1model.p4>
header stamps_t { bit<48> arrival; bit<48> departure; bit<16> type; }
struct headers_t { stamps_t stamps; }
struct metadata_t {}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start { packet.extract(hdr.stamps); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply {} }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { hdr.stamps.arrival = std.ingress_global_timestamp; std.egress_spec = 2; }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply { hdr.stamps.departure = std.egress_global_timestamp; }
}
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.stamps); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


def test_programs_read_the_times_of_arrival_and_departure(tmp_path: Path) -> None:
    received: list[tuple[int, int]] = []
    (program := tmp_path / "stamps.p4").write_text(STAMPS)
    with Network() as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        switch = net.add_switch("s", program, latency_us=5)
        net.add_link(a, switch, delay_us=1.7)
        net.add_link(switch, b, mbit=8, overhead_bytes=0)
        b.on_frame(
            lambda frame: received.append(
                (int.from_bytes(frame[:6], "big"), int.from_bytes(frame[6:12], "big"))
            )
        )
        a.send([bytes(100)] * 2, at_us=1000)
        net.run()
    # Both arrive at 1001.7 µs; the second waits for the 100 µs that the first takes on the link.
    assert received == [(1001, 1006), (1001, 1106)]
