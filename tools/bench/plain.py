"""The bench's own small programs: L3 forwarding, one exact table, and no P4 work at all."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import finsy as fy
import numpy as np
from numpy.typing import NDArray

from foundation.protocol import frames
from foundation.protocol.frames import FRAME_OVERHEAD, UdpEndpoint, UdpFrame
from softswitch.p4runtime.codecs import values
from softswitch.p4runtime.messages import adopt, p4r
from switch_harness import PROGRAMS
from tools.bench.workload import INGRESS, CompiledProgram, Setup, Stamp, Workload

_COMPILED = PROGRAMS
L3, L2, WIRE = (CompiledProgram(_COMPILED / name) for name in ("l3", "l2", "wire"))
FRAME_BYTES = 128
SHORT = range(17, 24)
"""Lengths of the few prefixes of `routes` that are shorter than 24 bits."""
FIRST_MAC = 1 << 41
_STAMP = Stamp(*(FRAME_OVERHEAD + at for at in (0, 4, 8, 10)))
_SOURCE = UdpEndpoint("02:00:00:00:01:01", "10.0.1.1", 7)
_ROUTER_MAC = "02:00:00:00:00:01"
_FRAMES = 504  # a multiple of 1, 7 and 63 egress ports


def l3(ports: int = 2) -> Workload:
    """Frames for hosts behind all ports but the first, in turn."""
    egress = tuple(port for port in range(1, ports + 1) if port != INGRESS)
    made = [_frame(egress[k % len(egress)]) for k in range(_FRAMES)]
    return Workload(f"{FRAME_BYTES} B", made, _STAMP, egress)


def l3_setup(ports: int = 2) -> Setup:
    """A /24 for each port."""
    encode = _Insertions(L3, "routes")
    return Setup(L3, [encode(_prefix(port), port, 24) for port in range(1, ports + 1)])


def wire_setup() -> Setup:
    """No tables: frames leave by port 2."""
    return Setup(WIRE, [])


def routes(count: int) -> tuple[Setup, NDArray[np.uint64]]:
    """Routes to port 2, nearly all of them /24, and their addresses: [count]."""
    encode = _Insertions(L3, "routes")
    short = [(length << 24 | k << (32 - length), length) for length in SHORT for k in range(64)]
    numbers = np.random.default_rng(1).permutation(1 << 21)[: count - len(short)]
    pairs = short + [(1 << 31 | number << 8, 24) for number in numbers.tolist()]
    updates = [encode(prefix, 2, length) for prefix, length in pairs]
    return Setup(L3, updates), np.array([prefix for prefix, _ in pairs], np.uint64)


def hosts(count: int) -> Iterator[p4r.Update]:
    """Insert hosts with the MAC addresses from FIRST_MAC on into the table of L2, for port 2."""
    encode = _Insertions(L2, "hosts")
    return (encode(mac, 2) for mac in range(FIRST_MAC, FIRST_MAC + count))


def frame_to(source: str, destination: str, egress: int = 0) -> bytes:
    """A frame of FRAME_BYTES to an IPv4 address, stamped with the port that it has to leave by."""
    payload = bytearray(FRAME_BYTES - FRAME_OVERHEAD)
    struct.pack_into("!H", payload, _STAMP.egress - FRAME_OVERHEAD, egress)
    ends = _SOURCE._replace(address=source), UdpEndpoint(_ROUTER_MAC, destination, 7)
    return frames.build(UdpFrame(*ends, bytes(payload)))


def deletions(updates: Sequence[p4r.Update]) -> list[p4r.Update]:
    """The updates that take these insertions back."""
    taken_back = []
    for update in updates:
        deletion = p4r.Update(type=p4r.Update.DELETE)
        deletion.entity.table_entry.table_id = update.entity.table_entry.table_id
        deletion.entity.table_entry.match.extend(update.entity.table_entry.match)
        taken_back.append(deletion)
    return taken_back


class _Insertions:
    """Insertions into a table of one field, by copying one that finsy has encoded."""

    def __init__(self, program: CompiledProgram, table: str) -> None:
        is_lpm = program is L3
        match = fy.Match(prefix="1.0.0.0/8") if is_lpm else fy.Match(mac=1)
        action = fy.Action("next_hop", mac=1 << 41, port=1) if is_lpm else fy.Action("forward", port=1)
        entry = fy.P4TableEntry(table, match=match, action=action)
        self._pattern = adopt((+entry).encode_update(fy.P4Schema(program.p4info)))

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
    return 10 << 24 | 9 << 16 | port << 8


def _frame(egress: int) -> bytes:
    return frame_to(_SOURCE.address, ".".join(map(str, (_prefix(egress) + 9).to_bytes(4, "big"))), egress)
