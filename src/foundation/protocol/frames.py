"""Ethernet frames with a datagram, as agents send them: IPv4 without options or fragments, UDP checksum 0."""

from __future__ import annotations

import struct
from typing import NamedTuple

from foundation.errors import MalformedDatagram

_ETHERNET = struct.Struct("!6s6sH")
_IPV4 = struct.Struct("!BBHHHBBH4s4s")
_UDP = struct.Struct("!HHHH")
_ETHERTYPE_IPV4 = 0x0800
_PROTOCOL_UDP = 17
_VERSION_IHL = 0x45  # IPv4, a header of 5 words, so without options
_TTL = 64
# A packet-out's header: 9 bits of egress port, the flag to submit to the ingress, 6 bits of padding.
_EGRESS_PORT_SHIFT = 7
_SUBMIT_TO_INGRESS = 1 << 6
_CHECKSUM = slice(10, 12)  # bytes of the IPv4 header
FRAME_OVERHEAD = _ETHERNET.size + _IPV4.size + _UDP.size


class UdpEndpoint(NamedTuple):
    mac: str
    address: str
    port: int


class UdpFrame(NamedTuple):
    source: UdpEndpoint
    destination: UdpEndpoint
    payload: bytes


DESTINATION = (slice(0, 6), slice(30, 34), slice(36, 38))
"""Slices of a frame with its destination: MAC address, IPv4 address, UDP port."""


def packet_out_header(egress_port: int | None) -> bytes:
    """Return a packet-out's header (packet_io.p4); None submits the frame to the ingress instead."""
    return (_SUBMIT_TO_INGRESS if egress_port is None else egress_port << _EGRESS_PORT_SHIFT).to_bytes(
        2, "big"
    )


def build(frame: UdpFrame) -> bytes:
    source, destination, payload = frame
    udp_bytes = _UDP.size + len(payload)
    # Type of service, identification, flags with fragment offset, and checksum are 0.
    ipv4 = _IPV4.pack(
        _VERSION_IHL, 0, _IPV4.size + udp_bytes, 0, 0, _TTL, _PROTOCOL_UDP, 0,
        _packed_address(source.address), _packed_address(destination.address),
    )  # fmt: skip
    ipv4 = ipv4[: _CHECKSUM.start] + struct.pack("!H", _checksum(ipv4)) + ipv4[_CHECKSUM.stop :]
    ethernet = _ETHERNET.pack(_packed_mac(destination.mac), _packed_mac(source.mac), _ETHERTYPE_IPV4)
    return ethernet + ipv4 + _UDP.pack(source.port, destination.port, udp_bytes, 0) + payload


def parse(frame: bytes) -> UdpFrame:
    if len(frame) < FRAME_OVERHEAD:
        raise MalformedDatagram(f"a frame of {len(frame)} bytes holds no UDP datagram")
    destination_mac, source_mac, ether_type = _ETHERNET.unpack_from(frame)
    ipv4 = _IPV4.unpack_from(frame, _ETHERNET.size)
    version_ihl, _, total_length, _, _, _, protocol, _, source, destination = ipv4
    source_port, destination_port, udp_bytes, _ = _UDP.unpack_from(frame, _ETHERNET.size + _IPV4.size)
    if (ether_type, version_ihl, protocol) != (_ETHERTYPE_IPV4, _VERSION_IHL, _PROTOCOL_UDP):
        raise MalformedDatagram(f"ethertype {ether_type:#06x}, protocol {protocol}: no UDP over plain IPv4")
    if len(frame) != _ETHERNET.size + total_length or total_length != _IPV4.size + udp_bytes:
        raise MalformedDatagram(f"lengths disagree: frame {len(frame)}, IPv4 {total_length}, UDP {udp_bytes}")
    return UdpFrame(
        UdpEndpoint(source_mac.hex(":"), ".".join(map(str, source)), source_port),
        UdpEndpoint(destination_mac.hex(":"), ".".join(map(str, destination)), destination_port),
        bytes(frame[FRAME_OVERHEAD:]),
    )


def _packed_mac(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def _packed_address(address: str) -> bytes:
    return bytes(map(int, address.split(".")))


def _checksum(header: bytes) -> int:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    # One's complement sum: carries are added, twice as the first addition may carry.
    total = (total & 0xFFFF) + (total >> 16)
    return int(~(total + (total >> 16)) & 0xFFFF)
