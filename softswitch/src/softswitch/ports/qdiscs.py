"""Queueing disciplines of interfaces, read through netlink: their drops, and which of them shape traffic."""

from __future__ import annotations

import socket
import struct
from collections.abc import Collection, Iterator
from typing import NamedTuple

SHAPERS = frozenset({"cake", "cbq", "hfsc", "htb", "tbf"})
"""Kinds that limit the rate, so that packets wait in their queues."""
DELAYS = "netem"
"""The kind that delays packets at any rate."""

# linux/rtnetlink.h, linux/netlink.h
_GET_QDISC, _NEW_QDISC, _DONE, _DUMP_REQUEST = 38, 36, 3, 0x301
_ROOT, _KIND, _STATISTICS = 0xFFFFFFFF, 1, 3  # TC_H_ROOT, TCA_KIND, TCA_STATS
_HEAD = struct.Struct("IHHII")  # struct nlmsghdr
_QDISC = struct.Struct("B3xiIII")  # struct tcmsg: family, interface, handle, parent, info
_ATTRIBUTE = struct.Struct("HH")
_COUNTS = struct.Struct("QII")  # struct tc_stats: bytes, packets, drops
_ANSWER_BYTES = 1 << 16


class Qdisc(NamedTuple):
    """A queueing discipline of an interface (by index); a root's `dropped` packets include its children's."""

    interface: int
    is_root: bool
    kind: str
    dropped: int


def qdiscs() -> Iterator[Qdisc]:
    for message_type, message in _answers(_GET_QDISC, _QDISC.pack(0, 0, 0, 0, 0)):
        if message_type == _NEW_QDISC:
            _, interface, _, parent, _ = _QDISC.unpack_from(message)
            attributes = dict(_attributes(message[_QDISC.size :]))
            name = attributes.get(_KIND, b"").rstrip(b"\0").decode()
            dropped = _COUNTS.unpack_from(attributes[_STATISTICS])[2] if _STATISTICS in attributes else 0
            yield Qdisc(interface, parent == _ROOT, name, dropped)


def shaped(interfaces: Collection[str]) -> dict[str, frozenset[str]]:
    names = dict(socket.if_nameindex())
    kinds: dict[str, frozenset[str]] = {}
    for each in qdiscs():
        if (name := names.get(each.interface, "")) in interfaces:
            kinds[name] = kinds.get(name, frozenset()) | {each.kind}
    return {name: used for name, used in kinds.items() if used & SHAPERS}


def _answers(request: int, body: bytes) -> Iterator[tuple[int, bytes]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(_HEAD.pack(_HEAD.size + len(body), request, _DUMP_REQUEST, 1, 0) + body)
        while True:
            data = netlink.recv(_ANSWER_BYTES)
            while data:
                size, message_type, *_ = _HEAD.unpack_from(data)
                if message_type == _DONE:
                    return
                yield message_type, data[_HEAD.size : size]
                data = data[_aligned(size) :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        size, kind = _ATTRIBUTE.unpack_from(data)
        yield kind, data[_ATTRIBUTE.size : size]
        data = data[_aligned(size) :]


def _aligned(size: int) -> int:
    return (size + 3) // 4 * 4
