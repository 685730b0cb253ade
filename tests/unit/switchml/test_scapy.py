"""SwitchML's Scapy layer reads what the other reading of the packet has written, and builds the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hosts.switchml.packet import OCTETS, SIZE, SLOTS, VALUES, SwitchMLPacket
from hosts.switchml.scapy_layer import SwitchML, decode_with_scapy, encode_with_scapy

exponents = st.integers(-128, 127)
packets = st.builds(
    SwitchMLPacket,
    chunk=st.integers(0, 2**32 - 1),
    slot=st.integers(0, SLOTS - 1),
    set=st.integers(0, 1),
    values=st.lists(st.integers(0, 2**32 - 1), min_size=VALUES, max_size=VALUES).map(tuple),
    exponents=st.tuples(exponents, exponents),
    job=st.integers(0, 255),
    size=st.just(SIZE),
)


@given(packet=packets)
def test_scapy_and_the_codec_agree(packet: SwitchMLPacket) -> None:
    datagram = packet.build()
    assert encode_with_scapy(datagram) == decode_with_scapy(datagram) == datagram
    layer = SwitchML(datagram)
    assert (layer.kind, layer.size, layer.set, layer.slot) == (1, 1, packet.set, packet.slot)
    assert tuple(layer.exponents) == packet.exponents


def test_an_invalid_packet_is_decoded_as_empty() -> None:
    assert decode_with_scapy(bytes(OCTETS - 1)) == b""
