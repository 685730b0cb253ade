"""The bench's own small programs: L3 forwarding, one exact table, and no P4 work at all."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from softswitch.conformance.client import read_p4info
from softswitch.conformance.encoding import EntityEncoder
from softswitch.ir import Masked
from softswitch.p4runtime.codecs import values
from softswitch.p4runtime.messages import p4r
from softswitch.pipeline import ActionCall, Change, EntryWrite
from switch_bench.workload import (
    EGRESS_BYTES,
    INGRESS,
    RUN_BYTES,
    SEQ_BYTES,
    CompiledProgram,
    Setup,
    Stamp,
    Workload,
)

_COMPILED = Path(__file__).parents[2] / "tests" / "programs" / "compiled"
L3, L2, WIRE = (CompiledProgram(_COMPILED / name) for name in ("l3", "l2", "wire"))
FRAME_BYTES = 128
SHORT_LENGTHS = range(17, 24)
"""Lengths in bits of the few prefixes of `routes` that are shorter than /24."""
_SHORT_ROUTES_PER_LENGTH = 64
FIRST_MAC = 0x02_00_00_00_00_00  # the first locally administered address
_ETHERNET = bytes.fromhex("020000000001 020000000101 0800")
"""Ethernet header of a frame from the first host to the router."""
_IPV4 = struct.Struct("!BBHHHBBH4s4s")
_UDP = struct.Struct("!HHHH")
_IPV4_VERSION_AND_LENGTH, _TTL, _PROTOCOL_UDP = 0x45, 64, 17
_FRAME_OVERHEAD = len(_ETHERNET) + _IPV4.size + _UDP.size
_SEQ_OFFSET = _FRAME_OVERHEAD + RUN_BYTES
_EGRESS_OFFSET = _SEQ_OFFSET + SEQ_BYTES
_STAMP = Stamp(run=_FRAME_OVERHEAD, seq=_SEQ_OFFSET, egress=_EGRESS_OFFSET, t0=_EGRESS_OFFSET + EGRESS_BYTES)
_SOURCE_ADDRESS, _UDP_PORT = "10.0.1.1", 7
_ROUTE_PATTERN = EntryWrite(
    Change.INSERT,
    "L3Ingress.routes",
    (Masked(1 << 24, 0xFF << 24),),
    ActionCall("L3Ingress.next_hop", (FIRST_MAC, 1)),
)
_HOST_PATTERN = EntryWrite(Change.INSERT, "L2Ingress.hosts", (1,), ActionCall("L2Ingress.forward", (1,)))
"""Patterns of insertions: `_Insertions` replaces the key, the prefix length and the port."""
_FRAMES = 504  # a multiple of 1, 7 and 63 egress ports
_ONLY_EGRESS = 2  # port of all entries of `routes` and `hosts`
_LONG_PREFIXES = 1 << 21  # numbers from which the /24 prefixes are drawn, more than `routes` returns
_HOST_NUMBER = 9  # last octet of the destination addresses


def l3(ports: int = 2) -> Workload:
    """Return frames for hosts behind all ports but the first, in turn."""
    egress = tuple(port for port in range(1, ports + 1) if port != INGRESS)
    frames = [_frame(egress[k % len(egress)]) for k in range(_FRAMES)]
    return Workload(f"{FRAME_BYTES} B", frames, _STAMP, egress)


def l3_setup(ports: int = 2) -> Setup:
    """Return a setup that routes a /24 to each port."""
    encode = _Insertions(L3, _ROUTE_PATTERN)
    return Setup(L3, [encode(_prefix(port), port, 24) for port in range(1, ports + 1)])


def wire_setup() -> Setup:
    """Return a setup without tables: frames leave by port 2."""
    return Setup(WIRE, [])


def routes(count: int) -> tuple[Setup, NDArray[np.uint64]]:
    """Return routes to port 2, nearly all of them /24, and their addresses: [count]."""
    encode = _Insertions(L3, _ROUTE_PATTERN)
    # The first octet is the prefix length, or from 128 on for a /24, so no prefixes overlap.
    short = [
        (length << 24 | k << (32 - length), length)
        for length in SHORT_LENGTHS
        for k in range(_SHORT_ROUTES_PER_LENGTH)
    ]
    numbers = np.random.default_rng(1).permutation(_LONG_PREFIXES)[: count - len(short)]
    pairs = short + [(1 << 31 | number << 8, 24) for number in numbers.tolist()]
    updates = [encode(prefix, _ONLY_EGRESS, length) for prefix, length in pairs]
    return Setup(L3, updates), np.array([prefix for prefix, _ in pairs], np.uint64)


def hosts(count: int) -> Iterator[p4r.Update]:
    """Return insertions into the table of L2: hosts at port 2, with the MAC addresses from FIRST_MAC on."""
    encode = _Insertions(L2, _HOST_PATTERN)
    return (encode(mac, _ONLY_EGRESS) for mac in range(FIRST_MAC, FIRST_MAC + count))


def frame_to(source: str, destination: str, egress: int = 0) -> bytes:
    """Return a UDP frame of FRAME_BYTES to an IPv4 address, with its expected egress port in its stamp."""
    payload = bytearray(FRAME_BYTES - _FRAME_OVERHEAD)
    struct.pack_into("!H", payload, _STAMP.egress - _FRAME_OVERHEAD, egress)
    udp_bytes = _UDP.size + len(payload)
    addresses = socket.inet_aton(source), socket.inet_aton(destination)
    # Version and length, DSCP, total length, identification, flags and offset, TTL, protocol.
    head = _IPV4_VERSION_AND_LENGTH, 0, _IPV4.size + udp_bytes, 0, 0, _TTL, _PROTOCOL_UDP
    ipv4 = _IPV4.pack(*head, _checksum(_IPV4.pack(*head, 0, *addresses)), *addresses)
    return _ETHERNET + ipv4 + _UDP.pack(_UDP_PORT, _UDP_PORT, udp_bytes, 0) + payload  # 0: no checksum


def deletions_of(updates: Sequence[p4r.Update]) -> list[p4r.Update]:
    deletions = []
    for update in updates:
        deletion = p4r.Update(type=p4r.Update.DELETE)
        deletion.entity.table_entry.table_id = update.entity.table_entry.table_id
        deletion.entity.table_entry.match.extend(update.entity.table_entry.match)
        deletions.append(deletion)
    return deletions


class _Insertions:
    """Makes insertions into one table: copies of a pattern with another key and port."""

    def __init__(self, program: CompiledProgram, pattern: EntryWrite) -> None:
        self._pattern = EntityEncoder(read_p4info(program.path)).update(pattern)

    def __call__(self, key: int, port: int, prefix_bits: int | None = None) -> p4r.Update:
        update = p4r.Update()
        update.CopyFrom(self._pattern)
        entry = update.entity.table_entry
        if prefix_bits is None:
            entry.match[0].exact.value = values.encode(key)
        else:
            entry.match[0].lpm.value, entry.match[0].lpm.prefix_len = values.encode(key), prefix_bits
        entry.action.action.params[-1].value = values.encode(port)
        return update


def _prefix(port: int) -> int:
    # 10.9.port.0
    return 10 << 24 | 9 << 16 | port << 8


def _frame(egress: int) -> bytes:
    destination = (_prefix(egress) + _HOST_NUMBER).to_bytes(4, "big")
    return frame_to(_SOURCE_ADDRESS, ".".join(map(str, destination)), egress)


def _checksum(header: bytes) -> int:
    """Return the checksum (RFC 1071) of an IPv4 header whose checksum field is 0."""
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return int(~(total + (total >> 16)) & 0xFFFF)
