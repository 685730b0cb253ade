from __future__ import annotations

import errno
import os

FULL_DISK = os.strerror(errno.ENOSPC)  # the system's message
_NO_ROOM = (FULL_DISK, os.strerror(errno.EDQUOT))


class HotlineError(Exception):
    """An error for a user. Its text is one line: the value, where it was found, and what was expected."""


class MalformedDatagram(HotlineError):
    """A datagram that is no valid RPC; the text names the field and its value."""


class DataError(HotlineError):
    """A log, training set or trace that cannot be used; the text names the file and the line."""


class DiskFull(DataError):
    """The disk is full, or the user's quota of it; what was there before is unchanged."""


def reason_of(error: Exception) -> str:
    """Return in one line why a file could not be written; numpy reports a full disk as a short write."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    line = str(error).partition("\n")[0]
    if FULL_DISK in line:  # Polars prefixes the system's message with the names of its layers
        return FULL_DISK
    return f"{line}: the disk may be full" if isinstance(error, OSError) else line


def is_disk_full(error: Exception) -> bool:
    # Polars' errors have no number, and numpy's neither number nor message of the system.
    is_short_write = isinstance(error, OSError) and error.errno is None
    return is_short_write or any(text in str(error) for text in _NO_ROOM)
