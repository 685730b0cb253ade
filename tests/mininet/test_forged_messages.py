"""A host of the testbed learns nothing from messages that any other host can forge, and its agents go on."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.inet6 import ICMPv6ND_RA, ICMPv6NDOptPrefixInfo, IPv6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet

from foundation.protocol import addressing
from foundation.protocol.header import HOTLINE_PORT
from hosts.sockets import Receiver, open_connected_udp, open_udp, send
from switch_harness.net import Net, namespace
from switch_harness.waiting import wait_for
from topologies.neighbours import list_endpoints, neighbour_commands, without_ipv6

HOST, SERVICE, ROGUE = addressing.worker(1), addressing.service(1), addressing.worker(2)
INTERFACE = "s1"
DATAGRAM = bytes(1_400)


@pytest.fixture
def switch_end() -> Iterator[socket.socket]:
    """Yield the other end of the interface of a host with the settings of the testbed's hosts."""
    with namespace(), ExitStack() as stack:
        for scope in ("all", "default"):
            Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6").write_text("0")
        net = Net(stack, range(1, 2))
        # As in `TestbedHost.config`.
        commands = [
            "link set lo up", f"link set {INTERFACE} address {HOST.mac}",
            f"address add {HOST.address}/{addressing.PREFIX_LENGTH} dev {INTERFACE}",
            *neighbour_commands(list_endpoints(2, 1), HOST.address, INTERFACE),
        ]  # fmt: skip
        subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)
        subprocess.run(["sysctl", "-qw", without_ipv6(INTERFACE, is_in_namespace=True)], check=True)
        yield net.hosts[1]


def sent_frame(switch_end: socket.socket) -> Packet:
    """Return the next frame that an agent sends."""
    while True:
        frame = Ether(switch_end.recv(2048))
        if frame.src == HOST.mac and IP in frame and frame[IP].proto == socket.IPPROTO_UDP:
            return frame


def forged_messages(agent: tuple[str, int]) -> dict[str, Packet]:
    """Return frames of a rogue host; those of ICMP are about a datagram of the agent, or about an echo."""
    ethernet = Ether(src=ROGUE.mac, dst=HOST.mac)
    about_datagram = IP(src=HOST.address, dst=SERVICE.address) / UDP(sport=agent[1], dport=HOTLINE_PORT)
    about_echo = IP(src=HOST.address, dst=SERVICE.address) / ICMP(type="echo-reply")

    def icmp(about: Packet, kind: str, code: int = 0, **fields: Any) -> Packet:  # fields of Scapy's packets
        return (
            ethernet / IP(src=ROGUE.address, dst=HOST.address) / ICMP(type=kind, code=code, **fields) / about
        )

    unreachable = {
        f"dest-unreach {code}": icmp(about_datagram, "dest-unreach", code) for code in range(16) if code != 4
    }
    claim: dict[str, Any] = {"hwsrc": ROGUE.mac, "psrc": SERVICE.address, "hwdst": HOST.mac}
    return {
        "an MTU for the agent's socket": icmp(about_datagram, "dest-unreach", 4, nexthopmtu=552),
        "an MTU for any socket": icmp(about_echo, "dest-unreach", 4, nexthopmtu=552),
        "a redirect of the agent's socket": icmp(about_datagram, "redirect", 1, gw=ROGUE.address),
        "a redirect of any socket": icmp(about_echo, "redirect", 1, gw=ROGUE.address),
        **unreachable,
        "a parameter problem": icmp(about_datagram, "parameter-problem"),
        "an expired TTL": icmp(about_datagram, "time-exceeded"),
        "an ARP answer": ethernet / ARP(op="is-at", pdst=HOST.address, **claim),
        "an ARP announcement": ethernet / ARP(op="who-has", pdst=SERVICE.address, **claim),
        "an IPv6 router": Ether(src=ROGUE.mac, dst="33:33:00:00:00:01")
        / IPv6(src="fe80::1", dst="ff02::1")
        / ICMPv6ND_RA()
        / ICMPv6NDOptPrefixInfo(prefix="2001:db8::", prefixlen=64),
    }  # fmt: skip


@pytest.mark.parametrize("is_connected", [False, True], ids=["shared", "connected"])
def test_a_forged_message_changes_neither_routes_nor_packet_sizes_of_an_agent(
    switch_end: socket.socket, is_connected: bool
) -> None:
    own, service = (HOST.address, HOTLINE_PORT), (SERVICE.address, HOTLINE_PORT)
    sock = open_connected_udp(own, service) if is_connected else open_udp(own)
    assert sock is not None
    answer = Ether(src=SERVICE.mac, dst=HOST.mac) / IP(src=SERVICE.address, dst=HOST.address)
    with sock:
        receiver, received = Receiver(sock), list[bytes]()

        def has_received(datagram: bytes) -> bool:
            received.extend(each.datagram for each in [receiver.receive()] if each is not None)
            return datagram in received

        for name, forged in forged_messages(own).items():
            switch_end.send(bytes(forged))
            send(sock, DATAGRAM, service)  # perhaps dropped: then the forged message is a lost datagram's
            switch_end.send(bytes(forged))
            switch_end.send(bytes(answer / UDP(sport=HOTLINE_PORT, dport=HOTLINE_PORT) / name.encode()))
            wait_for(lambda: has_received(name.encode()))  # noqa: B023
            send(sock, DATAGRAM + name.encode(), service)
            while not bytes(frame := sent_frame(switch_end)).endswith(name.encode()):
                assert frame.dst == SERVICE.mac, name
            assert (frame.dst, len(frame[UDP].payload)) == (SERVICE.mac, len(DATAGRAM) + len(name)), name
            assert frame[IP].flags == "DF", name
    assert INTERFACE not in Path("/proc/thread-self/net/if_inet6").read_text()
