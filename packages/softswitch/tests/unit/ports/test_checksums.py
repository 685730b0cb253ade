"""Checksums that a sender has left to its interface, compared with RFC 1071's sum."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from softswitch.ports.checksums import NEEDS_CHECKSUM, VNET_HEADER, VNET_HEADER_BYTES, finish_checksum
from switch_harness.native import uncached


@uncached
def finish(frame: int, length: int) -> None:
    finish_checksum(frame, length)


TCP, UDP, SCTP = 16, 6, 8  # offsets of the checksums


def finished(frame: bytes, start: int, offset: int, status: int = NEEDS_CHECKSUM) -> bytes:
    """Return the frame as the ring has it afterwards; the bytes around it must not change."""
    header = np.zeros(1, VNET_HEADER)
    header["status"], header["csum_start"], header["csum_offset"] = status, start, offset
    after = b"behind"
    ring = np.frombuffer(header.tobytes() + frame + after, np.uint8).copy()
    finish(ring.ctypes.data + VNET_HEADER_BYTES, len(frame))
    data = ring.tobytes()
    assert (data[:VNET_HEADER_BYTES], data[-len(after) :]) == (header.tobytes(), after)
    return data[VNET_HEADER_BYTES : -len(after)]


def internet_sum(data: bytes) -> int:
    padded = data + bytes(len(data) % 2)
    total = sum(int.from_bytes(padded[i : i + 2], "big") for i in range(0, len(padded), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@pytest.mark.parametrize("offset", [TCP, UDP])
def test_a_frame_with_a_completed_checksum_sums_up_to_65535(offset: int) -> None:
    """With the sum of the pseudo-header that was in its place; nothing else changes."""
    random = Random(offset)
    for length in [*range(54, 130), 1514, 9014]:
        start = random.choice([14, 18, 34, 54 - 20])
        frame = bytes(random.choice((0, 255, random.randrange(256))) for _ in range(length))
        position = start + offset
        result = finished(frame, start, offset)
        assert result[:position] + result[position + 2 :] == frame[:position] + frame[position + 2 :]
        pseudo_header = frame[position : position + 2]
        # The pseudo-header's sum counts in addition to the stored checksum.
        assert internet_sum(result[start:] + bytes((length - start) % 2) + pseudo_header) == 0xFFFF
        assert result[position : position + 2] != bytes(2)


def test_a_checksum_of_0_is_stored_as_65535() -> None:
    """A checksum of 0 would mean that there is none."""
    frame = bytes(14) + b"\xff\xff" + bytes(6) + b"\0\0"
    assert finished(frame, 14, UDP)[20:22] == b"\xff\xff"


@pytest.mark.parametrize(
    ("length", "start", "offset", "status"),
    [(60, 34, UDP, 0), (60, 34, UDP, 2), (60, 34, SCTP, NEEDS_CHECKSUM), (41, 34, UDP, NEEDS_CHECKSUM)],
)
def test_frames_without_a_pending_checksum_stay_unchanged(
    length: int, start: int, offset: int, status: int
) -> None:
    """Finished ones, those with a CRC, and those without room for a checksum."""
    frame = bytes(range(length))
    assert finished(frame, start, offset, status) == frame
