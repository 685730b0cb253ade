"""Hosts in virtual time: ARP, ping, UDP, flows, captures and replays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from softswitch.errors import SwitchError
from softswitch.network import Host, Network
from softswitch.pcap import ETHERNET, read_frames
from switch_harness import PROGRAMS
from switch_harness.wording import mentions

L2 = PROGRAMS / "l2.json"
LEARNING = Path(__file__).with_name("learning.p4")


def two_hosts(net: Network, **options: Any) -> tuple[Host, Host]:
    a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
    net.add_link(a, b, **options)
    return a, b


def test_a_ping_takes_two_delays_and_the_times_of_both_frames_on_the_wire() -> None:
    with Network() as net:
        a, _ = two_hosts(net, mbit=8, delay_us=100)
        ping = a.ping("10.0.0.2", count=2, every_us=1000)
        net.run()
        on_wire_us = 14 + 20 + 8 + 24  # bytes at 8 Mbit/s
        assert ping.round_trips_us == {1: 2 * (100 + on_wire_us), 2: 2 * (100 + on_wire_us)}
        assert (ping.sent, ping.received) == (2, 2)


def test_arp_resolves_a_neighbour_once() -> None:
    frames: list[bytes] = []
    with Network(knows_neighbours=False) as net:
        a, b = two_hosts(net)
        b.on_frame(frames.append)
        first, second = a.ping("10.0.0.2"), a.ping("10.0.0.2")
        net.run()
        assert (first.received, second.received) == (1, 1)
        assert [frame[12:14].hex() for frame in frames] == ["0806", "0800", "0800"]
        with pytest.raises(SwitchError, match=mentions("10.0.0.9")):
            a.send(IP(dst="10.0.0.9") / UDP())


def test_packets_for_other_networks_go_to_the_gateway() -> None:
    with Network() as net:
        a = net.add_host("a", "10.0.1.1/24", gateway="10.0.1.254")
        b = net.add_host("b", "10.0.2.2/24")
        net.add_link(a, b)
        a.set_neighbour("10.0.1.254", "02:00:00:00:99:99")
        frame = Ether(a.frame_of(IP(dst="10.0.2.2") / UDP(dport=7)))
        assert (frame.dst, frame.src, frame[IP].src) == ("02:00:00:00:99:99", a.mac, "10.0.1.1")
        frame = Ether(b.frame_of(IP(dst="10.0.1.1") / UDP(dport=7)))
        assert frame.dst == a.mac  # without a gateway every host is a neighbour


def test_datagrams_reach_their_handlers_and_are_answered() -> None:
    answers: list[tuple[bytes, str, int, float]] = []
    with Network() as net:
        a, b = two_hosts(net, delay_us=10)
        b.on_datagram(7, lambda payload, source, port: b.send_udp(source, port, payload[::-1], 7))
        a.on_datagram(99, lambda payload, source, port: answers.append((payload, source, port, net.now_us)))
        net.call_at(5, a.send_udp, "10.0.0.2", 7, b"abc", 99)
        net.run()
    assert answers == [(b"cba", "10.0.0.2", 7, 25)]


@pytest.mark.parametrize("destination, answered", [("10.0.0.2", True), ("10.0.0.3", False)])
def test_hosts_answer_arp_requests_for_their_own_address_only(destination: str, answered: bool) -> None:
    replies: list[bytes] = []
    with Network(knows_neighbours=False) as net:
        a, _ = two_hosts(net)
        a.on_frame(replies.append)
        ping = a.ping(destination)
        net.run()
        assert (ping.received, len(replies)) == ((1, 2) if answered else (0, 0))


@pytest.mark.parametrize("call", ["of a frame", "at a time"])
def test_an_exception_of_a_handler_ends_the_run(call: str) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with Network() as net:
        a, b = two_hosts(net)
        if call == "of a frame":
            b.on_frame(fail)
            a.ping("10.0.0.2")
        else:
            net.call_at(5, fail)
        with pytest.raises(ZeroDivisionError):
            net.run()


def test_flows_count_the_frames_behind_switches_and_their_delays() -> None:
    with Network() as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        s = net.add_switch("s", L2)
        net.add_link(a, s, delay_us=3)
        net.add_link(s, b, delay_us=4)
        s.run(f"table_add hosts forward {b.mac} => 2")
        flow = a.send(IP(dst="10.0.0.2") / UDP(), every_us=10, count=50)
        net.run(until_s=0.000106)
        assert (flow.sent, flow.received) == (11, 10)
        net.run()
        assert (flow.sent, flow.received, flow.received_bytes) == (50, 50, 50 * 42)
        assert flow.mean_delay_us == flow.min_delay_us == flow.max_delay_us == 7


def test_a_capture_can_be_replayed_at_its_times(tmp_path: Path) -> None:
    capture = tmp_path / "link.pcap"
    with Network() as net:
        a, _ = two_hosts(net)
        net.links[0].capture(capture, "a")
        a.send([bytes([k]) * 60 for k in range(5)], times_us=[0, 3, 10, 11, 100], at_us=1000)
        net.run()
    with capture.open("rb") as file:
        captured = list(read_frames(file, "link.pcap", ETHERNET))
    assert [time for time, _ in captured] == [1_000_000, 1_003_000, 1_010_000, 1_011_000, 1_100_000]
    with Network() as net:
        a, _ = two_hosts(net)
        flow = a.send(bytes(60), every_us=1, count=1, is_logged=True)
        replayed = a.replay(capture, at_us=500)
        net.run()
        assert flow.received == 1 and replayed.received == 5
        assert replayed.max_delay_us == 0


def test_many_switches_of_one_program_share_its_code_and_use_little_memory() -> None:
    def resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    with Network() as net:
        first = net.add_switch("s0", LEARNING)
        before = resident_bytes()
        others = [net.add_switch(f"s{number}", LEARNING) for number in range(1, 101)]
        assert {switch.pipeline.process_address for switch in others} == {first.pipeline.process_address}
        assert len({switch.pipeline.state_address for switch in others}) == 100
        assert resident_bytes() - before < 100 * 500_000  # a state of 3 MB, whose pages are not all used


def test_a_trace_has_the_frames_of_one_flow_on_every_link() -> None:
    with Network() as net:
        a, b = net.add_host("a", "10.0.0.1/24"), net.add_host("b", "10.0.0.2/24")
        s = net.add_switch("s", L2)
        net.add_link(a, s, delay_us=3)
        net.add_link(s, b)
        s.run(f"table_add hosts forward {b.mac} => 2")
        other, traced = (a.send(a.udp_frame("10.0.0.2", port, b""), at_us=1) for port in (1, 2))
        trace = net.trace(traced)
        net.run()
        assert other.received == traced.received == 1
        assert [(hop.time_ns, str(hop.sender), str(hop.receiver)) for hop in trace.hops] == [
            (1000, "a", "s-p1"),
            (4000, "s-p2", "b"),
        ]
        assert {hop.frame[36:38] for hop in trace.hops} == {(2).to_bytes(2, "big")}


def test_arp_requests_are_repeated_until_a_reply_or_the_third() -> None:
    requests: list[float] = []
    with Network(knows_neighbours=False) as net:
        a, b = two_hosts(net)
        b.on_frame(lambda frame: requests.append(net.now_us) if frame[12:14] == b"\x08\x06" else None)
        net.links[0].fail(0, 1_500_000)
        answered = a.ping("10.0.0.2")
        absent = a.ping("10.0.0.9", count=2, every_us=1.0)
        net.run()
        assert requests == [2_000_000, 2_000_000]
        assert answered.round_trips_us == {1: 2_000_000}
        assert (absent.sent, absent.received, a.unresolved) == (2, 0, 2)
        assert net.now_us == 3_000_000


def test_an_arp_reply_leaves_no_timer() -> None:
    with Network(knows_neighbours=False) as net:
        a, _ = two_hosts(net, delay_us=10)
        a.ping("10.0.0.2")
        net.run()
        assert net.now_us == 40
