"""ATP's Scapy layer reads what the other reading of the packet has written, and builds the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hosts.atp.packet import ACK, CELLS, COLLISION, ECN, OCTETS, OVERFLOW, RESEND, VALUES, AtpPacket
from hosts.atp.scapy_layer import ATP, decode_with_scapy, encode_with_scapy

packets = st.builds(
    AtpPacket,
    bitmap=st.integers(0, 2**32 - 1),
    workers=st.integers(1, 32),
    app=st.integers(1, 2**16 - 1),
    sequence=st.integers(1, 2**16 - 1),
    cell=st.integers(0, CELLS - 1),
    values=st.lists(st.integers(0, 2**32 - 1), min_size=VALUES, max_size=VALUES).map(tuple),
    key=st.integers(0, 2**64 - 1),
    length=st.integers(0, 2**32 - 1),
    flags=st.integers(0, 255),
)


@given(packet=packets)
def test_scapy_and_the_codec_agree(packet: AtpPacket) -> None:
    datagram = packet.build()
    assert encode_with_scapy(datagram) == decode_with_scapy(datagram) == datagram
    layer = ATP(datagram)
    flags = [layer.is_ack, layer.collided, layer.is_resent, layer.ecn, layer.overflow]
    assert flags == [packet.has(flag) for flag in (ACK, COLLISION, RESEND, ECN, OVERFLOW)]
    assert (layer.server, layer.second_cell) == (packet.flags >> 5 & 3, packet.cell + CELLS)


def test_what_is_no_packet_is_nothing() -> None:
    assert decode_with_scapy(bytes(OCTETS - 1)) == b""
