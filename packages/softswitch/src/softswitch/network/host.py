"""Hosts of a network: ARP, ping, UDP, flows of frames, and callbacks for what they receive.

Hosts have no TCP. Packets are Scapy's, which are made and parsed in Python only where a host has to look at
them: frames of flows are counted in compiled code, unless the host has a handler of frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray
from scapy.layers.inet import ICMP, IP, UDP
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Packet, Raw

from softswitch.errors import SwitchError
from softswitch.network.compiled_handlers import CompiledHandler, Handler, compile_handler
from softswitch.network.flow import FlowHandle, Schedule
from softswitch.pcap import ETHERNET, read_frames
from softswitch.testing.mask import FrameLike, to_bytes

BROADCAST = "ff:ff:ff:ff:ff:ff"
ARP_REQUESTS, ARP_TIMEOUT_US = 3, 1e6
"""Requests for an address, and the time after each; these are Linux's `mcast_solicit` and `retrans_time`."""
_ARP_REQUEST, _ARP_REPLY = 1, 2
_ECHO_REPLY, _ECHO_REQUEST = 0, 8
_NS_PER_US = 1e3
FrameHandler = Callable[[bytes], object]
DatagramHandler = Callable[[bytes, str, int], object]


class HostNetwork(Protocol):
    """The part of a network that its hosts call."""

    uses_arp: bool

    def now_ns(self) -> int: ...

    def transmit(self, host: int, frame: bytes) -> None: ...

    def begin_flow(
        self, host: int, frames: Sequence[bytes], schedule: Schedule, is_logged: bool
    ) -> FlowHandle: ...

    def call_after(
        self, delay_us: float, call: Callable[..., object], *arguments: object
    ) -> asyncio.TimerHandle: ...

    def mac_of(self, address: IPv4Address) -> str | None:
        """Return the MAC address of the host with an IP address, if neighbours are known at the start."""

    def hand_frames_over(self, host: int) -> None:
        """Give the host all frames that it receives, those of flows as well."""

    def set_handler(self, host: int, handler: CompiledHandler, at_ns: int) -> None: ...


@dataclass
class Ping:
    """Echo requests of a host, and the times in µs after which their replies came, by sequence number."""

    sent: int = 0
    round_trips_us: dict[int, float] = field(default_factory=dict)

    @property
    def received(self) -> int:
        return len(self.round_trips_us)


@dataclass
class _Unresolved:
    """Packets that wait for the MAC address of a neighbour."""

    packets: list[Packet] = field(default_factory=list)
    requests: int = 0
    timer: asyncio.TimerHandle | None = None


class Host:
    """A host with one interface; make it by `Network.add_host`. `ip` has the length of its prefix."""

    def __init__(
        self, name: str, number: int, net: HostNetwork, ip: str, mac: str, gateway: str | None
    ) -> None:
        self.name, self.number = name, number
        self.interface, self.mac = IPv4Interface(ip), mac
        self.gateway = None if gateway is None else IPv4Address(gateway)
        self.neighbours: dict[IPv4Address, str] = {}
        self.unresolved = 0
        """Number of packets that were dropped because no ARP reply came."""
        self._net = net
        self._waiting: dict[IPv4Address, _Unresolved] = {}
        self._pings: dict[int, tuple[Ping, dict[int, int]]] = {}
        self._datagram_handlers: dict[int, DatagramHandler] = {}
        self._frame_handler: FrameHandler | None = None

    def __repr__(self) -> str:
        return f"<host {self.name} {self.interface}>"

    @property
    def ip(self) -> IPv4Address:
        return self.interface.ip

    def set_neighbour(self, address: str, mac: str) -> None:
        """Set the MAC address of a neighbour, as a static ARP entry."""
        self.neighbours[IPv4Address(address)] = mac

    # -- sending

    def send(
        self,
        packets: FrameLike | Sequence[FrameLike],
        *,
        every_us: float | None = None,
        poisson_us: float | None = None,
        times_us: Sequence[float] | None = None,
        count: int | None = None,
        at_us: float | None = None,
        is_logged: bool = False,
    ) -> FlowHandle:
        """Send frames from `at_us` on, by default from now; several packets are sent in turn.

        A packet is Scapy's, with a layer `Ether` or from IP on, or a whole frame as bytes. Without an
        interval or times, each is sent once. Raises `SwitchError`, also if the neighbour's MAC address is
        not known yet (ARP resolves addresses only for `ping` and `send_udp`).
        """
        frames = [self.frame_of(packet) for packet in _as_list(packets)]
        if every_us is None and poisson_us is None and times_us is None:
            times_us = [0.0] * len(frames)
        schedule = Schedule(
            count=count if count is not None else len(times_us if times_us is not None else frames),
            begin_us=self._net.now_ns() / _NS_PER_US if at_us is None else at_us,
            every_us=every_us,
            poisson_us=poisson_us,
            times_us=times_us,
        )
        return self._net.begin_flow(self.number, frames, schedule, is_logged)

    def replay(self, pcap: str | Path, at_us: float | None = None) -> FlowHandle:
        """Send the frames of a pcap file at their intervals; the first is sent at `at_us`, or now."""
        with Path(pcap).open("rb") as file:
            captured = list(read_frames(file, str(pcap), ETHERNET))
        if not captured:
            raise SwitchError(f"{pcap}: expected at least one frame")
        begin_ns = captured[0][0]
        times_us = [(time_ns - begin_ns) / _NS_PER_US for time_ns, _ in captured]
        return self.send([frame for _, frame in captured], times_us=times_us, at_us=at_us)

    def frame_of(self, packet: FrameLike) -> bytes:
        """Return the frame of a packet; one that begins with IP goes to its neighbour's MAC address."""
        if not isinstance(packet, Packet) or not isinstance(packet, IP):
            return to_bytes(packet)
        neighbour = self._next_hop(IPv4Address(str(packet.dst)))
        mac = self.neighbours.get(neighbour) or self._net.mac_of(neighbour)
        if mac is None:
            raise SwitchError(f"host {self.name}: no MAC address of {neighbour} is known: set neighbours")
        return bytes(self._ether(mac) / self._with_source(packet))

    def udp_frame(self, destination: str, port: int, payload: bytes, source_port: int = 1024) -> bytes:
        """Return the frame of a datagram, as `frame_of` does."""
        return self.frame_of(IP(dst=destination) / UDP(sport=source_port, dport=port) / Raw(payload))

    def send_udp(self, destination: str, port: int, payload: bytes, source_port: int = 1024) -> None:
        """Send a datagram now, after ARP if the neighbour is not known."""
        self._send_ip(IP(dst=destination) / UDP(sport=source_port, dport=port) / Raw(payload))

    def ping(self, destination: str, count: int = 1, every_us: float = 1e6) -> Ping:
        """Begin to send echo requests, the first one now."""
        ping, sent_at = Ping(), dict[int, int]()
        identifier = len(self._pings) + 1
        self._pings[identifier] = ping, sent_at

        def send_request(sequence: int) -> None:
            ping.sent += 1
            sent_at[sequence] = self._net.now_ns()
            self._send_ip(IP(dst=destination) / ICMP(type=_ECHO_REQUEST, id=identifier, seq=sequence))

        for sequence in range(1, count + 1):
            self._net.call_after((sequence - 1) * every_us, send_request, sequence)
        return ping

    # -- receiving

    def on_frame(self, handler: FrameHandler | None) -> None:
        """Call `handler` with the bytes of each frame that the host receives, before the host looks at it."""
        self._frame_handler = handler
        self._net.hand_frames_over(self.number)

    def on_datagram(self, port: int, handler: DatagramHandler) -> None:
        """Call `handler` with payload, source address and source port of each datagram to a UDP port."""
        self._datagram_handlers[port] = handler
        self._net.hand_frames_over(self.number)

    def run_compiled(self, handler: Handler, state: NDArray[Any], at_us: float | None = None) -> None:
        """Have a state machine in machine code handle the frames that the host receives.

        `handler(state, frame, now_ns, out)` is compiled by numba. It is called with each frame, as uint8[n],
        which the host itself then does not look at; and with an empty frame at `at_us`, by default now, and
        at the time that its last call returned, in ns (a negative number for never). `add_frame(out, frame)`
        sends a frame. `state` is a numpy array of one dimension, which the handler changes in place. Indices
        are not checked, unless NUMBA_BOUNDSCHECK is 1. Raises `SwitchError`, and `Network.run` raises it if
        the handler fails.
        """
        at_ns = self._net.now_ns() if at_us is None else round(at_us * _NS_PER_US)
        self._net.set_handler(self.number, compile_handler(handler, state), at_ns)

    def receive(self, frame: bytes) -> None:
        """Handle a frame that has arrived now."""
        if self._frame_handler is not None:
            self._frame_handler(frame)
        packet: Any = Ether(frame)  # Scapy's fields have no types
        if ARP in packet:
            self._receive_arp(packet[ARP])
        elif IP in packet and str(packet[IP].dst) == str(self.ip):
            self._receive_ip(packet[IP])

    def _receive_arp(self, arp: Any) -> None:  # as above
        if str(arp.pdst) != str(self.ip):
            return
        sender = IPv4Address(str(arp.psrc))
        self.neighbours[sender] = str(arp.hwsrc)
        if arp.op == _ARP_REQUEST:
            reply = ARP(op=_ARP_REPLY, hwsrc=self.mac, psrc=str(self.ip), hwdst=arp.hwsrc, pdst=arp.psrc)
            self._net.transmit(self.number, bytes(self._ether(str(arp.hwsrc)) / reply))
        unresolved = self._waiting.pop(sender, _Unresolved())
        if unresolved.timer is not None:
            unresolved.timer.cancel()
        for packet in unresolved.packets:
            self._send_ip(packet)

    def _receive_ip(self, packet: Any) -> None:  # as above
        if ICMP in packet:
            self._receive_icmp(packet)
        elif UDP in packet and packet[UDP].dport in self._datagram_handlers:
            datagram = packet[UDP]
            self._datagram_handlers[datagram.dport](
                bytes(datagram.payload)[: datagram.len - len(UDP())], str(packet.src), datagram.sport
            )

    def _receive_icmp(self, packet: Any) -> None:  # as above
        icmp = packet[ICMP]
        if icmp.type == _ECHO_REQUEST:
            reply = ICMP(type=_ECHO_REPLY, id=icmp.id, seq=icmp.seq) / Raw(bytes(icmp.payload))
            self._send_ip(IP(dst=packet.src) / reply)
        elif icmp.type == _ECHO_REPLY and icmp.id in self._pings:
            ping, sent_at = self._pings[icmp.id]
            elapsed_ns = self._net.now_ns() - sent_at[icmp.seq]
            ping.round_trips_us.setdefault(icmp.seq, elapsed_ns / _NS_PER_US)

    # -- neighbours

    def _send_ip(self, packet: Packet) -> None:
        neighbour = self._next_hop(IPv4Address(str(packet.dst)))
        known = None if self._net.uses_arp else self._net.mac_of(neighbour)
        mac = self.neighbours.get(neighbour) or known
        if mac is not None:
            self._net.transmit(self.number, bytes(self._ether(mac) / self._with_source(packet)))
            return
        if neighbour not in self._waiting:
            self._waiting[neighbour] = _Unresolved()
            self._request_address(neighbour)
        self._waiting[neighbour].packets.append(packet)

    def _request_address(self, neighbour: IPv4Address) -> None:
        unresolved = self._waiting[neighbour]
        if unresolved.requests == ARP_REQUESTS:
            self.unresolved += len(self._waiting.pop(neighbour).packets)
            return
        unresolved.requests += 1
        unresolved.timer = self._net.call_after(ARP_TIMEOUT_US, self._request_address, neighbour)
        request = ARP(op=_ARP_REQUEST, hwsrc=self.mac, psrc=str(self.ip), pdst=str(neighbour))
        self._net.transmit(self.number, bytes(self._ether(BROADCAST) / request))

    def _next_hop(self, destination: IPv4Address) -> IPv4Address:
        if self.gateway is None or destination in self.interface.network:
            return destination
        return self.gateway

    def _ether(self, destination: str) -> Packet:
        return Ether(src=self.mac, dst=destination)

    def _with_source(self, packet: Packet) -> Packet:
        packet = packet.copy()
        if "src" not in packet.fields:
            packet.src = str(self.ip)
        return packet


def _as_list(packets: FrameLike | Sequence[FrameLike]) -> list[FrameLike]:
    if isinstance(packets, (list, tuple)):
        return list(packets)
    return [packets]  # type: ignore[list-item]  # no sequence of frames is a frame
