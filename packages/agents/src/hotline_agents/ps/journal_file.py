"""The journal of a PS on the disk: commits of notes, one after the other, in a file that is written over.

A commit is its length, its CRC-32, and the notes. The checksum begins with the journal's generation, so the
commits of an earlier generation, over which those of the current one are written, are not taken for any of
it. Reading ends at the first commit that is not whole: the process was killed in it, before it acknowledged
anything of it.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

_HEAD = struct.Struct("<II")  # length of the notes in bytes, CRC-32
_MAX_COMMIT_BYTES = 1 << 30


class JournalFile:
    """Commits of one generation; raises `OSError`, such as of a full disk, with the file as it was."""

    def __init__(self, file: Path, generation: int, is_synced: bool) -> None:
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._is_synced = is_synced
        self.begin(generation)

    def begin(self, generation: int) -> None:
        """Begin an empty journal, or one whose commits of this generation `read` finds."""
        self._seed, self._end = zlib.crc32(struct.pack("<Q", generation)), 0

    def append(self, notes: bytes) -> None:
        """Write a commit; with `is_synced`, return when the disk has it."""
        if not notes:
            return
        head = _HEAD.pack(len(notes), self._checksum(notes))
        commit_bytes = len(head) + len(notes)
        written = os.pwritev(self._descriptor, [head, notes], self._end)
        if (
            written < commit_bytes
        ):  # there is no room for the rest, or a signal came: one write more says which
            self._write_rest((head + notes)[written:], self._end + written)
        if self._is_synced:
            os.fdatasync(self._descriptor)
        self._end += commit_bytes

    def _write_rest(self, data: bytes, offset: int) -> None:
        while data:
            written = os.pwrite(self._descriptor, data, offset)
            data, offset = data[written:], offset + written

    def read(self) -> Iterator[bytes]:
        """Yield the notes of each commit of the generation; the next `append` follows the last one."""
        self._end = 0
        while (notes := self._read_commit()) is not None:
            self._end += _HEAD.size + len(notes)
            yield notes

    def _read_commit(self) -> bytes | None:
        head = os.pread(self._descriptor, _HEAD.size, self._end)
        if len(head) < _HEAD.size:
            return None
        length, checksum = _HEAD.unpack(head)
        if not 0 < length <= _MAX_COMMIT_BYTES:
            return None
        notes = os.pread(self._descriptor, length, self._end + _HEAD.size)
        return notes if len(notes) == length and self._checksum(notes) == checksum else None

    def _checksum(self, notes: bytes) -> int:
        return zlib.crc32(notes, zlib.crc32(struct.pack("<I", len(notes)), self._seed))

    def close(self) -> None:
        os.close(self._descriptor)
