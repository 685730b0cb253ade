"""Queueing disciplines of interfaces, read through netlink, with their dropped packets and their kinds."""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

SHAPERS = frozenset({"cake", "cbq", "hfsc", "htb", "tbf"})
"""Kinds that limit the rate, so that packets wait in their queues."""
DELAY_KIND = "netem"
"""The kind that delays packets at any rate."""

# linux/rtnetlink.h, linux/netlink.h
_GET_QDISC, _NEW_QDISC, _DONE = 38, 36, 3  # RTM_GETQDISC, RTM_NEWQDISC, NLMSG_DONE
_DUMP_REQUEST = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_ROOT, _KIND, _STATISTICS = 0xFFFFFFFF, 1, 3  # TC_H_ROOT, TCA_KIND, TCA_STATS
_NETLINK_HEADER = struct.Struct("IHHII")  # struct nlmsghdr: length, type, flags, sequence number, port
_TC_MESSAGE = struct.Struct("B3xiIII")  # struct tcmsg: family, interface, handle, parent, info
_ATTRIBUTE = struct.Struct("HH")  # struct rtattr: length, type
_TC_STATS = struct.Struct("QII")  # struct tc_stats: bytes, packets, drops
_MAX_ANSWER_BYTES = 1 << 16


class Qdisc(NamedTuple):
    """A queueing discipline of an interface (by index); a root's `dropped` packets include its children's."""

    interface: int
    is_root: bool
    kind: str
    dropped: int


def qdiscs() -> Iterator[Qdisc]:
    for message_type, message in _dump(_GET_QDISC, _TC_MESSAGE.pack(0, 0, 0, 0, 0)):
        if message_type == _NEW_QDISC:
            _, interface, _, parent, _ = _TC_MESSAGE.unpack_from(message)
            attributes = dict(_parse_attributes(message[_TC_MESSAGE.size :]))
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


def _dump(request: int, body: bytes) -> Iterator[tuple[int, bytes]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(
            _NETLINK_HEADER.pack(_NETLINK_HEADER.size + len(body), request, _DUMP_REQUEST, 1, 0) + body
        )
        while True:
            data = netlink.recv(_MAX_ANSWER_BYTES)
            while data:
                size, message_type, *_ = _NETLINK_HEADER.unpack_from(data)
                if message_type == _DONE:
                    return
                yield message_type, data[_NETLINK_HEADER.size : size]
                data = data[_align(size) :]


def _parse_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        size, attribute_type = _ATTRIBUTE.unpack_from(data)
        yield attribute_type, data[_ATTRIBUTE.size : size]
        data = data[_align(size) :]


def _align(size: int) -> int:  # netlink pads to 4 bytes
    return (size + 3) // 4 * 4
