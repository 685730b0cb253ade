"""Scapy's layer reads captured RPCs, and forges them."""

from __future__ import annotations

import numpy as np
import pytest
from scapy.layers.inet import UDP
from scapy.packet import Raw

from foundation.protocol import codec, control, header
from foundation.protocol.codec import Message
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    HEADER_BYTES,
    KEYS,
    LAYOUT,
    NO_KEY,
    REPLAY,
    RESPONSE,
    VALUES,
    VERSION,
    Header,
    Op,
    layout,
    offset_of,
)
from hosts.scapy.packets import Hotline, HotlineControl

KEYS_OF_IT = np.array([7, NO_KEY], dtype=np.uint64)
PUSH = Message(
    Header(op=Op.PUSH, flags=KEYS | VALUES, job=1, worker=2, count=2, live=1, served=1, seq=64),
    KEYS_OF_IT,
    np.array([5, 0], dtype=np.uint32),
)


def shown(packet: Hotline) -> list[str]:
    """Return the lines of `packet.show()` without alignment."""
    text = packet.show(dump=True)
    assert text is not None
    return [" ".join(line.split()) for line in text.splitlines()]


def test_scapy_shows_the_fields_keys_and_values_of_a_push() -> None:
    lines = shown(Hotline(codec.build(PUSH)))
    assert lines[0] == "###[ Hotline ]###"
    message = {f"version = {VERSION}", "op = push", "flags = KEYS+VALUES", "live = 0x1", "served = 0x1"}
    assert message | {"seq = 64"} <= set(lines)
    assert f"keys = [7, {NO_KEY}]" in lines and "values = [5, 0]" in lines


@pytest.mark.parametrize(
    ("flags", "name"),
    [(RESPONSE, "RESPONSE"), (KEYS, "KEYS"), (VALUES, "VALUES"), (REPLAY, "REPLAY"), (0, "")],
)
def test_scapy_shows_flags_by_name(flags: int, name: str) -> None:
    assert str(Hotline(LAYOUT.pack(*Header(flags=flags))).flags) == name


@pytest.mark.parametrize("op", list(Op))
def test_scapy_shows_operations_by_name(op: Op) -> None:
    assert f"op = {op.name.lower()}" in shown(Hotline(op=op))


@pytest.mark.parametrize("command", list(Command))
def test_scapy_shows_a_command_with_its_keys(command: Command) -> None:
    keys = np.arange(0 if command in control.WITHOUT_KEYS else 3, dtype=np.uint64)
    lines = shown(Hotline(control.build(Control(command, 1, 2, 3, 4, keys))))
    at = lines.index("###[ HotlineControl ]###")
    message = [f"code = {command.name.lower()}", "status = 0", "reserved = 0", f"n = {len(keys)}"]
    assert lines[at + 1 : at + 5] == message
    assert f"keys = {keys.tolist()}" in lines[at:]


def test_a_command_of_the_most_keys_is_shown_whole() -> None:
    keys = np.arange(control.MAX_KEYS, dtype=np.uint64)
    body = Hotline(control.build(Control(Command.SEED, 1, 2, 3, 4, keys)))[HotlineControl]
    assert body.keys == keys.tolist()


def test_a_forged_rpc_has_default_fields_and_a_computed_count() -> None:
    """A CONTROL counts its keys."""
    forged = Hotline()
    assert {name: int(forged.getfieldval(name)) for name in Header._fields} == Header()._asdict()
    assert bytes(forged) == LAYOUT.pack(*Header())
    rpc = Hotline(op=Op.CONTROL, worker=CONTROLLER_CALLER, job=1, ps=2, epoch=3, seq=4)
    command = HotlineControl(code=Command.SEED, keys=[5, 2**63])
    assert control.parse(bytes(rpc / command)).keys.tolist() == [5, 2**63]
    hello = control.parse(bytes(rpc / HotlineControl()))
    assert (hello.command, hello.status, hello.keys.tolist()) == (Command.HELLO, Status.OK, [])


def test_padding_after_an_rpc_is_not_part_of_the_rpc() -> None:
    """Ethernet pads short frames."""
    rpc = Hotline(codec.build(PUSH) + b"padding")
    assert (rpc.keys, rpc.values) == (KEYS_OF_IT.tolist(), [5, 0])
    assert bytes(rpc.payload) == b"padding"


@pytest.mark.parametrize("is_answer", [False, True])
def test_only_an_answer_to_values_has_values(is_answer: bool) -> None:
    request = Control(Command.VALUES, 1, 2, 3, 4, np.array([5, 6], dtype=np.uint64))
    made = request.answer(Status.OK, np.array([7, 8], dtype=np.uint32)) if is_answer else request
    body = Hotline(control.build(made) + bytes(12))[HotlineControl]
    assert body.keys == [5, 6]
    assert body.values == ([7, 8] if is_answer else None)
    assert bytes(body[Raw]) == bytes(12)
    seed = Hotline(control.build(Control(Command.SEED, 1, 2, 3, 4, request.keys)) + bytes(8))[HotlineControl]
    assert seed.values is None and bytes(seed[Raw]) == bytes(8)


@pytest.mark.parametrize(("source", "to"), [(header.HOTLINE_PORT, 20_001), (20_001, header.HOTLINE_PORT)])
def test_a_datagram_of_our_port_is_an_rpc(source: int, to: int) -> None:
    datagram = bytes(UDP(sport=source, dport=to) / Hotline(seq=9))
    assert UDP(datagram)[Hotline].seq == 9
    assert Hotline not in UDP(bytes(UDP(sport=20_001, dport=20_002) / bytes(HEADER_BYTES)))


@pytest.mark.parametrize("lanes", [8, 16, 32, 64])
def test_bitmaps_have_a_bit_a_lane(lanes: int) -> None:
    full = 2**lanes - 1
    packed = layout(lanes).pack(*Header(live=full, served=full, refused=full))
    at = offset_of("live", lanes)
    assert packed[at : at + 3 * lanes // 8] == b"\xff" * (3 * lanes // 8)
    found = Header._make(layout(lanes).unpack(packed))
    assert (found.live, found.served, found.refused) == (full, full, full)
