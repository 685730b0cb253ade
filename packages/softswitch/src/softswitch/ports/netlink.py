"""Requests to the kernel's rtnetlink (rtnetlink(7)): what interfaces are, and where."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# linux/rtnetlink.h, linux/netlink.h
ERROR, DONE = 2, 3  # NLMSG_ERROR, NLMSG_DONE
_REQUEST, _DUMP = 0x1, 0x301  # NLM_F_REQUEST, and with NLM_F_DUMP
_HEADER = struct.Struct("IHHII")  # struct nlmsghdr: length, type, flags, sequence number, port
_ATTRIBUTE = struct.Struct("HH")  # struct rtattr: length, type
_TYPE_MASK = 0x3FFF
_MAX_ANSWER_BYTES = 1 << 16

_DELETED_LINK = 17  # RTM_DELLINK
_LINK_GROUP = 1  # RTMGRP_LINK
_GET_LINK, _LINK_MESSAGE = 18, struct.Struct("BxHiII")  # RTM_GETLINK, struct ifinfomsg
_NAME, _LOWER, _MASTER, _INFO, _LOWER_NAMESPACE, _KIND = 3, 5, 10, 18, 37, 1  # IFLA_…, IFLA_INFO_KIND
_LOOPBACK_FLAG = 0x8  # IFF_LOOPBACK
_GET_NAMESPACE_ID, _NAMESPACE_ID, _NAMESPACE_FD = 90, 1, 3  # RTM_GETNSID, NETNSA_NSID, NETNSA_FD
VETH = "veth"


class Link(NamedTuple):
    """An interface: its index, name and kind (empty for hardware), and the indices of related ones, or 0.

    `lower` is the interface that carries this one, or a veth's other end; it is in the network namespace
    that `lower_namespace` names here, or for None in this one. `master` is a bridge or a bond.
    """

    number: int
    name: str
    kind: str
    is_loopback: bool
    lower: int
    lower_namespace: int | None
    master: int


def read_link(name: str) -> Link:
    return _parse_link(request(_GET_LINK, _LINK_MESSAGE.pack(0, 0, socket.if_nametoindex(name), 0, 0)))


def read_links() -> list[Link]:
    return [_parse_link(message) for _, message in dump(_GET_LINK, _LINK_MESSAGE.pack(0, 0, 0, 0, 0))]


def _parse_link(message: bytes) -> Link:
    _, _, number, flags, _ = _LINK_MESSAGE.unpack_from(message)
    attributes = dict(parse_attributes(message[_LINK_MESSAGE.size :]))
    info = dict(parse_attributes(attributes.get(_INFO, b"")))
    lower_namespace = attributes.get(_LOWER_NAMESPACE)
    return Link(
        number=number,
        name=_text(attributes[_NAME]),
        kind=_text(info.get(_KIND, b"")),
        is_loopback=flags & _LOOPBACK_FLAG != 0,
        lower=to_number(attributes.get(_LOWER, bytes(4))),
        lower_namespace=None if lower_namespace is None else to_number(lower_namespace),
        master=to_number(attributes.get(_MASTER, bytes(4))),
    )


class LinkChanges:
    """Changes of interfaces of this network namespace, which the kernel reports from now on."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.bind((0, _LINK_GROUP))

    def fileno(self) -> int:
        return self._socket.fileno()

    def read_deleted(self) -> set[int]:
        """Take all changes that have come, and return the indices of interfaces that are gone."""
        deleted: set[int] = set()
        while True:
            try:
                data = self._socket.recv(_MAX_ANSWER_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return deleted
            except OSError:  # ENOBUFS: there were more changes than the socket holds
                continue
            for message_type, message in _split_messages(data):
                if message_type == _DELETED_LINK:
                    deleted.add(_LINK_MESSAGE.unpack_from(message)[2])

    def close(self) -> None:
        self._socket.close()


def find_index(name: str) -> int | None:
    try:
        return socket.if_nametoindex(name)
    except OSError:
        return None


def has_index(index: int) -> bool:
    try:
        socket.if_indextoname(index)
    except OSError:
        return False
    return True


def find_namespace_id(path: Path) -> int:
    """Return the ID that this network namespace has given to another; negative if none."""
    with path.open() as file:
        attribute = _ATTRIBUTE.pack(_ATTRIBUTE.size + 4, _NAMESPACE_FD) + struct.pack("I", file.fileno())
        message = request(_GET_NAMESPACE_ID, bytes(4) + attribute)  # struct rtgenmsg, padded
    return to_number(dict(parse_attributes(message[4:]))[_NAMESPACE_ID])


def request(message_type: int, body: bytes) -> bytes:
    """Send a request with one answer, and return the answer; raises OSError."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(_HEADER.pack(_HEADER.size + len(body), message_type, _REQUEST, 1, 0) + body)
        answer = netlink.recv(_MAX_ANSWER_BYTES)
    size, answer_type, *_ = _HEADER.unpack_from(answer)
    if answer_type == ERROR:
        error = -struct.unpack_from("i", answer, _HEADER.size)[0]
        raise OSError(error, os.strerror(error))
    return answer[_HEADER.size : size]


def dump(message_type: int, body: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of all answers to a request."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        netlink.send(_HEADER.pack(_HEADER.size + len(body), message_type, _DUMP, 1, 0) + body)
        while True:
            for answer_type, answer in _split_messages(netlink.recv(_MAX_ANSWER_BYTES)):
                if answer_type == DONE:
                    return
                yield answer_type, answer


def _split_messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        size, message_type, *_ = _HEADER.unpack_from(data)
        yield message_type, data[_HEADER.size : size]
        data = data[_align(size) :]


def parse_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        size, attribute_type = _ATTRIBUTE.unpack_from(data)
        yield attribute_type & _TYPE_MASK, data[_ATTRIBUTE.size : size]
        data = data[_align(size) :]


def to_number(data: bytes) -> int:
    number: int = struct.unpack("i", data)[0]
    return number


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode()


def _align(size: int) -> int:  # netlink pads to 4 bytes
    return (size + 3) // 4 * 4
