"""The consumer's end of a BPF ring buffer, whose pages the kernel shares with this process."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

HEADER_BYTES = 8  # of a record: its size and two flags, in 32 bits
_BUSY, _DISCARDED = 1 << 31, 1 << 30  # bits of a record's header; the others are its size
_ALIGNMENT = 8
_POSITION_BYTES = 8


class RingBuffer:
    """A map of type RINGBUF with `size` bytes of data."""

    def __init__(self, descriptor: int, size: int) -> None:
        page, self._size = mmap.PAGESIZE, size
        self._consumer = mmap.mmap(descriptor, page, mmap.MAP_SHARED)
        # A page with the producer's position, then the data twice, so that a record at the end is contiguous.
        self._ring = mmap.mmap(descriptor, page + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=page)

    def take(self) -> Iterator[bytes]:
        """Yield the waiting records in order, and remove them."""
        position = self._position()
        while position < self._end():
            start = mmap.PAGESIZE + position % self._size
            header = int.from_bytes(self._ring[start : start + 4], "little")
            if header & _BUSY:
                return
            size = header & ~(_BUSY | _DISCARDED)
            record = self._ring[start + HEADER_BYTES : start + HEADER_BYTES + size]
            position += (HEADER_BYTES + size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT
            self._move_to(position)
            if not header & _DISCARDED:
                yield record

    def take_array(self, kind: np.dtype[np.void]) -> npt.NDArray[np.void]:
        """Return the waiting records of a buffer whose records all have one type, and remove them.

        `kind` begins with the 32-bit field `header`, and its size is a multiple of 8. No record may have been
        discarded by its program.
        """
        position = self._position()
        count = (self._end() - position) // kind.itemsize
        start = mmap.PAGESIZE + position % self._size
        records = np.frombuffer(self._ring, dtype=kind, count=count, offset=start)
        is_busy = records["header"] & _BUSY != 0
        records = records[: int(is_busy.argmax()) if is_busy.any() else count].copy()
        self._move_to(position + records.nbytes)
        return records

    def _position(self) -> int:
        return int.from_bytes(self._consumer[:_POSITION_BYTES], "little")

    def _end(self) -> int:
        return int.from_bytes(self._ring[:_POSITION_BYTES], "little")

    def _move_to(self, position: int) -> None:
        self._consumer[:_POSITION_BYTES] = position.to_bytes(_POSITION_BYTES, "little")

    def close(self) -> None:
        self._consumer.close()
        self._ring.close()
