"""Frames to explain, from hexadecimal text or from captures (pcap, not pcapng)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from softswitch.errors import SwitchError
from softswitch.messages import pluralize
from softswitch.pcap import ETHERNET, MAX_FRAME_BYTES, read_frames

_MAX_QUOTED_CHARACTERS = 40


class TimedFrame(NamedTuple):
    """A frame and its time of arrival in µs since the first frame."""

    time: int
    data: bytes


def parse_packet(text: str, name: str = "--packet") -> bytes:
    """Parse `0800 45 00`, `08:00:45:00` or `0x08004500`; raises SwitchError, which begins with `name`."""
    digits = re.sub(r"[\s:]", "", text).removeprefix("0x")
    quoted = text if len(text) <= _MAX_QUOTED_CHARACTERS else text[:_MAX_QUOTED_CHARACTERS] + "…"
    invalid = re.search(r"[^0-9a-fA-F]", digits)
    if invalid:
        place = f"{invalid[0]!r} is digit {invalid.start() + 1}"
        raise SwitchError(f"{name} {quoted}: {place}: hexadecimal digits expected, two a byte")
    if len(digits) % 2 or not digits:
        count = pluralize(len(digits), "hexadecimal digit")
        raise SwitchError(f"{name} {quoted!r}: {count}: two a byte expected, for at least one byte")
    data = bytes.fromhex(digits)
    if len(data) > MAX_FRAME_BYTES:
        raise SwitchError(f"{name} {quoted}: {len(data)} bytes: a frame has {MAX_FRAME_BYTES} at most")
    return data


def read_pcap(path: Path) -> Iterator[tuple[TimedFrame, int]]:
    """Yield the frames of a capture, each with the file position of its end; raises SwitchError."""
    first_us = None
    try:
        with path.open("rb") as file:
            for time_ns, data in read_frames(file, str(path), ETHERNET):
                time_us = time_ns // 1000
                first_us = time_us if first_us is None else first_us
                yield TimedFrame(max(0, time_us - first_us), data), file.tell()
    except OSError as error:
        raise SwitchError(f"{path}: {error.strerror}") from None
