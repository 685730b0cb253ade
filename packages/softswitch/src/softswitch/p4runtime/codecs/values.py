"""P4Runtime's binary strings (P4Runtime 1.4 §8.3)."""

from __future__ import annotations

from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.status import Refusal, invalid


def encode(value: int) -> bytes:
    """Return the canonical form of a non-negative integer: the shortest big-endian string, not empty."""
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


def decode(value: bytes, width: int, location: str) -> int:
    number = int.from_bytes(value, "big")
    if not value or number >> width:
        raise _width_error(value, width, location)
    return number


def _width_error(value: bytes, width: int, location: str) -> Refusal:
    # The code is INVALID_ARGUMENT, as in §9.1 and BMv2; §8.3 asks for OUT_OF_RANGE.
    if not value:
        return invalid(f"{location}: the value is empty, bit<{width}> needs at least one byte")
    return invalid(f"{location}: 0x{value.hex()} does not fit in bit<{width}>")


def encode_uint128(value: int) -> p4r.Uint128:
    return p4r.Uint128(high=value >> 64, low=value & (1 << 64) - 1)


def decode_uint128(message: p4r.Uint128) -> int:
    return message.high << 64 | message.low
