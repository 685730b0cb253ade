"""Whether this machine itself uses an interface, so that a switch must not take all of its frames.

Packet sockets see a copy of each frame. In the kernel's datapath the program takes the frames, and the
machine's own connections through the interface, that of the switch's controller perhaps, would stop.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence

from softswitch.ports.netlink import VETH, Link, dump, parse_attributes, read_links, to_number

# linux/rtnetlink.h, linux/if_addr.h
_GET_ADDRESS, _GET_ROUTE = 22, 26  # RTM_GET…
_ADDRESS, _ROUTE = struct.Struct("BBBBI"), struct.Struct("BBBBBBBBI")  # struct ifaddrmsg, struct rtmsg
_NEXT_HOP = struct.Struct("HBBi")  # struct rtnexthop: length, flags, hops, interface
_LOCAL_ADDRESS = {socket.AF_INET: 2, socket.AF_INET6: 1}  # IFA_LOCAL, IFA_ADDRESS
_ROUTE_INTERFACE, _ROUTE_MULTIPATH, _UNICAST = 4, 9, 1  # RTA_OIF, RTA_MULTIPATH, RTN_UNICAST
_LINK_SCOPE = 253  # RT_SCOPE_LINK


def find_host_use(names: Iterable[str]) -> str | None:
    """Return how this machine uses one of some interfaces, as "eth0 has the default route"; None if none."""
    links = read_links()
    addresses = list(_addresses())
    default_routes = set(_default_route_interfaces())
    for name in names:
        for link in links:
            if link.name == name and (use := _find_use(link, links, addresses, default_routes)):
                return f"{name} {use}"
    return None


def _find_use(
    link: Link, links: Sequence[Link], addresses: Sequence[tuple[int, str]], default_routes: set[int]
) -> str | None:
    if link.is_loopback:
        return "is the loopback"
    for other in links:
        if other.number == link.master:
            return f"is a part of {other.name}"
        is_carried = other.lower_namespace is None and other.kind != VETH  # whose other end is no carrier
        if other.lower == link.number and is_carried:
            return f"carries {other.name}"
    for index, address in addresses:
        if index == link.number:
            return f"has the address {address}"
    return "has the default route" if link.number in default_routes else None


def _addresses() -> Iterator[tuple[int, str]]:
    """Yield index of the interface and address, without those that IPv6 gives to each interface."""
    for _, message in dump(_GET_ADDRESS, _ADDRESS.pack(0, 0, 0, 0, 0)):
        family, _, _, scope, interface = _ADDRESS.unpack_from(message)
        attributes = _attributes(message, _ADDRESS)
        is_automatic = family == socket.AF_INET6 and scope == _LINK_SCOPE
        if not is_automatic and _LOCAL_ADDRESS.get(family) in attributes:
            yield interface, str(ipaddress.ip_address(attributes[_LOCAL_ADDRESS[family]]))


def _default_route_interfaces() -> Iterator[int]:
    for _, message in dump(_GET_ROUTE, _ROUTE.pack(*[0] * 9)):
        _, prefix_bits, *_, kind, _ = _ROUTE.unpack_from(message)
        if prefix_bits or kind != _UNICAST:
            continue
        attributes = _attributes(message, _ROUTE)
        if _ROUTE_INTERFACE in attributes:
            yield to_number(attributes[_ROUTE_INTERFACE])
        hops = attributes.get(_ROUTE_MULTIPATH, b"")
        while hops:
            size, _, _, interface = _NEXT_HOP.unpack_from(hops)
            yield interface
            hops = hops[(size + 3) // 4 * 4 :]


def _attributes(message: bytes, header: struct.Struct) -> dict[int, bytes]:
    return dict(parse_attributes(message[header.size :]))
