"""Hash functions: the ones that P4 programs call, by BMv2's names, and the one of the tables' index.

The descriptions here are the definition; `codegen.hashes` makes machine code of the same.
BMv2: src/bm_sim/calculations.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

MULTIPLIER = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio, odd: Knuth's multiplicative hashing (the tables' index)."""


@dataclass(frozen=True)
class Crc:
    """A cyclic redundancy check; `reflected` both takes the bits of a byte and gives the result in reverse."""

    width: int
    polynomial: int
    initial: int
    final: int
    reflected: bool

    @cached_property
    def table(self) -> tuple[int, ...]:
        """The remainder of each byte, for the algorithm that shifts towards the most significant bit."""
        return tuple(self._remainder(byte) for byte in range(256))

    def _remainder(self, byte: int) -> int:
        remainder = byte << (self.width - 8)
        for _ in range(8):
            carry = remainder >> (self.width - 1)
            remainder = (remainder << 1 ^ self.polynomial * carry) & ((1 << self.width) - 1)
        return remainder

    def __call__(self, data: bytes) -> int:
        """The check of some bytes."""
        remainder = self.initial
        for byte in data:
            index = (reflect(byte, 8) if self.reflected else byte) ^ remainder >> (self.width - 8)
            remainder = self.table[index] ^ (remainder << 8 & ((1 << self.width) - 1))
        return (reflect(remainder, self.width) if self.reflected else remainder) ^ self.final


@dataclass(frozen=True)
class InternetChecksum:
    """The complement of the ones' complement sum of 16-bit words (RFC 1071)."""

    def __call__(self, data: bytes) -> int:
        """The checksum of some bytes, padded with 0."""
        padded = data + b"\0" * (len(data) % 2)
        total = sum(int.from_bytes(padded[i : i + 2], "big") for i in range(0, len(padded), 2))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return ~total & 0xFFFF


@dataclass(frozen=True)
class Xor:
    """Exclusive or of words of `width` bits."""

    width: int

    def __call__(self, data: bytes) -> int:
        """The hash of some bytes, padded with 0."""
        size = self.width // 8
        padded = data + b"\0" * (-len(data) % size)
        result = 0
        for start in range(0, len(padded), size):
            result ^= int.from_bytes(padded[start : start + size], "big")
        return result


@dataclass(frozen=True)
class Identity:
    """The first 64 bits."""

    def __call__(self, data: bytes) -> int:
        """The first bytes as a number."""
        return int.from_bytes(data[:8], "big")


@dataclass(frozen=True)
class Toeplitz:
    """Always 0: BMv2's key is 0, and P4Runtime cannot change it."""

    def __call__(self, data: bytes) -> int:
        """The hash of any bytes."""
        return 0


Algorithm = Crc | InternetChecksum | Xor | Identity | Toeplitz


def reflect(value: int, width: int) -> int:
    """The low `width` bits in reverse order."""
    return int(f"{value & ((1 << width) - 1):0{width}b}"[::-1], 2)


_CRC16 = Crc(16, 0x8005, 0, 0, reflected=True)
_CRC32 = Crc(32, 0x04C11DB7, 0xFFFFFFFF, 0xFFFFFFFF, reflected=True)

ALGORITHMS: dict[str, Algorithm] = {
    "crc16": _CRC16,
    "crc16_custom": _CRC16,
    "crc32": _CRC32,
    "crc32_custom": _CRC32,
    "crcCCITT": Crc(16, 0x1021, 0xFFFF, 0, reflected=False),
    "crc8_custom": Crc(8, 0x07, 0, 0, reflected=False),
    "crc64_custom": Crc(64, 0x1B, 0, 0, reflected=True),
    "csum16": InternetChecksum(),
    "cksum16": InternetChecksum(),
    "xor16": Xor(16),
    "xor32": Xor(32),
    "identity": Identity(),
    "toeplitz": Toeplitz(),
}
"""Algorithms of `Calculation`. The custom CRCs have BMv2's initial parameters; P4Runtime cannot set others."""
