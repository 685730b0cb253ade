"""Rates and depths of ports' queues."""

from __future__ import annotations

import re
from typing import NamedTuple

from softswitch.errors import SwitchError

MIN_FRAME_BYTES = 60
"""Length of the shortest Ethernet frame without checksum; it bounds the packets of a queue sized in bytes."""
MAX_PACKETS = 1 << 16
MAX_RATE = 10**12  # packets/s or bit/s
RATE_UNITS = {"pps": 1, "bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
BYTE_UNITS = {"b": 1, "kb": 1 << 10, "mb": 1 << 20}  # as in tc(8)


class Rate(NamedTuple):
    """Limits of each priority, as in BMv2, and of a whole port; 0 is no limit."""

    packets_per_s: int = 0
    bits_per_s: int = 0


class Depth(NamedTuple):
    """Limits of one priority's queue, in packets and in their total bytes."""

    packets: int
    bytes: int


class Shape(NamedTuple):
    rate: Rate
    depth: Depth


UNLIMITED = Rate()
_UNLIMITED_BYTES = 1 << 62


def packet_depth(packets: int) -> Depth:
    return Depth(packets, _UNLIMITED_BYTES)


def byte_depth(size: int) -> Depth:
    return Depth(max(1, size // MIN_FRAME_BYTES), size)


DEFAULT_DEPTH = packet_depth(64)


def parse_rate(text: str) -> Rate:
    """Parse a rate such as `1000pps` or `10mbit`; raise SwitchError if it is malformed."""
    number, unit = _split_unit(text, RATE_UNITS)
    value = number * RATE_UNITS.get(unit, 0)
    if not 1 <= value <= MAX_RATE:
        raise SwitchError(
            f"rate {text!r}: expected a whole number with one of {', '.join(RATE_UNITS)}, "
            f"up to {MAX_RATE // RATE_UNITS['gbit']}gbit, as 1000pps or 10mbit"
        )
    return Rate(packets_per_s=value) if unit == "pps" else Rate(bits_per_s=value)


def parse_depth(text: str) -> Depth:
    """Parse a depth such as `64` (packets) or `64kb`; raise SwitchError if it is malformed."""
    number, unit = _split_unit(text, {"": 1, **BYTE_UNITS})
    depth = byte_depth(number * BYTE_UNITS[unit]) if unit in BYTE_UNITS else packet_depth(number)
    if number < 1 or depth.packets > MAX_PACKETS:
        raise SwitchError(
            f"queue {text!r}: expected packets from 1 to {MAX_PACKETS}, or bytes with one of "
            f"{', '.join(BYTE_UNITS)}, up to {MAX_PACKETS * MIN_FRAME_BYTES >> 10}kb, as 64 or 64kb"
        )
    return depth


def _split_unit(text: str, units: dict[str, int]) -> tuple[int, str]:
    match = re.fullmatch(r"(\d{1,15})([a-z]*)", text, re.ASCII)
    return (int(match[1]), match[2]) if match is not None and match[2] in units else (0, "")
