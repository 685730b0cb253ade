"""Frames of the course's exercises: Ethernet, and a header with a key and a value."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

HOT_TYPE = 0x88B5
"""EtherType of frames with a key and a value: IEEE 802's first one for experiments."""
_ETHERNET = struct.Struct("!6s6sH")
_HOT = struct.Struct("!BBHII")
_MIN_BYTES = 60
_MAX_SHOWN_BYTES = 24
UPDATE, RESULT = 1, 2
"""Operations of the header: a worker's value, and the switch's sum."""


def mac(address: int) -> str:
    """Return a MAC address as people write it."""
    return ":".join(f"{byte:02x}" for byte in address.to_bytes(6, "big"))


def ethernet(dst: int = 0, src: int = 0, ether_type: int = 0x0800, payload: bytes = b"") -> bytes:
    """Return a frame of at least 60 bytes."""
    frame = _ETHERNET.pack(dst.to_bytes(6, "big"), src.to_bytes(6, "big"), ether_type) + payload
    return frame.ljust(_MIN_BYTES, b"\0")


class HotFrame(NamedTuple):
    """The header after Ethernet's: what it asks for, from which worker, and a value for a key.

    `version` says which of two turns the value is for, in the exercise that needs it.
    """

    key: int
    value: int
    worker: int = 0
    version: int = 0
    op: int = UPDATE

    def encode(self) -> bytes:
        header = _HOT.pack(self.op, self.version, self.worker, self.key, self.value)
        return ethernet(ether_type=HOT_TYPE, payload=header)


def decode(frame: bytes) -> HotFrame:
    """Return the header of a frame; raise `AssertionError` if the frame has none."""
    if len(frame) < _ETHERNET.size + _HOT.size or _ETHERNET.unpack_from(frame)[2] != HOT_TYPE:
        raise AssertionError(
            f"expected a frame of type {HOT_TYPE:#06x} with a key and a value, got {frame.hex()}"
        )
    op, version, worker, key, value = _HOT.unpack_from(frame, _ETHERNET.size)
    return HotFrame(key, value, worker, version, op)


def describe_outputs(outputs: Sequence[tuple[int, bytes]]) -> str:
    """Return frames with their ports, in words: headers as numbers, other frames without zeros at the end."""
    ports: dict[bytes, list[int]] = {}
    for port, frame in outputs:
        ports.setdefault(frame, []).append(port)
    return (
        " and ".join(f"{_describe(frame)} from {_ports(found)}" for frame, found in ports.items())
        or "no frame"
    )


def _describe(frame: bytes) -> str:
    try:
        header = decode(frame)
    except AssertionError:
        shown = frame.rstrip(b"\0")
        more = f"… ({len(frame)} bytes)" if len(shown) > _MAX_SHOWN_BYTES else ""
        return shown[:_MAX_SHOWN_BYTES].hex() + more
    names = ("op", "version", "worker", "key", "value")
    return f"({', '.join(f'{name} {getattr(header, name)}' for name in names)})"


def _ports(ports: Sequence[int]) -> str:
    return f"port {ports[0]}" if len(ports) == 1 else f"ports {', '.join(map(str, sorted(ports)))}"
