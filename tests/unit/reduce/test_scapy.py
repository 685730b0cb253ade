"""The Scapy layer of dense vectors decodes what the codec has encoded, and encodes the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hosts.dense.packet import ACK, ADDEND, HEADER, MAX_SIZE, DensePacket
from hosts.dense.scapy_layer import Dense, decode_with_scapy, encode_with_scapy

octet = st.integers(0, 255)
packets = st.builds(
    DensePacket,
    kind=st.integers(ADDEND, ACK),
    is_float=st.integers(0, 1),
    worker=octet,
    workers=octet,
    job=st.integers(0, 2**16 - 1),
    size=st.integers(0, 2**16 - 1),
    round=st.integers(0, 2**32 - 1),
    chunk=st.integers(0, 2**32 - 1),
    values=st.lists(st.integers(0, 2**32 - 1), max_size=MAX_SIZE).map(tuple),
)


@given(packet=packets)
def test_scapy_and_the_codec_agree(packet: DensePacket) -> None:
    datagram = packet.build()
    assert encode_with_scapy(datagram) == decode_with_scapy(datagram) == datagram
    layer = Dense(datagram)
    assert (layer.kind, layer.is_float, layer.worker, layer.workers) == packet[:4]
    assert (layer.job, layer.size, layer.round, layer.chunk) == packet[4:8]
    assert tuple(layer.values) == packet.values


def test_an_invalid_packet_is_decoded_as_empty() -> None:
    assert (
        decode_with_scapy(bytes(HEADER.size - 1)) == b"" and decode_with_scapy(bytes(HEADER.size + 3)) == b""
    )
