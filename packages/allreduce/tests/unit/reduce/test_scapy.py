"""The Scapy layers of all-reduces decode what the codecs have encoded, and encode the same."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

import hotline_allreduce.atp.scapy_layer as atp_layer
import hotline_allreduce.dense.scapy_layer as dense_layer
import hotline_allreduce.switchml.scapy_layer as switchml_layer
from hotline_allreduce.atp import packet as atp
from hotline_allreduce.atp.packet import AtpPacket
from hotline_allreduce.dense import packet as dense
from hotline_allreduce.dense.packet import DensePacket
from hotline_allreduce.switchml import packet as switchml
from hotline_allreduce.switchml.packet import SwitchMLPacket

octet, u16, u32 = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32))
exponents = st.integers(-128, 127)


def values(min_size: int, max_size: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(u32, min_size=min_size, max_size=max_size).map(tuple)


def check_codec(layer: ModuleType, datagram: bytes) -> None:
    assert layer.encode_with_scapy(datagram) == layer.decode_with_scapy(datagram) == datagram


@given(st.builds(
    DensePacket, kind=st.integers(dense.ADDEND, dense.ACK), is_float=st.integers(0, 1), worker=octet,
    workers=octet, job=u16, size=u16, round=u32, chunk=u32, values=values(0, dense.MAX_SIZE),
))  # fmt: skip
def test_scapy_and_the_dense_codec_agree(packet: DensePacket) -> None:
    datagram = packet.build()
    check_codec(dense_layer, datagram)
    layer = dense_layer.Dense(datagram)
    assert (layer.kind, layer.is_float, layer.worker, layer.workers) == packet[:4]
    assert (layer.job, layer.size, layer.round, layer.chunk) == packet[4:8]
    assert tuple(layer.values) == packet.values


@given(st.builds(
    AtpPacket, bitmap=u32, workers=st.integers(1, 32), app=st.integers(1, 2**16 - 1),
    sequence=st.integers(1, 2**16 - 1), cell=st.integers(0, atp.CELLS - 1),
    values=values(atp.VALUES, atp.VALUES), key=st.integers(0, 2**64 - 1), length=u32, flags=octet,
))  # fmt: skip
def test_scapy_and_the_codec_of_atp_agree(packet: AtpPacket) -> None:
    datagram = packet.build()
    check_codec(atp_layer, datagram)
    layer = atp_layer.ATP(datagram)
    flags = [layer.is_ack, layer.collided, layer.is_resent, layer.ecn, layer.overflow]
    of_packet = (atp.ACK, atp.COLLISION, atp.RESEND, atp.ECN, atp.OVERFLOW)
    assert flags == [packet.has(flag) for flag in of_packet]
    assert (layer.server, layer.second_cell) == (packet.flags >> 5 & 3, packet.cell + atp.CELLS)


@given(st.builds(
    SwitchMLPacket, chunk=u32, slot=st.integers(0, switchml.SLOTS - 1), set=st.integers(0, 1),
    values=values(switchml.VALUES, switchml.VALUES), exponents=st.tuples(exponents, exponents), job=octet,
    size=st.just(switchml.SIZE),
))  # fmt: skip
def test_scapy_and_the_codec_of_switchml_agree(packet: SwitchMLPacket) -> None:
    datagram = packet.build()
    check_codec(switchml_layer, datagram)
    layer = switchml_layer.SwitchMLLayer(datagram)
    assert (layer.kind, layer.size, layer.set, layer.slot) == (1, 1, packet.set, packet.slot)
    assert tuple(layer.exponents) == packet.exponents


@pytest.mark.parametrize(
    ("layer", "octets"),
    [
        (dense_layer, dense.HEADER.size - 1),
        (dense_layer, dense.HEADER.size + 3),
        (atp_layer, atp.OCTETS - 1),
        (switchml_layer, switchml.OCTETS - 1),
    ],
)
def test_an_invalid_packet_is_decoded_as_empty(layer: ModuleType, octets: int) -> None:
    assert layer.decode_with_scapy(bytes(octets)) == b""
