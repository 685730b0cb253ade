"""Open the files of a log: expand folders and patterns, decompress them, read lines."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

from foundation.errors import DataError

try:
    import zstandard
except ImportError:  # logs that are not compressed by it can be read all the same
    _ZSTANDARD_ERRORS: tuple[type[Exception], ...] = ()
else:
    _ZSTANDARD_ERRORS = (zstandard.ZstdError,)

BLOCK_BYTES = 8 << 20
HEAD_BYTES = 1 << 16
_COMPRESSED_BYTES = 1 << 16  # read at a time
_ZSTANDARD_BUFFER_BYTES = 1 << 20
_MAGIC_BYTES = 6
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_XZ, _BZIP2 = b"\xfd7zXZ\x00", b"BZh"
ZLIB = (b"\x78\x01", b"\x78\x9c", b"\x78\xda")
_READ_ERRORS: tuple[type[Exception], ...] = (
    OSError,
    EOFError,
    lzma.LZMAError,
    zlib.error,
    *_ZSTANDARD_ERRORS,
)
_PATTERN = re.compile(r"[*?\[]")
_METADATA_FILE = re.compile(r"[._].*|.*\.(json|md|yaml|yml)|.*file_list.*\.txt", re.IGNORECASE)

_File: TypeAlias = str | PathLike[str]
LogFiles: TypeAlias = _File | Sequence[_File]
"""A file, folder or pattern of an access log (docs/logs.md), or several, which are merged."""


def paths_of(files: LogFiles) -> list[Path]:
    if isinstance(files, str | PathLike):
        return [Path(files)]
    return [Path(file) for file in files]


def expand(paths: Sequence[Path]) -> list[Path]:
    """Return the data files that paths, folders and patterns (`day_*`) stand for, in natural order."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            data_files = [
                file for file in path.rglob("*") if file.is_file() and not _METADATA_FILE.fullmatch(file.name)
            ]
        elif _PATTERN.search(str(path)) and not path.exists():
            root = Path(path.anchor)
            data_files = [file for file in root.glob(str(path.relative_to(root))) if file.is_file()]
        else:
            files.append(path)
            continue
        if not data_files:
            raise DataError(f"{path}: expected data files, found none")
        files += sorted(data_files, key=_natural_sort_key)
    return files


def _natural_sort_key(path: Path) -> list[tuple[int, str]]:
    return [(int(part) if part.isdecimal() else -1, part) for part in re.split(r"(\d+)", str(path))]


def read_head(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise DataError(f"{path}: not a regular file; a log or training set is read more than once")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    with open_stream(path) as stream:
        return stream.read(HEAD_BYTES)


class _ZstandardFile(io.RawIOBase):
    """A decompressing reader; unlike zstandard's own, it raises an error if the file ends within a frame."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._is_in_frame = False
        self._decompressed_data = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # as BufferedReader calls it
        while not self._decompressed_data:
            # A file may have several frames: what follows the end of one begins the next.
            compressed = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame, self._is_in_frame = zstandard.ZstdDecompressor().decompressobj(), False
            compressed = compressed or self._file.read(_COMPRESSED_BYTES)
            if not compressed:
                if self._is_in_frame:
                    raise EOFError("compressed file ended before the end of a frame")
                return 0
            self._is_in_frame = True
            self._decompressed_data = memoryview(self._frame.decompress(compressed))
        size = min(len(buffer), len(self._decompressed_data))
        buffer[:size] = self._decompressed_data[:size]
        self._decompressed_data = self._decompressed_data[size:]
        return size


class Stream:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("rb")
        magic = self._file.read(_MAGIC_BYTES)
        self._file.seek(0)
        self._decompressed = cast(BinaryIO, self._file)
        self._text: io.TextIOWrapper | None = None
        if magic.startswith(GZIP):
            self._decompressed = cast(BinaryIO, gzip.GzipFile(fileobj=self._file))
        elif magic.startswith(_XZ):
            self._decompressed = cast(BinaryIO, lzma.open(self._file))  # noqa: SIM115  # closed by `close`
        elif magic.startswith(_BZIP2):
            self._decompressed = cast(BinaryIO, bz2.BZ2File(self._file))
        elif magic.startswith(ZSTD):
            if not _ZSTANDARD_ERRORS:
                self._file.close()
                raise DataError(
                    f"{path}: compressed by zstd, which the package zstandard reads, and it is not installed"
                )
            self._decompressed = cast(
                BinaryIO, io.BufferedReader(_ZstandardFile(self._file), _ZSTANDARD_BUFFER_BYTES)
            )
        elif magic.startswith(ZLIB):
            try:
                self._decompressed = io.BytesIO(zlib.decompress(self._file.read()))
            except zlib.error:
                self._file.close()
                raise

    @property
    def position(self) -> int:
        """Compressed bytes read so far."""
        return 0 if self._file.closed else self._file.tell()

    def read(self, size: int = -1) -> bytes:
        try:
            return self._decompressed.read(size)
        except _READ_ERRORS as error:
            raise DataError(f"{self._path}: cannot be decompressed: {error}") from error

    def lines(self, encoding: str) -> Iterator[str]:
        self._text = io.TextIOWrapper(self._decompressed, encoding)
        try:
            yield from self._text
        except _READ_ERRORS as error:
            raise DataError(f"{self._path}: cannot be decompressed: {error}") from error

    def close(self) -> None:
        if self._text is not None:
            self._text.close()
        self._file.close()


@contextmanager
def open_stream(path: Path) -> Iterator[Stream]:
    try:
        stream = Stream(path)
    except _READ_ERRORS as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise DataError(f"{path}: cannot be read: {reason or error}") from error
    try:
        yield stream
    finally:
        stream.close()


@dataclass
class StreamedLog:
    path: Path
    _stream: Stream | None = field(default=None, init=False)

    @property
    def position(self) -> int:
        return 0 if self._stream is None else self._stream.position

    @contextmanager
    def open(self) -> Iterator[Stream]:
        with open_stream(self.path) as self._stream:
            yield self._stream


def line_blocks(stream: Stream, has_quotes: bool = True, ends_with_return: bool = False) -> Iterator[bytes]:
    """Yield blocks of whole lines; with `has_quotes`, a line break within quotes does not end a line.

    With `ends_with_return`, lines end with a carriage return, and in the blocks with a line feed.
    """
    remainder = b""
    while data := stream.read(BLOCK_BYTES):
        remainder += data.replace(b"\r", b"\n") if ends_with_return else data
        end = remainder.rfind(b"\n")
        # After an odd number of quotes, `end` is within quotes: go back to the last line that has ended.
        if has_quotes and remainder.count(b'"', 0, end + 1) % 2:
            end = remainder.rfind(b"\n", 0, remainder.rfind(b'"', 0, end + 1))
        if end >= 0:
            yield remainder[: end + 1]
            remainder = remainder[end + 1 :]
    if remainder:
        yield remainder
