"""Queueing disciplines of interfaces, read through netlink, with their dropped packets and their kinds."""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

from softswitch.ports.netlink import dump, parse_attributes

SHAPERS = frozenset({"cake", "cbq", "hfsc", "htb", "tbf"})
"""Kinds that limit the rate, so that packets wait in their queues."""
DELAY_KIND = "netem"
"""The kind that delays packets at any rate."""

# linux/rtnetlink.h
_GET_QDISC, _NEW_QDISC = 38, 36  # RTM_GETQDISC, RTM_NEWQDISC
_ROOT, _KIND, _STATISTICS = 0xFFFFFFFF, 1, 3  # TC_H_ROOT, TCA_KIND, TCA_STATS
_TC_MESSAGE = struct.Struct("B3xiIII")  # struct tcmsg: family, interface, handle, parent, info
_TC_STATS = struct.Struct("QII")  # struct tc_stats: bytes, packets, drops


class Qdisc(NamedTuple):
    """A queueing discipline of an interface (by index); a root's `dropped` packets include its children's."""

    interface: int
    is_root: bool
    kind: str
    dropped: int


def qdiscs() -> Iterator[Qdisc]:
    for message_type, message in dump(_GET_QDISC, _TC_MESSAGE.pack(0, 0, 0, 0, 0)):
        if message_type == _NEW_QDISC:
            _, interface, _, parent, _ = _TC_MESSAGE.unpack_from(message)
            attributes = dict(parse_attributes(message[_TC_MESSAGE.size :]))
            kind = attributes.get(_KIND, b"").rstrip(b"\0").decode()
            dropped = 0
            if _STATISTICS in attributes:
                _, _, dropped = _TC_STATS.unpack_from(attributes[_STATISTICS])
            yield Qdisc(interface, parent == _ROOT, kind, dropped)


def shaped_interfaces(interfaces: Collection[str]) -> dict[str, frozenset[str]]:
    names = dict(socket.if_nameindex())
    kinds: dict[str, frozenset[str]] = {}
    for qdisc in qdiscs():
        if (name := names.get(qdisc.interface, "")) in interfaces:
            kinds[name] = kinds.get(name, frozenset()) | {qdisc.kind}
    return {name: qdisc_kinds for name, qdisc_kinds in kinds.items() if qdisc_kinds & SHAPERS}
