"""Values of fields as people write them: MAC and IP addresses, and hexadecimal numbers where unsure."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address

_MAC_BITS, _IPV4_BITS, _IPV6_BITS = 48, 32, 128
_NAMES = {
    _MAC_BITS: re.compile(r"mac|addr|dst|src|dest|source|eth|hw|sha$|tha$", re.IGNORECASE),
    _IPV4_BITS: re.compile(
        r"addr|(^|_)ip(v4)?($|_)|^[sd](rc|st)?_?ip$|next_?hop|nhop|gateway|(^|_)[st]pa$",
        re.IGNORECASE,
    ),
    _IPV6_BITS: re.compile(r"addr|ip|src|dst|next_?hop|nhop", re.IGNORECASE),
}
"""Last parts of the names of fields that have addresses, by their width in bits."""
_HEX = re.compile(r"0x[0-9a-f]+")


def written(name: str, width: int, text: str) -> str:
    """Return the text of a field's value or match; its numbers as addresses, if the name says so."""
    pattern = _NAMES.get(width)
    if pattern is None or not pattern.search(name.rpartition(".")[2]):
        return text
    return _HEX.sub(lambda found: _address(int(found[0], 16), width), text)


def _address(value: int, width: int) -> str:
    if width == _MAC_BITS:
        return value.to_bytes(_MAC_BITS // 8, "big").hex(":")
    return str(IPv4Address(value) if width == _IPV4_BITS else IPv6Address(value))
