"""Frames that interfaces do not take where they are to leave: a program is not told, so it is asked for."""

from __future__ import annotations

import socket
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

# linux/rtnetlink.h, linux/netlink.h
_GET_QDISC, _NEW_QDISC, _DONE, _DUMP_REQUEST = 38, 36, 3, 0x301
_ROOT, _STATISTICS = 0xFFFFFFFF, 3  # TC_H_ROOT, TCA_STATS
_HEAD = struct.Struct("IHHII")  # struct nlmsghdr
_QDISC = struct.Struct("B3xiIII")  # struct tcmsg: family, interface, handle, parent, info
_ATTRIBUTE = struct.Struct("HH")
_COUNTS = struct.Struct("QII")  # struct tc_stats: bytes, packets, drops
_ANSWER_BYTES = 1 << 16


def sent_in_vain() -> Counter[str]:
    """By interface of this thread's network namespace: what it or its queueing discipline has dropped."""
    found: Counter[str] = Counter()
    for line in Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]:
        name, _, numbers = line.partition(":")
        found[name.strip()] = int(numbers.split()[11])
    names = dict(socket.if_nameindex())
    for interface, drops in _dropped_by_roots():
        found[names.get(interface, "")] += drops
    return found


def _dropped_by_roots() -> Iterator[tuple[int, int]]:
    """Interface by index and drops of each queueing discipline that is none's child: theirs are its own."""
    for kind, message in _answers(_GET_QDISC, _QDISC.pack(0, 0, 0, 0, 0)):
        _, interface, _, parent, _ = _QDISC.unpack_from(message)
        if kind == _NEW_QDISC and parent == _ROOT:
            for attribute, data in _attributes(message[_QDISC.size :]):
                if attribute == _STATISTICS:
                    yield interface, _COUNTS.unpack_from(data)[2]


def _answers(request: int, body: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and body of each message of a dump."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(_HEAD.pack(_HEAD.size + len(body), request, _DUMP_REQUEST, 1, 0) + body)
        while True:
            data = netlink.recv(_ANSWER_BYTES)
            while data:
                size, kind, *_ = _HEAD.unpack_from(data)
                if kind == _DONE:
                    return
                yield kind, data[_HEAD.size : size]
                data = data[_aligned(size) :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        size, kind = _ATTRIBUTE.unpack_from(data)
        yield kind, data[_ATTRIBUTE.size : size]
        data = data[_aligned(size) :]


def _aligned(size: int) -> int:
    return (size + 3) // 4 * 4
