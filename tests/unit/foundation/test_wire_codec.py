"""Codec, Scapy and agents read and write the same bytes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from foundation.compiled import entry_point
from foundation.errors import MalformedDatagram
from foundation.protocol import codec, control, frames
from foundation.protocol.codec import Message
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.header import (
    HEADER_BYTES,
    KEYS,
    LANES,
    LAYOUT,
    RESPONSE,
    SHAPES,
    VALUES,
    VERSION,
    Header,
    Op,
    bits_of_fields,
    check,
)
from foundation.protocol.rpc import BUFFER_BYTES, Request, decode, encode, is_well_formed, rpcs
from hosts.scapy.packets import Hotline, HotlineControl
from nativekit.plain import plain
from tests.harness import scapy_messages
from tests.harness.wire import is_rpc

U16, U32, U64 = (st.integers(0, 2**bits - 1) for bits in (16, 32, 64))


@st.composite
def messages(draw: st.DrawFn) -> Message:
    op, flags = draw(st.sampled_from(sorted(SHAPES)))
    count = 0 if op == Op.EMPTY else draw(st.integers(1, LANES))
    live = draw(st.integers(1, 2**count - 1)) if count else 0
    served = draw(U32) & live
    of_16 = {name: draw(U16) for name in ("job", "worker", "ps")}
    of_32 = {name: draw(U32) for name in ("epoch", "seq", "iteration", "ps_proc", "ps_queue", "residence")}
    refused = draw(U32) & live & ~served if flags & RESPONSE else 0
    bitmaps = {"live": live, "served": served, "refused": refused}
    header = Header(op=op, flags=flags, count=count, t0=draw(U64), **of_16, **of_32, **bitmaps)
    keys = np.array(draw(st.lists(U64, min_size=count, max_size=count)), dtype=np.uint64)
    values = np.array(draw(st.lists(U32, min_size=count, max_size=count)), dtype=np.uint32)
    return Message(header, keys if flags & KEYS else None, values if flags & VALUES else None)


def same(left: Message, right: Message) -> bool:
    return left.header == right.header and all(
        (a is None) == (b is None) and (a is None or b is None or np.array_equal(a, b))
        for a, b in ((left.keys, right.keys), (left.values, right.values))
    )


@given(messages())
def test_the_codec_and_scapy_build_and_parse_the_same_bytes(message: Message) -> None:
    datagram = codec.build(message)
    assert datagram == scapy_messages.build(message)
    assert same(codec.parse(bytes(datagram)), message)
    assert same(scapy_messages.parse(bytes(datagram)), message)


HEADERS = st.builds(
    Header,
    **{name: st.integers(0, 2**bits - 1) for name, bits in bits_of_fields().items()}
    | {"version": st.sampled_from([VERSION, VERSION, VERSION, 1])},
)
"""Any headers; hardly any is an RPC's."""


@entry_point
def read(rpc: Any) -> Header:
    header: Header = decode(rpc[0])
    return header


@entry_point
def judge(rpc: Any, length: int) -> bool:
    return is_well_formed(decode(rpc[0]), length)


_read, _judge = plain(read), plain(judge)


@given(HEADERS)
def test_agents_read_all_fields(header: Header) -> None:
    """Their 64 bits are signed."""
    buffer = rpcs(1)
    buffer.view(np.uint8)[:HEADER_BYTES] = np.frombuffer(LAYOUT.pack(*header), np.uint8)
    for found in (read(buffer), _read(buffer)):
        assert found._replace(t0=int(found.t0) % 2**64) == header


@entry_point
def write(rpc: Any, op: int, job: int, dim: int, live: int, t0: int) -> None:
    line = Request(
        op=op, flags=6, job=job, worker=2, epoch=3, ps=4, count=5, dim=dim, seq=6, iteration=7, live=live,
        t0=t0,
    )  # fmt: skip
    encode(rpc[0], line)


_write = plain(write)


@given(HEADERS)
def test_agents_write_exactly_the_header_of_a_request(header: Header) -> None:
    line = dict(op=header.op, job=header.job, dim=header.dim, live=header.live, t0=header.t0 % 2**63)
    wanted = Header(flags=6, worker=2, epoch=3, ps=4, count=5, seq=6, iteration=7, **line)
    for function in (write, _write):
        buffer = rpcs(1)
        buffer.view(np.uint8)[:] = 0xFF
        function(buffer, *line.values())
        written = buffer.view(np.uint8).tobytes()
        assert written == LAYOUT.pack(*wanted) + b"\xff" * (BUFFER_BYTES - HEADER_BYTES)


@given(st.one_of(HEADERS, messages().map(lambda message: message.header)), st.data())
def test_the_compiled_check_of_rpcs_equals_plain_rules(header: Header, data: st.DataObject) -> None:
    """Compares the agents' compiled rules, and `check`, with plain ones."""
    field, length = data.draw(st.sampled_from(Header._fields)), HEADER_BYTES + header.count % 34 * 4
    near = header._replace(**{field: data.draw(st.integers(0, 2 ** min(bits_of_fields()[field], 8) - 1))})
    for one, size in ((header, length), (near, length), (header, data.draw(st.integers(0, 500)))):
        for lanes in (size, *(HEADER_BYTES + one.count * octets for octets in (0, 4, 8, 12))):
            buffer = rpcs(1)
            buffer.view(np.uint8)[:HEADER_BYTES] = np.frombuffer(LAYOUT.pack(*one), np.uint8)
            right = is_rpc(one, lanes)
            assert judge(buffer, lanes) == _judge(buffer, lanes) == right
            with nullcontext() if right else pytest.raises(MalformedDatagram):
                check(one, lanes)


@pytest.mark.parametrize("command", list(Command))
@pytest.mark.parametrize("status", list(Status))
def test_control_messages_equal_scapys(command: Command, status: Status) -> None:
    n = 0 if command in control.WITHOUT_KEYS else 1 if command in control.WITH_EPOCH else 2
    keys = np.array([3, 2**63][:n], dtype=np.uint64)
    request = Control(command, 1, 2, 3, 4, keys)
    has_values = command in (Command.VALUES, Command.BUSIEST) and status is Status.OK
    values = keys.astype(np.uint32) if has_values else None
    answer = request.answer_stale(2**32 - 1) if status is Status.STALE else request.answer(status, values)
    for one in (request, answer):
        datagram = control.build(one)
        back = control.parse(datagram)
        assert (back.command, back.status, back.seq, back.is_answer) == (
            command,
            one.status,
            4,
            one.is_answer,
        )
        if not one.is_answer or values is not None:
            assert back.keys.tolist() == keys.tolist()
            packet = Hotline(datagram)
            assert bytes(packet) == datagram and packet[HotlineControl].keys == keys.tolist()
        if values is not None and one.is_answer:
            assert back.values is not None and back.values.tolist() == values.tolist()
            assert packet[HotlineControl].values == values.tolist()
        if one.status is Status.STALE:
            assert back.keys.tolist() == Hotline(datagram)[HotlineControl].keys == [2**32 - 1]


def test_frames_equal_scapys() -> None:
    source = UdpEndpoint("02:00:00:00:01:01", "10.0.1.1", 65_535)
    destination = UdpEndpoint("02:00:00:00:03:01", "10.0.3.1", 5001)
    payload = bytes(codec.build(Message(Header(op=Op.EMPTY, seq=64))))
    frame = frames.build(UdpFrame(source, destination, payload))
    packet = Ether(frame)
    assert packet[IP].src == "10.0.1.1" and packet[UDP].dport == 5001 and packet[Hotline].seq == 64
    checksum = packet[IP].chksum
    del packet[IP].chksum
    assert Ether(bytes(packet))[IP].chksum == checksum
