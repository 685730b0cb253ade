"""Frames to explain, from hexadecimal text or from captures (pcap, not pcapng)."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from softswitch.errors import SwitchError
from softswitch.messages import pluralize

MAX_FRAME_BYTES = 65_535
_LINKTYPE_ETHERNET = 1
_TICKS_PER_US = {0xA1B2C3D4: 1, 0xA1B23C4D: 1000}
"""Ticks of a time's fraction per µs, by the magic number of a capture."""
_PCAPNG = 0x0A0D0D0A
_HEADER_BYTES, _RECORD_BYTES = 24, 16
_LINK_TYPE_OFFSET, _LINK_TYPE_MASK = 20, 0xFFFF  # the upper bits say whether frames have a checksum
_MAX_QUOTED_CHARACTERS = 40


class Frame(NamedTuple):
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


def read_pcap(path: Path) -> Iterator[tuple[Frame, int]]:
    """Yield the frames of a capture, each with the file position of its end; raises SwitchError."""
    try:
        with path.open("rb") as file:
            yield from _read_frames(path, file)
    except OSError as error:
        raise SwitchError(f"{path}: {error.strerror}") from None


def _read_frames(path: Path, file: BinaryIO) -> Iterator[tuple[Frame, int]]:
    header = file.read(_HEADER_BYTES)
    order, ticks_per_us = _read_format(path, header)
    (link,) = struct.unpack_from(order + "I", header, _LINK_TYPE_OFFSET)
    link_type = link & _LINK_TYPE_MASK
    if link_type != _LINKTYPE_ETHERNET:
        raise SwitchError(f"{path}: link type {link_type}: frames of Ethernet (link type 1) expected")
    first_time, number = None, 0
    while record := file.read(_RECORD_BYTES):
        number += 1
        place = f"{path}: frame {number}"
        if len(record) < _RECORD_BYTES:
            raise SwitchError(f"{place}: the file ends in the frame's header: the capture is cut off")
        seconds, fraction, captured_length, frame_length = struct.unpack(order + "4I", record)
        if frame_length > MAX_FRAME_BYTES or captured_length > frame_length:
            raise SwitchError(
                f"{place}: expected a frame of at most {MAX_FRAME_BYTES} bytes, not captured beyond its end, "
                f"got {captured_length} captured bytes of a frame of {frame_length}"
            )
        data = file.read(captured_length)
        if len(data) < captured_length:
            raise SwitchError(f"{place}: {len(data)} of its {captured_length} bytes: the capture is cut off")
        if captured_length < frame_length:
            raise SwitchError(
                f"{place}: only {captured_length} of its {frame_length} bytes were captured: "
                "use `tcpdump -s 0`"
            )
        time = seconds * 1_000_000 + fraction // ticks_per_us
        first_time = time if first_time is None else first_time
        yield Frame(max(0, time - first_time), data), file.tell()


def _read_format(path: Path, header: bytes) -> tuple[str, int]:
    for order in "<>":  # byte orders of `struct`: little-endian, big-endian
        if len(header) < _HEADER_BYTES:
            break
        (magic,) = struct.unpack_from(order + "I", header)
        if magic in _TICKS_PER_US:
            return order, _TICKS_PER_US[magic]
        if magic == _PCAPNG:
            raise SwitchError(f"{path}: pcapng: a pcap is expected (`editcap -F pcap IN OUT`)")
    problem = f"begins with {header[:4].hex()}" if header else "is empty"
    if _HEADER_BYTES > len(header) > 0:
        problem = f"has {pluralize(len(header), 'byte')}"
    raise SwitchError(f"{path}: {problem}: a pcap is expected, as `tcpdump -w` writes it")
