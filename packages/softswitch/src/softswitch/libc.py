"""Functions of the C library that Python calls and its standard library lacks.

Each raises OSError if it fails. Compiled code calls the functions of `nativekit.libc`.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

_MAP_FAILED = ctypes.c_void_p(-1).value

Argument = int | bytes | None | ctypes.c_void_p | ctypes.Array[ctypes.c_char]


@cache
def _library() -> ctypes.CDLL:
    """Load the library when it is first used: Windows, where the interpreter can be imported, has none."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    ]  # fmt: skip
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def call(name: str, *arguments: Argument) -> int:
    """Call a function that returns an int, below 0 for an error; an address is a `c_void_p` or bytes."""
    result = int(getattr(_library(), name)(*arguments))
    if result < 0:
        raise _error()
    return result


def map_memory(address: int, size: int, protection: int, flags: int, descriptor: int) -> int:
    """Return the address of a new mapping by mmap(2); an `address` of 0 is any."""
    result = _library().mmap(address or None, size, protection, flags, descriptor, 0)
    if result in (None, _MAP_FAILED):
        raise _error()
    return int(result)


def unmap_memory(address: int, size: int) -> None:
    _library().munmap(address, size)


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
