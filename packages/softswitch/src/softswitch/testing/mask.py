"""Expected frames of which some bits need not be equal, with the interface of ptf's masks."""

from __future__ import annotations

from typing import Any, Protocol, SupportsBytes, TypeAlias, runtime_checkable

from softswitch.errors import SwitchError
from softswitch.explain.frames import parse_packet

FrameLike: TypeAlias = "bytes | bytearray | memoryview | str | SupportsBytes"
"""A frame: its bytes, hexadecimal text as `softswitch explain` takes it, or a packet of Scapy."""
_WILDCARD = "*"  # a hexadecimal digit that need not be equal
_MAX_SHOWN_CHARACTERS = 40  # of a value in an error


def to_bytes(frame: FrameLike) -> bytes:
    """Return a frame's bytes; raises SwitchError for what is none."""
    if isinstance(frame, str):
        return parse_packet(frame, "frame")
    # `bytes(5)` is five zeros, and `bytes([5])` one byte: neither is meant as a frame.
    if isinstance(frame, (bytes, bytearray, memoryview)) or hasattr(frame, "__bytes__"):
        return bytes(frame)
    shown = f"{type(frame).__name__} {frame!r}"[:_MAX_SHOWN_CHARACTERS]
    raise SwitchError(f"frame: expected bytes, hexadecimal text or a packet of Scapy, got {shown}")


@runtime_checkable
class Pattern(Protocol):
    """An expected frame of which parts may differ: `Mask`, or ptf's class of that name."""

    def pkt_match(self, pkt: bytes) -> bool:
        """Return whether a frame is as expected."""


class Mask:
    """An expected frame with bits that need not be equal, as `ptf.mask.Mask`.

    In hexadecimal text, `*` is a digit that need not be equal. With `ignore_extra_bytes`, a frame may be
    longer; with `dont_care_all`, all bits may differ until `set_care` names some. Offsets are in bits.
    """

    def __init__(
        self, exp_pkt: FrameLike, ignore_extra_bytes: bool = False, dont_care_all: bool = False
    ) -> None:
        self.exp_pkt = exp_pkt
        self.ignore_extra_bytes = ignore_extra_bytes
        digits = ""
        if isinstance(exp_pkt, str):
            digits = "".join(exp_pkt.split()).replace(":", "").removeprefix("0x")
            exp_pkt = exp_pkt.replace(_WILDCARD, "0")
        self._expected = to_bytes(exp_pkt)
        self._cared = bytearray(b"\xff" * len(self._expected))
        if dont_care_all:
            self.set_do_not_care_all()
        for position, digit in enumerate(digits):
            if digit == _WILDCARD:
                self.set_do_not_care(4 * position, 4)

    def set_care(self, offset: int, bitwidth: int) -> None:
        for bit in self._bits(offset, bitwidth):
            self._cared[bit // 8] |= 0x80 >> bit % 8

    def set_care_all(self) -> None:
        self._cared = bytearray(b"\xff" * len(self._cared))

    def set_care_packet(self, hdr_type: type, field_name: str) -> None:
        self.set_care(*self._field_bits(hdr_type, field_name))

    def set_do_not_care(self, offset: int, bitwidth: int) -> None:
        for bit in self._bits(offset, bitwidth):
            self._cared[bit // 8] &= ~(0x80 >> bit % 8)

    def set_do_not_care_all(self) -> None:
        self._cared = bytearray(len(self._cared))

    def set_do_not_care_packet(self, hdr_type: type, field_name: str) -> None:
        """Ignore a field of a layer; the frame has to be a packet of Scapy with that layer."""
        self.set_do_not_care(*self._field_bits(hdr_type, field_name))

    def set_ignore_extra_bytes(self) -> None:
        self.ignore_extra_bytes = True

    def pkt_match(self, pkt: bytes) -> bool:
        size = len(self._expected)
        if len(pkt) < size or (len(pkt) > size and not self.ignore_extra_bytes):
            return False
        bytes_with_mask = zip(pkt, self._expected, self._cared, strict=False)  # extra bytes are left out
        return all((byte ^ expected) & cared == 0 for byte, expected, cared in bytes_with_mask)

    def hex(self) -> str:
        """Return the expected frame in hexadecimal, with `*` for digits of which a bit is ignored."""
        digits = zip(self._expected.hex(), self._cared.hex(), strict=True)
        text = "".join(digit if cared == "f" else _WILDCARD for digit, cared in digits)
        return f"{text}…" if self.ignore_extra_bytes else text

    def _bits(self, offset: int, bitwidth: int) -> range:
        size = 8 * len(self._expected)
        if offset < 0 or bitwidth < 0 or offset + bitwidth > size:
            expected = f"expected bits of the frame's {size}"
            raise SwitchError(f"mask: {expected}, got {bitwidth} from bit {offset} on")
        return range(offset, offset + bitwidth)

    def _field_bits(self, hdr_type: type, field_name: str) -> tuple[int, int]:
        """Return the first bit and the width of a field."""
        packet: Any = self.exp_pkt  # Scapy has no types, and is no dependency
        name = f"{hdr_type.__name__}.{field_name}"
        if not hasattr(packet, "getlayer") or packet.getlayer(hdr_type) is None:
            shown = f"{type(packet).__name__} {packet!r}"[:_MAX_SHOWN_CHARACTERS]
            raise SwitchError(f"mask: {name}: expected a packet of Scapy with that layer, got {shown}")
        layer = packet.getlayer(hdr_type)
        offset = 8 * (len(self._expected) - len(layer))
        built = type(layer)(bytes(layer))  # has all fields, with computed values
        for field in built.fields_desc:
            if field.name not in built.fields:
                continue  # an optional field that this packet lacks
            value = built.getfieldval(field.name)
            # A field of bits has its width; the width of others is that of their bytes.
            width = getattr(field, "size", None)
            width = 8 * len(field.addfield(built, b"", value)) if width is None else width
            if field.name == field_name:
                return offset, width
            offset += width
        raise SwitchError(f"mask: expected a field of {hdr_type.__name__}, got {field_name!r}")
