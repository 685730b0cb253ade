"""Whether this machine itself uses an interface, so that a switch must not take all of its frames.

Packet sockets see a copy of each frame. In the kernel's datapath the program takes the frames, and the
machine's own connections through the interface, that of the switch's controller perhaps, would stop.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator

from softswitch.ports.netlink import dump, parse_attributes

# linux/rtnetlink.h, linux/if_link.h, linux/if_addr.h, linux/if.h
_GET_LINK, _GET_ADDRESS, _GET_ROUTE = 18, 22, 26  # RTM_GET…
_LINK, _ADDRESS, _ROUTE = struct.Struct("BxHiII"), struct.Struct("BBBBI"), struct.Struct("BBBBBBBBI")
_NEXT_HOP = struct.Struct("HBBi")  # struct rtnexthop: length, flags, hops, interface
_LINK_NAME, _LINK_LOWER, _LINK_MASTER, _LINK_INFO, _LINK_NAMESPACE, _KIND = 3, 5, 10, 18, 37, 1  # IFLA_…
_LOCAL_ADDRESS = {socket.AF_INET: 2, socket.AF_INET6: 1}  # IFA_LOCAL, IFA_ADDRESS
_ROUTE_INTERFACE, _ROUTE_MULTIPATH, _UNICAST = 4, 9, 1  # RTA_OIF, RTA_MULTIPATH, RTN_UNICAST
_LOOPBACK_FLAG, _LINK_SCOPE = 0x8, 253


def describe_host_use(name: str) -> str | None:
    """Return how this machine uses an interface, as the rest of a sentence; None if it does not.

    An interface that does not exist is not used.
    """
    try:
        index = socket.if_nametoindex(name)
    except OSError:
        return None
    return next(_uses(index), None)


def _uses(index: int) -> Iterator[str]:
    links = [
        (_LINK.unpack_from(message), _attributes(message, _LINK))
        for _, message in dump(_GET_LINK, _LINK.pack(0, 0, 0, 0, 0))
    ]
    names = {link[2]: _text(attributes[_LINK_NAME]) for link, attributes in links}
    for (_, _, number, flags, _), attributes in links:
        if number == index:
            if flags & _LOOPBACK_FLAG:
                yield "is the loopback"
            if _LINK_MASTER in attributes:
                master = names.get(_number(attributes[_LINK_MASTER]), "another interface")
                yield f"is a part of {master}"
        elif _number(attributes.get(_LINK_LOWER, b"")) == index and _LINK_NAMESPACE not in attributes:
            kind = dict(parse_attributes(attributes.get(_LINK_INFO, b""))).get(_KIND, b"")
            if _text(kind) != "veth":
                yield f"carries {names[number]}"
    for address in _addresses(index):
        yield f"has the address {address}"
    if index in set(_default_route_interfaces()):
        yield "has the default route"


def _addresses(index: int) -> Iterator[str]:
    for _, message in dump(_GET_ADDRESS, _ADDRESS.pack(0, 0, 0, 0, 0)):
        family, _, _, scope, interface = _ADDRESS.unpack_from(message)
        attributes = _attributes(message, _ADDRESS)
        is_automatic = family == socket.AF_INET6 and scope == _LINK_SCOPE  # every interface has one
        if interface == index and not is_automatic and _LOCAL_ADDRESS.get(family) in attributes:
            yield str(ipaddress.ip_address(attributes[_LOCAL_ADDRESS[family]]))


def _default_route_interfaces() -> Iterator[int]:
    for _, message in dump(_GET_ROUTE, _ROUTE.pack(*[0] * 9)):
        _, prefix_bits, *_, kind, _ = _ROUTE.unpack_from(message)
        if prefix_bits or kind != _UNICAST:
            continue
        attributes = _attributes(message, _ROUTE)
        if _ROUTE_INTERFACE in attributes:
            yield _number(attributes[_ROUTE_INTERFACE])
        hops = attributes.get(_ROUTE_MULTIPATH, b"")
        while hops:
            size, _, _, interface = _NEXT_HOP.unpack_from(hops)
            yield interface
            hops = hops[(size + 3) // 4 * 4 :]


def _attributes(message: bytes, header: struct.Struct) -> dict[int, bytes]:
    return dict(parse_attributes(message[header.size :]))


def _number(data: bytes) -> int:
    return struct.unpack("i", data)[0] if data else 0


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode()
