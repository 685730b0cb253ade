"""Files of captured frames in libpcap's format (not pcapng): read them, and begin those to write."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from softswitch.errors import SwitchError
from softswitch.messages import pluralize

MAX_FRAME_BYTES = 65_535
ETHERNET = 1  # link type
RECORD_HEADER_BYTES = 16
_HEADER = "IHHiIII"  # magic, major and minor version, time zone, accuracy, snaplen, link type
_HEADER_BYTES = 24
_RECORD = "IIII"  # seconds, fraction in units, captured bytes, bytes of the frame
_MAGIC, _MAGIC_NS, _PCAPNG = 0xA1B2C3D4, 0xA1B23C4D, 0x0A0D0D0A
_SNAPLEN = 262_144
_LINK_TYPE_MASK = 0xFFFF  # the upper bits say whether frames have a checksum
_NS_PER_S, _NS_PER_US = 10**9, 1000
_UNITS = {_MAGIC: _NS_PER_US, _MAGIC_NS: 1}
"""Units of times in ns, by the magic number."""


def file_header() -> bytes:
    """Return the beginning of a file of Ethernet frames whose times are in µs, little-endian."""
    return struct.pack("<" + _HEADER, _MAGIC, 2, 4, 0, 0, _SNAPLEN, ETHERNET)


def record_header(time_ns: int, length: int) -> bytes:
    """Return what precedes a frame in a file with `file_header`."""
    seconds, fraction = time_ns // _NS_PER_S, time_ns % _NS_PER_S // _NS_PER_US
    return struct.pack("<" + _RECORD, seconds, fraction, length, length)


def create_file(path: Path) -> int:
    """Return the descriptor of a new file with its header, to which writes append; raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, file_header())
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_frames(file: BinaryIO, name: str, link_type: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield time in ns and bytes of each frame, of the link type that is given.

    Raises SwitchError, which begins with `name`, unless the file is a capture of whole frames.
    """
    header = file.read(_HEADER_BYTES)
    order, unit = _read_format(name, header)
    *_, link = struct.unpack(order + _HEADER, header)
    if link_type is not None and link & _LINK_TYPE_MASK != link_type:
        raise SwitchError(
            f"{name}: expected frames of Ethernet (link type 1), got link type {link & _LINK_TYPE_MASK}"
        )
    number = 0
    while record := file.read(RECORD_HEADER_BYTES):
        number += 1
        place = f"{name}: frame {number}"
        if len(record) < RECORD_HEADER_BYTES:
            raise SwitchError(f"{place}: the file ends in the frame's header: the capture is cut off")
        seconds, fraction, captured_bytes, frame_bytes = struct.unpack(order + _RECORD, record)
        if frame_bytes > MAX_FRAME_BYTES or captured_bytes > frame_bytes:
            raise SwitchError(
                f"{place}: expected a frame of at most {MAX_FRAME_BYTES} bytes, not captured beyond its end, "
                f"got {captured_bytes} captured bytes of a frame of {frame_bytes}"
            )
        frame = file.read(captured_bytes)
        if len(frame) < captured_bytes:
            raise SwitchError(f"{place}: {len(frame)} of its {captured_bytes} bytes: the capture is cut off")
        if captured_bytes < frame_bytes:
            raise SwitchError(
                f"{place}: only {captured_bytes} of its {frame_bytes} bytes were captured: use `tcpdump -s 0`"
            )
        yield seconds * _NS_PER_S + fraction * unit, frame


def _read_format(name: str, header: bytes) -> tuple[str, int]:
    """Return the byte order, as in `struct`, and the unit of times in ns."""
    if len(header) == _HEADER_BYTES:
        for order in "<>":
            (magic,) = struct.unpack_from(order + "I", header)
            if magic in _UNITS:
                return order, _UNITS[magic]
            if magic == _PCAPNG:
                raise SwitchError(f"{name}: pcapng: a pcap is expected (`editcap -F pcap IN OUT`)")
    problem = f"begins with {header[:4].hex()}" if header else "is empty"
    if _HEADER_BYTES > len(header) > 0:
        problem = f"has {pluralize(len(header), 'byte')}"
    raise SwitchError(f"{name}: {problem}: a pcap is expected, as `tcpdump -w` writes it")
