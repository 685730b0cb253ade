from __future__ import annotations

import errno
import os
import re

FULL_DISK = os.strerror(errno.ENOSPC)  # the system's message
_OS_ERROR_NUMBER = re.compile(r"\(os error (\d+)\)")  # as Rust's libraries print it
_SHORT_WRITE = re.compile(r"\d+ requested and \d+ written")
_NO_ROOM = (FULL_DISK, os.strerror(errno.EDQUOT))


class HotlineError(Exception):
    """An error for a user. Its text is one line: the value, where it was found, and what was expected."""


class MalformedDatagram(HotlineError):
    """A datagram that is no valid RPC; the text names the field and its value."""


class DataError(HotlineError):
    """A log, training set or trace that cannot be used; the text names the file and the line."""


class DiskFullError(DataError):
    """The disk is full, or the user's quota of it; what was there before is unchanged."""


def reason_of(error: BaseException) -> str:
    """Return in one line why a file could not be read or written."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    line = str(error).partition("\n")[0]
    # Polars puts names of its layers before the system's message, and the path after it.
    if number := _OS_ERROR_NUMBER.search(line):
        return os.strerror(int(number[1]))
    if FULL_DISK in line:
        return FULL_DISK
    # So numpy reports a full disk.
    return f"{line}: the disk may be full" if _SHORT_WRITE.search(line) else line


def os_error_message(error: OSError) -> str:
    """Return in one line which file an operation failed for, and why."""
    return reason_of(error) if error.filename is None else f"{error.filename}: {reason_of(error)}"


def is_disk_full(error: Exception) -> bool:
    # Polars' errors have no number, and numpy's neither number nor message of the system.
    is_short_write = isinstance(error, OSError) and error.errno is None
    return is_short_write or any(text in str(error) for text in _NO_ROOM)
