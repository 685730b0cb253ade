"""Hash functions of P4 programs by BMv2's names, and the mixing functions of table indices and `random`.

The Python code is the reference; `codegen.hashes` emits the same functions. BMv2:
src/bm_sim/calculations.cpp, targets/simple_switch/simple_switch.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

GOLDEN_RATIO = 0x9E3779B97F4A7C15
"""2^64 / golden ratio, rounded to an odd number: factor of the tables' hash, increment of splitmix64."""
SPLITMIX_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
"""splitmix64 (Steele, Lea and Flood, OOPSLA 2014): x = (x ^ x >> shift) * factor for each (shift, factor)."""
SPLITMIX_LAST_SHIFT = 31
"""Shift of the last step, x ^ x >> shift."""


@dataclass(frozen=True)
class Crc:
    """A cyclic redundancy check; a `reflected` one reverses the bits of each input byte and of the result."""

    width: int
    polynomial: int
    initial: int  # remainder before the first byte
    final: int  # XORed to the result
    reflected: bool

    @cached_property
    def table(self) -> tuple[int, ...]:
        """Remainder of each byte, for the algorithm that shifts towards the most significant bit."""
        return tuple(self._byte_remainder(byte) for byte in range(256))

    def _byte_remainder(self, byte: int) -> int:
        remainder = byte << (self.width - 8)
        for _ in range(8):
            carry = remainder >> (self.width - 1)
            remainder = (remainder << 1 ^ self.polynomial * carry) & ((1 << self.width) - 1)
        return remainder

    def __call__(self, data: bytes) -> int:
        remainder = self.initial
        for byte in data:
            index = (reflect(byte, 8) if self.reflected else byte) ^ remainder >> (self.width - 8)
            remainder = self.table[index] ^ (remainder << 8 & ((1 << self.width) - 1))
        return (reflect(remainder, self.width) if self.reflected else remainder) ^ self.final


@dataclass(frozen=True)
class InternetChecksum:
    """Complement of the ones' complement sum of 16-bit words, the last one padded with 0 (RFC 1071)."""

    def __call__(self, data: bytes) -> int:
        padded_data = data + b"\0" * (len(data) % 2)
        word_sum = sum(int.from_bytes(padded_data[i : i + 2], "big") for i in range(0, len(padded_data), 2))
        while word_sum >> 16:
            word_sum = (word_sum & 0xFFFF) + (word_sum >> 16)
        return ~word_sum & 0xFFFF


@dataclass(frozen=True)
class Xor:
    """Exclusive or of words of `width` bits, the last one padded with 0."""

    width: int

    def __call__(self, data: bytes) -> int:
        size = self.width // 8
        padded_data = data + b"\0" * (-len(data) % size)
        result = 0
        for start in range(0, len(padded_data), size):
            result ^= int.from_bytes(padded_data[start : start + size], "big")
        return result


@dataclass(frozen=True)
class Identity:
    """The first 8 bytes as a number."""

    def __call__(self, data: bytes) -> int:
        return int.from_bytes(data[:8], "big")


@dataclass(frozen=True)
class Toeplitz:
    """The Toeplitz hash with BMv2's key 0, which P4Runtime cannot change, so the result is 0."""

    def __call__(self, data: bytes) -> int:
        return 0


XXH_STRIPE_BYTES = 32
XXH_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_WORD_MASK, _HALF_WORD_MASK = (1 << 64) - 1, (1 << 32) - 1


@dataclass(frozen=True)
class Xxh64:
    """XXH64 with seed 0 (xxHash specification 0.1.1)."""

    def __call__(self, data: bytes) -> int:
        p1, p2, p3, p4, p5 = XXH_PRIMES
        offset = 0
        result = p5
        # Stripes of four words, then the remaining words, a half word, and bytes.
        if len(data) >= XXH_STRIPE_BYTES:
            lanes = [p1 + p2, p2, 0, -p1]
            while offset + XXH_STRIPE_BYTES <= len(data):
                for i in range(4):
                    word = int.from_bytes(data[offset + 8 * i : offset + 8 * i + 8], "little")
                    lanes[i] = _xxh_round(lanes[i], word)
                offset += XXH_STRIPE_BYTES
            result = sum(
                _rotate_left(lane, rotation) for lane, rotation in zip(lanes, (1, 7, 12, 18), strict=True)
            )
            for lane in lanes:
                result = (result ^ _xxh_round(0, lane)) * p1 + p4 & _WORD_MASK
        result = result + len(data) & _WORD_MASK
        while offset + 8 <= len(data):
            result ^= _xxh_round(0, int.from_bytes(data[offset : offset + 8], "little"))
            result, offset = _rotate_left(result, 27) * p1 + p4 & _WORD_MASK, offset + 8
        if offset + 4 <= len(data):
            result ^= int.from_bytes(data[offset : offset + 4], "little") * p1 & _WORD_MASK
            result, offset = _rotate_left(result, 23) * p2 + p3 & _WORD_MASK, offset + 4
        for byte in data[offset:]:
            result = _rotate_left(result ^ byte * p5 & _WORD_MASK, 11) * p1 & _WORD_MASK
        # Avalanche: each bit of the input affects all bits of the result.
        result = (result ^ result >> 33) * p2 & _WORD_MASK
        result = (result ^ result >> 29) * p3 & _WORD_MASK
        return result ^ result >> 32


def _rotate_left(value: int, rotation: int) -> int:
    value &= _WORD_MASK
    return (value << rotation | value >> (64 - rotation)) & _WORD_MASK


def _xxh_round(accumulator: int, word: int) -> int:
    return _rotate_left(accumulator + word * XXH_PRIMES[1], 31) * XXH_PRIMES[0] & _WORD_MASK


FNV_PRIME, FNV_OFFSET_BASIS = 0x01000193, 0x811C9DC5
FNV_MIXING_STEPS = (("shl", 13), ("lshr", 7), ("shl", 3), ("lshr", 17), ("shl", 5))
"""Shifts after the last byte, as LLVM's instructions: left, the value is added; right, it is XORed."""


@dataclass(frozen=True)
class MixedFnv:
    """FNV-1a of 32 bits, mixed: simple_switch's `hash_ex`, whose bytes are signed, as `char` of x86."""

    def __call__(self, data: bytes) -> int:
        result = FNV_OFFSET_BASIS
        for byte in data:
            signed_byte = byte - (byte >> 7 << 8)
            result = (result ^ signed_byte) * FNV_PRIME & _HALF_WORD_MASK
        for shift, count in FNV_MIXING_STEPS:
            if shift == "shl":
                result = result + (result << count) & _HALF_WORD_MASK
            else:
                result ^= result >> count
        return result


Algorithm = Xxh64 | MixedFnv | Crc | InternetChecksum | Xor | Identity | Toeplitz


def reflect(value: int, width: int) -> int:
    return int(f"{value & ((1 << width) - 1):0{width}b}"[::-1], 2)


_CRC16 = Crc(16, 0x8005, initial=0, final=0, reflected=True)
_CRC32 = Crc(32, 0x04C11DB7, initial=0xFFFFFFFF, final=0xFFFFFFFF, reflected=True)

ALGORITHMS: dict[str, Algorithm] = {
    "crc16": _CRC16,
    "crc16_custom": _CRC16,
    "crc32": _CRC32,
    "crc32_custom": _CRC32,
    "crcCCITT": Crc(16, 0x1021, initial=0xFFFF, final=0, reflected=False),
    "crc8_custom": Crc(8, 0x07, initial=0, final=0, reflected=False),
    "crc64_custom": Crc(64, 0x1B, initial=0, final=0, reflected=True),
    "csum16": InternetChecksum(),
    "cksum16": InternetChecksum(),
    "xor16": Xor(16),
    "xor32": Xor(32),
    "identity": Identity(),
    "toeplitz": Toeplitz(),
    "xxh64": Xxh64(),
    "bmv2_hash": Xxh64(),
    "hash_ex": MixedFnv(),
}
"""Algorithms by BMv2's names; custom CRCs have BMv2's initial parameters."""
