"""Hotline's packets as Scapy layers: what each field means, and which packets are well-formed.

An RPC is one UDP datagram: a header, then `count` keys if the flag KEYS is set, then `count` values if VALUES
is. A *lane* is a position in these lists, and a *bitmap* has a bit for each lane. All numbers are in network
order. Only `scapy.packet`, `scapy.fields` and the IP layers are imported: `scapy.all` takes a second.
"""

from __future__ import annotations

import struct
from typing import Any, ClassVar, NamedTuple

from scapy.config import conf
from scapy.fields import (
    ByteEnumField,
    ByteField,
    ConditionalField,
    FieldLenField,
    FieldListField,
    FlagsField,
    IntField,
    LongField,
    ShortField,
    XBitField,
)
from scapy.layers.inet import IP, UDP
from scapy.packet import NoPayload, Packet, Raw, bind_layers

from foundation.protocol.control import MAX_KEYS, SLOTS, Command, Status, max_values_keys
from foundation.protocol.header import (
    CONTROLLER_CALLER,
    DIMS,
    FIRST,
    HOTLINE_PORT,
    KEYS,
    LANES,
    NO_KEY,
    PS_CALLER_BASE,
    PS_RPC_PORT,
    REPLAY,
    RESPONSE,
    SECOND,
    SET,
    STATE,
    VALUES,
    VERSION,
    WINDOW,
    Op,
    lanes_of_dim,
)

__all__ = [
    "CONTROLLER_CALLER", "HOTLINE_PORT", "KEYS", "LANES", "NO_KEY", "PS_CALLER_BASE", "PS_RPC_PORT",
    "RESPONSE", "SLOTS", "VALUES", "VERSION", "WINDOW", "Address", "Command", "Hotline", "HotlineControl",
    "Op", "Status",
]  # fmt: skip

HEADER_BYTES = 56
_TIMES = struct.Struct("!II")  # `ps_proc` and `ps_queue`
_TIMES_OFFSET = 44
_MAX_NS = 2**32 - 1  # of a field with a time
conf.max_list_count = 2**14  # more items than a datagram has; Scapy raises an error for longer lists
_FLAG_NAMES = ["RESPONSE", "KEYS", "VALUES", "SET", "FIRST", "SECOND", "REPLAY"]  # from bit 0 on


class Address(NamedTuple):
    """An IPv4 address and a UDP port."""

    ip: str
    port: int


class Hotline(Packet):
    """A request of a worker or of a parameter server (PS), or its answer.

    An answer repeats the request's fields up to `t0`, but for the flags and the bitmaps `served` and
    `refused`. A pull's answer has the values and no keys, a push's answer has neither.
    """

    name = "Hotline"
    fields_desc: ClassVar[list[Any]] = [
        # Version of the protocol. Agents do not answer datagrams of another version.
        ByteField("version", VERSION),
        # PULL asks for values, PUSH adds to values, EMPTY measures the network, CONTROL is a command of the
        # controller, and a `HotlineControl` follows the header.
        ByteEnumField("op", int(Op.PULL), {op.value: op.name.lower() for op in Op}),
        # RESPONSE marks an answer, KEYS and VALUES say which lists follow. The other flags are for servers
        # with optimisers, and for the recovery from a lost switch.
        FlagsField("flags", 0, 16, _FLAG_NAMES),
        # An arm of an experiment is a job: it has its own parameters, slots and table entries.
        ShortField("job", 0),
        # Number of the caller: a worker, or `PS_CALLER_BASE` + number of a PS that moves keys.
        ShortField("worker", 0),
        # Another epoch makes another caller, whose sequence numbers begin anew.
        IntField("epoch", 0),
        # Number of the PS that serves the lanes that the switch does not serve.
        ShortField("ps", 0),
        # Number of lanes.
        ByteField("count", 0),
        # Values of the row in each lane.
        ByteField("dim", 1),
        # Slot + 64 * turn. A caller uses a slot again, in the next turn, after its RPC is answered.
        IntField("seq", 0),
        # Training step. In a caller's question about a lost push: the `seq` of that push.
        IntField("iteration", 0),
        # Bitmap of the lanes that have a key.
        XBitField("live", 0, LANES),
        # Bitmap of the lanes that the switch has served.
        XBitField("served", 0, LANES),
        # Bitmap of the lanes that the PS does not serve, because it has given the key to the switch, or
        # never had it.
        XBitField("refused", 0, LANES),
        # The caller's clock when it sent the request for the first time, in ns.
        LongField("t0", 0),
        # Time that the PS processed the request, in ns.
        IntField("ps_proc", 0),
        # Time that the request waited at the PS, in ns.
        IntField("ps_queue", 0),
        # Time of the request and its answer in the switch, in µs.
        IntField("residence", 0),
        # Parameter of each lane; `NO_KEY` if the lane is not live.
        ConditionalField(
            FieldListField("keys", [], LongField("key", NO_KEY), count_from=lambda packet: packet.count),
            lambda packet: bool(packet.flags & KEYS),
        ),
        # What a push adds to each row, or the rows in the answer to a pull, one after the other: 32-bit fixed
        # point that wraps. A pull that the switch has served in part goes on to the PS with its values.
        ConditionalField(
            FieldListField(
                "values", [], IntField("value", 0), count_from=lambda packet: packet.count * packet.dim
            ),
            lambda packet: bool(packet.flags & VALUES),
        ),
    ]


_WITHOUT_KEYS = {Command.HELLO, Command.PUBLISH, Command.HOLD}
_WITH_EPOCH = {Command.RENEW, Command.SETTLE}
_WITH_VALUES = {Command.VALUES, Command.BUSIEST}
_KEYS_OF_REQUEST = {**dict.fromkeys(_WITH_EPOCH, 1), Command.BUSIEST: 2}


def _has_values(packet: Packet) -> bool:
    header = packet.underlayer
    is_answer = header is not None and header.flags & RESPONSE
    return bool(is_answer and packet.code in _WITH_VALUES and packet.status == Status.OK)


def _count_values(packet: Packet) -> int:
    """Return the number of values of an answer: rows of the header's dim, or a count for each key."""
    header = packet.underlayer
    dim = header.dim if header is not None and packet.code == Command.VALUES else 1
    return int(packet.n * dim)


def _max_keys(command: Packet, dim: int) -> int:
    if command.status == Status.STALE or command.code in _WITHOUT_KEYS | _WITH_EPOCH:
        return int(command.status == Status.STALE or command.code in _WITH_EPOCH)
    return max_values_keys(dim) if command.code in _WITH_VALUES else MAX_KEYS


class HotlineControl(Packet):
    """A command of the controller to a PS, or the answer, after a header with the op CONTROL.

    The header's `job` and `ps` name the owner of the keys, its `seq` is slot + 4 * number of the command in
    that slot. The controller repeats a command until it is answered.
    """

    name = "HotlineControl"
    fields_desc: ClassVar[list[Any]] = [
        # SEED moves keys into the switch, COLLECT moves them back; `Command` documents the others.
        ByteEnumField("code", int(Command.HELLO), {each.value: each.name.lower() for each in Command}),
        # OK, NOT_OWNED, NO_ENTRY or STALE (`Status`); 0 in a request.
        ByteField("status", 0),
        ShortField("reserved", 0),
        # Number of keys, also in an answer that does not repeat them.
        FieldLenField("n", None, fmt="!I", count_of="keys"),
        ConditionalField(
            FieldListField("keys", [], LongField("key", 0), count_from=lambda packet: packet.n),
            lambda packet: _has_values(packet) or not _is_answer(packet) or packet.status == Status.STALE,
        ),
        # In the answer to VALUES or BUSIEST.
        ConditionalField(
            FieldListField("values", [], IntField("value", 0), count_from=_count_values), _has_values
        ),
    ]


def _is_answer(packet: Packet) -> bool:
    header = packet.underlayer
    return bool(header is not None and header.flags & RESPONSE)


bind_layers(UDP, Hotline, dport=HOTLINE_PORT)
bind_layers(UDP, Hotline, sport=HOTLINE_PORT)
bind_layers(Hotline, HotlineControl, op=int(Op.CONTROL))


def packet_of(datagram: bytes, source: Address, destination: Address) -> Packet:
    """Return a received datagram as IP / UDP / Hotline; / Raw if Scapy cannot dissect it."""
    try:
        payload: Packet = Hotline(datagram)
    except struct.error:  # the datagram ends within a field
        payload = Raw(datagram)
    return address(payload, source, destination)


def address(payload: Packet, source: Address, destination: Address) -> Packet:
    """Return IP / UDP / payload, with the payload itself: Scapy's `/` would copy each layer."""
    udp = UDP(sport=source.port, dport=destination.port, chksum=0)
    udp.add_payload(payload)
    ip = IP(src=source.ip, dst=destination.ip)
    ip.add_payload(udp)
    return ip


def source_of(packet: Packet) -> Address:
    return Address(packet[IP].src, packet[UDP].sport)


def destination_of(packet: Packet) -> Address:
    return Address(packet[IP].dst, packet[UDP].dport)


def datagram_of(packet: Packet) -> bytes:
    """Return the UDP payload of a packet."""
    return bytes(packet[UDP].payload)


def length_of(rpc: Packet) -> int:
    """Return the length of an RPC's datagram in bytes."""
    return HEADER_BYTES + 8 * len(rpc.keys or ()) + 4 * len(rpc.values or ())


def answer_to(request: Packet, **fields: object) -> Packet:
    """Return the answer to a request, to be sent to its source: the same header but for these fields."""
    header = {field.name: request[Hotline].getfieldval(field.name) for field in Hotline.fields_desc[:-2]}
    return address(Hotline(**{**header, **fields}), destination_of(request), source_of(request))


def stamp(datagram: bytes, ps_proc: int, ps_queue: int) -> bytes:
    """Return an answer's datagram with the PS's two times, in ns, which are known once it is encoded."""
    times = _TIMES.pack(min(ps_proc, _MAX_NS), min(max(ps_queue, 0), _MAX_NS))
    return datagram[:_TIMES_OFFSET] + times + datagram[_TIMES_OFFSET + _TIMES.size :]


# -- rules

_SHAPES = {
    (Op.PULL, KEYS), (Op.PULL, KEYS | VALUES), (Op.PULL, RESPONSE | VALUES),
    (Op.PUSH, KEYS | VALUES), (Op.PUSH, RESPONSE),
    (Op.EMPTY, 0), (Op.EMPTY, RESPONSE),
}  # fmt: skip
"""Pairs of op and flags of well-formed RPCs."""
_OPTIMISER_SHAPES = {
    *((Op.PULL, KEYS | word) for word in (FIRST, SECOND)),
    *((Op.PUSH, KEYS | VALUES | kind) for kind in (SET, SET | FIRST, SET | SECOND, REPLAY)),
}
"""Pairs that only servers with optimisers, and those that publish values, serve."""
_ALL_SHAPES = frozenset(_SHAPES | _OPTIMISER_SHAPES)


def needs_optimiser(rpc: Packet) -> bool:
    """Return whether a request sets values, is about an optimiser's state, or replays updates."""
    return bool(int(rpc.flags) & (SET | STATE | REPLAY))


def fault_of(packet: Packet) -> str | None:
    """Return the first rule that a received packet breaks, in words, or None if it is well-formed."""
    if Hotline not in packet:
        return "it has no complete Hotline header"
    rpc = packet[Hotline]
    op, flags, count, live = rpc.op, int(rpc.flags), rpc.count, rpc.live
    if rpc.version != VERSION:
        return f"its version is {rpc.version}, not {VERSION}"
    if op == Op.CONTROL:
        return _fault_of_control(rpc)
    if (op, flags) not in _ALL_SHAPES:
        return f"op {op} with flags {rpc.flags} is no RPC"
    if rpc.dim not in DIMS:
        return f"dim is {rpc.dim}, not {', '.join(map(str, DIMS))}"
    if count > lanes_of_dim(rpc.dim):
        return f"count is {count} at dim {rpc.dim}, not 0..{lanes_of_dim(rpc.dim)}"
    lists = [(rpc.keys, count), (rpc.values, count * rpc.dim)]
    if any(list_ is not None and len(list_) != length for list_, length in lists) or not isinstance(
        rpc.payload, NoPayload
    ):
        return f"its length does not fit {count} lanes"
    refusable = live & ~rpc.served if flags & RESPONSE else 0
    if op == Op.EMPTY and flags & RESPONSE:  # `refused` is about the lanes of an earlier push
        refusable = 2**LANES - 1
    if live >> count or rpc.served & ~live or rpc.refused & ~refusable:
        return f"bitmaps disagree: count {count}, live {live:#x}, served {rpc.served:#x}"
    if (op == Op.EMPTY) != (live == 0) or (op == Op.EMPTY and count):
        return f"op {op} with count {count} and live {live:#x}"
    return None


def _fault_of_control(rpc: Packet) -> str | None:
    if int(rpc.flags) not in (0, RESPONSE) or rpc.count or rpc.live or rpc.worker != CONTROLLER_CALLER:
        return "expected a CONTROL of the controller without lanes"
    if HotlineControl not in rpc:
        return "the command is not complete"
    command = rpc[HotlineControl]
    if command.code not in set(Command) or command.status not in set(Status) or command.reserved:
        return f"command {command.code} with status {command.status} is unknown"
    if rpc.dim not in (DIMS if command.code == Command.VALUES else (1,)):
        return f"command {command.code} with dim {rpc.dim}"
    is_answer, is_stale, n = bool(rpc.flags & RESPONSE), command.status == Status.STALE, command.n
    if not is_stale <= n <= _max_keys(command, rpc.dim) or (command.status and not is_answer):
        return f"command {command.code} with {n} keys and status {command.status}"
    if not is_answer and n != _KEYS_OF_REQUEST.get(command.code, n):
        return f"command {command.code} with {n} keys"
    lists = [(command.keys, n), (command.values, _count_values(command))]
    has_wrong_list = any(list_ is not None and len(list_) != length for list_, length in lists)
    if has_wrong_list or not isinstance(command.payload, NoPayload):
        return f"its length does not fit {n} keys"
    if (command.code in _WITH_EPOCH or is_stale) and command.keys and command.keys[0] >= 2**32:
        return f"epoch {command.keys[0]} is no number of 32 bits"
    return None
