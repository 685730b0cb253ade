"""Malformed datagrams and frames are refused with the full reason."""

from __future__ import annotations

import struct
from dataclasses import replace

import numpy as np
import pytest

from foundation.errors import MalformedDatagram
from foundation.protocol import codec, control, frames, header
from foundation.protocol.codec import Message
from foundation.protocol.control import MAX_KEYS, MAX_VALUES_KEYS, Command, Control, Status
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    HEADER_BYTES,
    KEYS,
    LAYOUT,
    RESPONSE,
    VALUES,
    VERSION,
    Header,
    Op,
    check,
)
from switch_harness.wording import mentions
from tests.harness import scapy_messages
from tests.harness.snapshots import exactly

END = UdpEndpoint("02:00:00:00:01:01", "10.0.1.1", 5001)
FRAME = frames.build(UdpFrame(END, END._replace(port=7), b"payload"))


WITHOUT_LANES = {"op": Op.CONTROL, "flags": 0}
BITMAPS = "bitmaps disagree: count 2, live"


@pytest.mark.parametrize(
    ("changes", "octets", "text"),
    [
        ({"version": 1}, 16, f"version is 1, not {VERSION}"),
        ({"op": 9}, 16, "op 9 with flags 0x0002 is no RPC"),
        ({"flags": 0x10}, 16, "op 1 with flags 0x0010 is no RPC"),
        ({**WITHOUT_LANES, "live": 0}, 16, "expected a CONTROL without lanes, got count 2 and live 0x0"),
        ({**WITHOUT_LANES, "count": 0}, 0, "expected a CONTROL without lanes, got count 0 and live 0x3"),
        ({"count": 33}, 33 * 8, "count is 33 at dim 1, not 0..32"),
        ({"dim": 3}, 16, "dim is 3, not 1, 4, 8, 16, 32, 64, 128"),
        ({"dim": 128}, 16, "count is 2 at dim 128, not 0..1"),
        ({}, 15, f"{HEADER_BYTES + 15} bytes, not {HEADER_BYTES + 16} for 2 lanes"),
        ({}, 17, f"{HEADER_BYTES + 17} bytes, not {HEADER_BYTES + 16} for 2 lanes"),
        ({"flags": KEYS | VALUES}, 16, f"{HEADER_BYTES + 16} bytes, not {HEADER_BYTES + 24} for 2 lanes"),
        ({"live": 4}, 16, f"{BITMAPS} 0x4, served 0x0, refused 0x0"),
        ({"live": 1, "served": 2}, 16, f"{BITMAPS} 0x1, served 0x2, refused 0x0"),
        ({"refused": 1}, 16, f"{BITMAPS} 0x3, served 0x0, refused 0x1"),
        ({"live": 0}, 16, "op 1 with count 2 and live 0x0"),
        ({"op": Op.EMPTY, "flags": 0, "live": 0}, 0, "op 3 with count 2 and live 0x0"),
    ],
)
def test_a_wrong_header_is_refused_with_the_reason(changes: dict[str, int], octets: int, text: str) -> None:
    wrong = Header(flags=KEYS, count=2, live=3)._replace(**changes)
    datagram = LAYOUT.pack(*wrong) + bytes(octets)
    with pytest.raises(MalformedDatagram, match=exactly(text)):
        codec.parse(datagram)
    with pytest.raises(MalformedDatagram):
        scapy_messages.parse(datagram)


@pytest.mark.parametrize(
    ("served", "refused", "is_right"),
    [(0b01, 0b10, True), (0b00, 0b11, True), (0b01, 0b01, False), (0b00, 0b100, False), (0b11, 0, True)],
)
def test_an_answer_refuses_live_unserved_lanes_only(served: int, refused: int, is_right: bool) -> None:
    answer = Header(op=Op.PUSH, flags=RESPONSE, count=2, live=0b11, served=served, refused=refused)
    if is_right:
        check(answer, HEADER_BYTES)
    else:
        with pytest.raises(MalformedDatagram, match=r"^bitmaps disagree"):
            check(answer, HEADER_BYTES)


def test_bitmaps_of_all_lanes_and_of_no_lanes_are_accepted() -> None:
    check(Header(flags=KEYS, count=32, live=2**32 - 1), HEADER_BYTES + 32 * 8)
    check(Header(op=Op.EMPTY), HEADER_BYTES)
    check(Header(op=Op.CONTROL, worker=CONTROLLER_CALLER), 1000)


def test_a_datagram_shorter_than_a_header_is_refused() -> None:
    text = f"{HEADER_BYTES - 1} bytes, less than the header's {HEADER_BYTES}"
    for parse in (header.unpack, codec.parse):
        with pytest.raises(MalformedDatagram, match=exactly(text)):
            parse(bytes(HEADER_BYTES - 1))
    assert header.unpack(codec.build(Message(Header(op=Op.EMPTY, seq=3)))).seq == 3


def command(code: Command, keys: int, *, answer: Status | None = None, values: bool = False) -> bytes:
    numbers = np.arange(keys, dtype=np.uint64)
    made = Control(code, 1, 2, 3, 4, numbers)
    if answer is not None:
        made = made.answer(answer, numbers.astype(np.uint32) if values else None)
    return control.build(made)


def test_control_messages_have_the_documented_bytes() -> None:
    """Behind the header: command, status, two zeros, n; then keys, and the values of an answer to VALUES."""
    request = command(Command.VALUES, 2)
    assert header.unpack(request) == Header(
        op=Op.CONTROL, job=1, worker=CONTROLLER_CALLER, epoch=3, ps=2, seq=4
    )
    assert request[HEADER_BYTES:] == struct.pack("!BBHIQQ", 3, 0, 0, 2, 0, 1)
    answer = command(Command.VALUES, 2, answer=Status.OK, values=True)
    assert header.unpack(answer).flags == RESPONSE
    assert answer[HEADER_BYTES:] == struct.pack("!BBHIQQII", 3, 0, 0, 2, 0, 1, 0, 1)
    assert command(Command.SEED, 2, answer=Status.NO_ENTRY)[HEADER_BYTES:] == struct.pack("!BBHI", 1, 2, 0, 2)


def test_a_control_message_is_parsed_into_its_fields() -> None:
    request = control.parse(command(Command.SEED, 3))
    fields = request.job, request.ps, request.epoch, request.seq
    assert (request.command, fields) == (Command.SEED, (1, 2, 3, 4))
    assert (request.is_answer, request.status, request.values) == (False, Status.OK, None)
    assert request.keys.tolist() == [0, 1, 2]
    assert request.identity == (3, 4)
    answer = control.parse(command(Command.VALUES, 3, answer=Status.OK, values=True))
    assert answer.is_answer and answer.values is not None
    assert (answer.keys.tolist(), answer.values.tolist()) == ([0, 1, 2], [0, 1, 2])
    refused = control.parse(command(Command.VALUES, 3, answer=Status.NOT_OWNED))
    assert (refused.status, refused.keys.tolist(), refused.values) == (Status.NOT_OWNED, [], None)
    assert refused.keys.dtype == np.uint64


@pytest.mark.parametrize(
    ("code", "maximum"),
    [(Command.SEED, MAX_KEYS), (Command.COLLECT, MAX_KEYS), (Command.VALUES, MAX_VALUES_KEYS)],
)
def test_a_command_has_a_maximum_number_of_keys(code: Command, maximum: int) -> None:
    assert len(control.parse(command(code, maximum)).keys) == maximum
    text = rf"^{code.name} with {maximum + 1} keys \(at most {maximum}\), status 0$"
    with pytest.raises(MalformedDatagram, match=text):
        control.parse(command(code, maximum + 1))
    with pytest.raises(MalformedDatagram, match=mentions("HELLO", 1, 0)):
        control.parse(command(Command.HELLO, 1))


@pytest.mark.parametrize("epoch", [2**32, 2**64 - 1])
def test_an_epoch_has_32_bits(epoch: int) -> None:
    renew = Control(Command.RENEW, 1, 2, 3, 4, np.array([7], np.uint64))
    assert control.parse(control.build(renew)).keys.tolist() == [7]
    text = f"RENEW of the epoch {epoch}, which is no number of 32 bits"
    with pytest.raises(MalformedDatagram, match=exactly(text)):
        control.parse(control.build(replace(renew, keys=np.array([epoch], np.uint64))))


@pytest.mark.parametrize(
    ("code", "keys", "needed"), [(Command.RENEW, 0, 1), *((Command.BUSIEST, keys, 2) for keys in (0, 1, 3))]
)
def test_the_argument_of_a_command_without_keys_is_required(code: Command, keys: int, needed: int) -> None:
    assert len(control.parse(command(code, needed)).keys) == needed
    with pytest.raises(MalformedDatagram, match=rf"^{code.name} with {keys} keys, not {needed}$"):
        control.parse(command(code, keys))


@pytest.mark.parametrize("keys", [0, 1, MAX_VALUES_KEYS])
def test_the_busiest_have_counts(keys: int) -> None:
    answer = control.parse(command(Command.BUSIEST, keys, answer=Status.OK, values=True))
    assert answer.values is not None
    assert answer.keys.tolist() == answer.values.tolist() == list(range(keys))
    with pytest.raises(MalformedDatagram, match=mentions("BUSIEST", 114, 113, 0)):
        control.parse(command(Command.BUSIEST, MAX_VALUES_KEYS + 1, answer=Status.OK, values=True))


SEED = command(Command.SEED, 2)
ANSWER = command(Command.SEED, 2, answer=Status.OK)
OF_VALUES = command(Command.VALUES, 2, answer=Status.OK, values=True)


@pytest.mark.parametrize(
    ("datagram", "octets", "text"),
    [
        (SEED[: HEADER_BYTES + 7], 7, "too short for a CONTROL"),
        (SEED[:-1], 23, f"not {HEADER_BYTES + 24} for a SEED of 2 keys"),
        (SEED + b"!", 25, f"not {HEADER_BYTES + 24} for a SEED of 2 keys"),
        (ANSWER + b"!", 9, f"not {HEADER_BYTES + 8} for a SEED of 2 keys"),
        (OF_VALUES[:-4], 28, f"not {HEADER_BYTES + 32} for a VALUES of 2 keys"),
    ],
    ids=["head", "short", "long", "long answer", "short answer"],
)
def test_a_control_message_of_a_wrong_length_is_refused(datagram: bytes, octets: int, text: str) -> None:
    with pytest.raises(MalformedDatagram, match=exactly(f"{HEADER_BYTES + octets} bytes, {text}")):
        control.parse(datagram)


@pytest.mark.parametrize(
    ("at", "value", "text"),
    [
        (0, 10, "CONTROL: 10 is not a valid Command"),
        (1, 9, "CONTROL: 9 is not a valid Status"),
        (1, 2, "SEED with 2 keys (at most 128), status 2"),
        (2, 1, "SEED: expected 0 in the field `zero`, got 256"),
        (3, 1, "SEED: expected 0 in the field `zero`, got 1"),
    ],
)
def test_a_control_message_with_a_wrong_byte_is_refused(at: int, value: int, text: str) -> None:
    datagram = bytearray(SEED)
    datagram[HEADER_BYTES + at] = value
    with pytest.raises(MalformedDatagram, match=exactly(text)):
        control.parse(bytes(datagram))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"worker": 7}, "op 4 of worker 0x7 is no CONTROL"),
        ({"op": Op.EMPTY, "worker": CONTROLLER_CALLER}, "op 3 of worker 0xffff is no CONTROL"),
    ],
)
def test_a_control_comes_from_the_controller(changes: dict[str, int], text: str) -> None:
    rpc = Header(op=Op.CONTROL, worker=CONTROLLER_CALLER)._replace(**changes)
    with pytest.raises(MalformedDatagram, match=exactly(text)):
        control.parse(LAYOUT.pack(*rpc))


def changed(at: int, value: bytes) -> bytes:
    return FRAME[:at] + value + FRAME[at + len(value) :]


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (FRAME[:41], "a frame of 41 bytes holds no UDP datagram"),
        (changed(12, b"\x86\xdd"), "ethertype 0x86dd, protocol 17: no UDP over plain IPv4"),
        (changed(14, b"\x46"), "ethertype 0x0800, protocol 17: no UDP over plain IPv4"),
        (changed(23, b"\x06"), "ethertype 0x0800, protocol 6: no UDP over plain IPv4"),
        (FRAME + b"!", "lengths disagree: frame 50, IPv4 35, UDP 15"),
        (changed(16, b"\x00\x24"), "lengths disagree: frame 49, IPv4 36, UDP 15"),
        (changed(38, b"\x00\x10"), "lengths disagree: frame 49, IPv4 35, UDP 16"),
    ],
)
def test_a_frame_without_a_valid_udp_datagram_is_refused(frame: bytes, text: str) -> None:
    with pytest.raises(MalformedDatagram, match=exactly(text)):
        frames.parse(frame)


def test_a_frame_has_the_documented_bytes() -> None:
    """Ethernet, IPv4 without options (TTL 64, protocol 17), UDP without a checksum."""
    source, destination = END, UdpEndpoint("02:00:00:00:03:fe", "10.0.3.254", 7)
    frame = frames.build(UdpFrame(source, destination, b"payload"))
    assert frame[:14].hex() == "0200000003fe0200000001010800"
    without_checksum = frame[14:24] + bytes(2) + frame[26:34]
    assert without_checksum.hex() == "4500002300000000401100000a0001010a0003fe"
    words = struct.unpack("!10H", frame[14:34])
    assert sum(words) % 0xFFFF == 0 and words[5] != 0
    assert frame[34:] == struct.pack("!HHHH", 5001, 7, 15, 0) + b"payload"
    assert len(frame) == frames.FRAME_OVERHEAD + len(b"payload")
    assert frames.parse(frame) == (source, destination, b"payload")
    assert frames.parse(frames.build(UdpFrame(source, destination, b""))).payload == b""


def test_a_checksum_that_carries_twice_is_right() -> None:
    for low in range(256):
        end = UdpEndpoint("02:00:00:00:01:01", f"255.255.255.{low}", 1)
        frame = frames.build(UdpFrame(end, end, b""))
        total = sum(struct.unpack("!10H", frame[14:34]))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        assert total == 0xFFFF
