"""What a port may send in a second, and how much may wait for it."""

from __future__ import annotations

import re
from typing import NamedTuple

from softswitch.errors import SwitchError

MIN_FRAME_BYTES = 60
"""Bytes of Ethernet's smallest frame, without its checksum: a queue of bytes has room for so many packets."""
MAX_PACKETS = 1 << 16
MAX_RATE = 10**12
_RATES = {"pps": 1, "bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
_SIZES = {"b": 1, "kb": 1 << 10, "mb": 1 << 20}  # as tc(8) has them


class Rate(NamedTuple):
    """Packets or bits in a second; 0 is no limit.

    One in packets is each priority's own, as in BMv2; one in bits the port's, which its priorities share.
    """

    packets: int = 0
    bits: int = 0


class Depth(NamedTuple):
    """Packets that may wait in the queue of one priority, and the bytes that they may have together."""

    packets: int
    bytes: int


class Shape(NamedTuple):
    """What holds for one port."""

    rate: Rate
    depth: Depth


UNLIMITED = Rate()
_ANY_BYTES = 1 << 62


def packet_depth(packets: int) -> Depth:
    """A queue for so many packets of any size."""
    return Depth(packets, _ANY_BYTES)


def byte_depth(size: int) -> Depth:
    """A queue for so many bytes."""
    return Depth(max(1, size // MIN_FRAME_BYTES), size)


DEFAULT_DEPTH = packet_depth(64)
"""BMv2's."""


def parse_rate(text: str) -> Rate:
    """Read a rate, as `1000pps` or `10mbit`; raises SwitchError."""
    number, unit = _split(text, _RATES)
    value = number * _RATES.get(unit, 0)
    if not 1 <= value <= MAX_RATE:
        raise SwitchError(
            f"rate {text!r}: expected a whole number with one of {', '.join(_RATES)}, "
            f"up to {MAX_RATE // _RATES['gbit']}gbit, as 1000pps or 10mbit"
        )
    return Rate(packets=value) if unit == "pps" else Rate(bits=value)


def parse_depth(text: str) -> Depth:
    """Read a depth, as `64` packets or `64kb`; raises SwitchError."""
    number, unit = _split(text, {"": 1, **_SIZES})
    depth = byte_depth(number * _SIZES[unit]) if unit in _SIZES else packet_depth(number)
    if number < 1 or depth.packets > MAX_PACKETS:
        raise SwitchError(
            f"queue {text!r}: expected packets from 1 to {MAX_PACKETS}, or bytes with one of "
            f"{', '.join(_SIZES)}, up to {MAX_PACKETS * MIN_FRAME_BYTES >> 10}kb, as 64 or 64kb"
        )
    return depth


def _split(text: str, units: dict[str, int]) -> tuple[int, str]:
    """Number and unit; 0 where it is not these."""
    found = re.fullmatch(r"(\d{1,15})([a-z]*)", text, re.ASCII)
    return (int(found[1]), found[2]) if found is not None and found[2] in units else (0, "")
