"""The interpreter's hashes and checksums: inputs, padding, conditions, payload."""

from __future__ import annotations

import binascii
import zlib

import pytest

from softswitch.interpreter import InterpretedPipeline
from switch_harness.constructs import compiled

PROGRAM = compiled("hashes")
OPTIONAL, VERIFY, VERIFY_PAYLOAD, REMOVE_OPTIONAL, REMOVE_RESULTS, CUT, CONDITIONAL, CRC = (
    1 << bit for bit in range(8)
)
WIDE = bytes.fromhex("0102030405")
PROBE_BYTES, OPTIONAL_BYTES, SUMS_BYTES = 14, 4, 12


def csum16(data: bytes) -> int:
    padded = data + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[at : at + 2], "big") for at in range(0, len(padded), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def crc16(data: bytes) -> int:
    """Compute CRC-16/ARC bit by bit, as crc_hqx has another polynomial."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0xA001 * (crc & 1)
    return crc


def packet(
    op: int,
    *,
    base: int = 0,
    size: int = 0,
    optional: bytes = b"",
    sums: bytes = bytes(12),
    body: bytes = b"",
) -> bytes:
    """A probe with nibble 0xa, rest 0xbcd and WIDE."""
    numbers = base.to_bytes(2, "big") + size.to_bytes(2, "big")
    return bytes([op, 0xAB, 0xCD]) + WIDE + numbers + b"\0" + optional + sums + body


def answer(frame: bytes) -> bytes:
    [output] = InterpretedPipeline(PROGRAM).process(1, frame, 0, 0)
    return output.frame


def results(frame: bytes) -> list[int]:
    got = answer(frame)[13 + 12 :]
    numbers = []
    for size in (2, 4, 2, 2, 8, 2, 4, 2, 4):
        numbers.append(int.from_bytes(got[:size], "big"))
        got = got[size:]
    return numbers


def test_every_hash_algorithm_computes_the_expected_value() -> None:
    by_crc16, by_crc32, by_csum16, by_xor16, by_identity, custom16, custom32, _, nested = results(packet(0))
    assert by_crc16 == crc16(b"\xab\xcd" + WIDE)
    # wide, op 0, three bits of 0xa, padded at the end
    assert by_crc32 == zlib.crc32(WIDE + b"\0" + bytes([0b010 << 5]))
    assert by_csum16 == csum16(WIDE + b"\xa0")
    # wide, 0xbcd, two bits of 0xa: 54 bits
    bits = (int.from_bytes(WIDE, "big") << 14 | 0xBCD << 2 | 0b10) << 2
    words = bits.to_bytes(7, "big") + b"\0"
    assert by_xor16 == int.from_bytes(words[0:2], "big") ^ int.from_bytes(words[2:4], "big") ^ int.from_bytes(
        words[4:6], "big"
    ) ^ int.from_bytes(words[6:8], "big")
    identity = ((0xBCD << 40 | int.from_bytes(WIDE, "big")) << 4).to_bytes(7, "big")
    assert by_identity == int.from_bytes(identity, "big")
    assert custom16 == crc16(WIDE + b"\x5a")
    assert custom32 == zlib.crc32(b"\xbc\xd3" + WIDE)
    inner = by_crc16.to_bytes(2, "big") + by_crc32.to_bytes(4, "big")
    assert nested == zlib.crc32(inner) % 1000003 + 7


@pytest.mark.parametrize(("base", "size"), [(0, 0), (100, 0), (5, 7), (0xFFF0, 0x100)])
def test_a_hash_is_brought_into_its_range(base: int, size: int) -> None:
    hashed = crc16(((int.from_bytes(WIDE, "big") << 12 | 0xBCD) << 4).to_bytes(7, "big"))
    assert results(packet(0, base=base, size=size))[7] == (hashed % (size or 1) + base) % 0x10000


def sums(op: int, optional: bytes = b"", body: bytes = b"") -> tuple[int, int, int, int, int]:
    """Return (plain, payload, conditional, crc, after)."""
    at = 13 + (OPTIONAL_BYTES if op & OPTIONAL and not op & REMOVE_OPTIONAL else 0)
    got = answer(packet(op, optional=optional, body=body))[at : at + SUMS_BYTES]
    plain, payload, conditional = (int.from_bytes(got[i : i + 2], "big") for i in (0, 2, 4))
    return plain, payload, conditional, int.from_bytes(got[6:10], "big"), int.from_bytes(got[10:], "big")


def test_inputs_of_invalid_headers_are_left_out() -> None:
    optional = b"\xe0\x01\0\0"
    assert sums(0)[0] == csum16(WIDE + b"\0")
    assert sums(OPTIONAL, optional=optional)[0] == csum16(WIDE + b"\xe0\x01" + bytes([OPTIONAL]))
    removed = OPTIONAL | REMOVE_OPTIONAL
    assert sums(removed, optional=optional)[0] == csum16(WIDE + bytes([removed]))


def test_the_payload_is_the_part_that_the_parser_did_not_extract() -> None:
    rest = ((int.from_bytes(WIDE, "big") << 12 | 0xBCD) << 4).to_bytes(7, "big")
    assert sums(REMOVE_RESULTS, body=b"payload")[1] == csum16(rest + b"payload")
    assert sums(REMOVE_RESULTS | CRC, body=b"payload")[3] == zlib.crc32(b"\xa0payload")


def test_a_hash_over_the_payload_ends_at_the_truncation_of_the_packet() -> None:
    op = REMOVE_RESULTS | CUT | CRC
    frame = answer(packet(op, body=b"x" * 40))
    assert len(frame) == 24
    assert frame[13 + 6 : 13 + 10] == zlib.crc32(b"\xa0" + b"x" * 24).to_bytes(4, "big")


def test_checksums_are_updated_in_order_if_their_conditions_hold() -> None:
    optional = bytes(4)
    plain, payload, conditional, _, after = sums(OPTIONAL | CONDITIONAL, optional=optional)
    assert conditional == plain ^ payload
    joined = b"".join(value.to_bytes(2, "big") for value in (plain, payload, conditional)) + bytes(4)
    assert after == crc16(joined)
    assert sums(CONDITIONAL)[2] == 0
    assert sums(OPTIONAL, optional=optional)[2] == 0


@pytest.mark.parametrize(
    ("op", "checksum", "wrong"),
    [
        (OPTIONAL | VERIFY, csum16(b"\xab\xcd\xe0\x01"), 0),
        (OPTIONAL | VERIFY, 0x1234, 1),
        (OPTIONAL, 0x1234, 0),
        (VERIFY, 0, 0),  # the header of the checksum is invalid
    ],
)
def test_a_wrong_checksum_is_found_if_its_header_is_valid(op: int, checksum: int, wrong: int) -> None:
    optional = b"\xe0\x01" + checksum.to_bytes(2, "big") if op & OPTIONAL else b""
    assert answer(packet(op, optional=optional))[12] == wrong


def test_a_checksum_over_the_payload_is_verified() -> None:
    right = csum16(WIDE + b"\xa0payload")
    for checksum, wrong in ((right, 0), (right ^ 1, 1)):
        stored = bytes(2) + checksum.to_bytes(2, "big") + bytes(8)
        assert answer(packet(VERIFY_PAYLOAD, sums=stored, body=b"payload"))[12] == wrong


def test_the_crc16_of_the_tests_has_the_published_check_value() -> None:
    assert crc16(b"123456789") == 0xBB3D
    assert binascii.crc32(b"123456789") == 0xCBF43926
