"""Both ways to read a ring buffer give the records that were submitted, in order."""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Iterator

import numpy as np
import pytest

from softswitch.kernel.ring import HEADER_BYTES, RingBuffer
from switch_harness.effort import seeds

SIZE = mmap.PAGESIZE
KIND = np.dtype([("header", "<u4"), ("page", "<u4"), ("number", "<u8"), ("rest", "V24")])
BUSY = 1 << 31


class Producer:
    """The kernel's end of a ring buffer, in a file: its positions, and the data, which are there twice."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("ring")
        os.ftruncate(self.descriptor, 2 * mmap.PAGESIZE + 2 * SIZE)
        self.position = 0

    def consumed(self) -> int:
        return int.from_bytes(os.pread(self.descriptor, 8, 0), "little")

    def has_room(self) -> bool:
        return self.position + KIND.itemsize - self.consumed() <= SIZE

    def put(self, number: int, is_busy: bool = False) -> int:
        """Write a record; return its position."""
        header = KIND.itemsize - HEADER_BYTES | (BUSY if is_busy else 0)
        record = np.array((header, 0, number, b"\7" * 24), KIND).tobytes()
        start, self.position = self.position, self.position + len(record)
        self._write(start, record)
        os.pwrite(self.descriptor, self.position.to_bytes(8, "little"), mmap.PAGESIZE)
        return start

    def submit(self, position: int) -> None:
        self._write(position, (KIND.itemsize - HEADER_BYTES).to_bytes(4, "little"))

    def _write(self, position: int, content: bytes) -> None:
        for copy in (0, 1):
            for at, octet in enumerate(content):
                place = (position + at) % SIZE + copy * SIZE
                os.pwrite(self.descriptor, bytes([octet]), 2 * mmap.PAGESIZE + place)


@pytest.fixture
def rings() -> Iterator[list[tuple[Producer, RingBuffer]]]:
    producers = [Producer(), Producer()]
    rings = [RingBuffer(producer.descriptor, SIZE) for producer in producers]
    yield list(zip(producers, rings, strict=True))
    for producer, ring in zip(producers, rings, strict=True):
        ring.close()
        os.close(producer.descriptor)


def numbers(ring: RingBuffer, as_array: bool) -> list[int]:
    if as_array:
        return list(map(int, ring.take_array(KIND)["number"]))
    return [int.from_bytes(record[:8], "little") for record in ring.take()]


@pytest.mark.parametrize("seed", seeds(16))
def test_records_come_once_and_in_order(seed: int, rings: list[tuple[Producer, RingBuffer]]) -> None:
    rng, count, busy = random.Random(seed), 400, list[int]()
    found: list[list[int]] = [[], []]

    def submit(positions: list[int]) -> None:
        for position in positions:
            busy.remove(position)
            for producer, _ in rings:
                producer.submit(position)

    def take() -> None:
        for as_array, (_, ring) in enumerate(rings):
            found[as_array] += numbers(ring, bool(as_array))
        assert found[0] == found[1] == list(range(len(found[0])))

    for number in range(count):
        if not rings[0][0].has_room():
            submit([*busy])
            take()
        is_busy = rng.random() < 0.2
        position, _ = (producer.put(number, is_busy) for producer, _ in rings)
        busy += [position] * is_busy
        if rng.random() < 0.3:
            submit(rng.sample(busy, len(busy) // 2))
            take()
    submit([*busy])
    take()
    assert len(found[0]) == count > SIZE // KIND.itemsize  # the buffer was used from its begin again


def test_a_record_that_is_being_written_waits(rings: list[tuple[Producer, RingBuffer]]) -> None:
    for as_array, (producer, ring) in enumerate(rings):
        producer.put(1)
        position = producer.put(2, is_busy=True)
        producer.put(3)
        assert numbers(ring, bool(as_array)) == [1]
        producer.submit(position)
        assert numbers(ring, bool(as_array)) == [2, 3]
        assert numbers(ring, bool(as_array)) == []
