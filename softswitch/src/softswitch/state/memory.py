"""The memory block that packet function and control plane share, and its lock."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from softswitch.memory.rows import Words
from softswitch.memory.words import WORD_BYTES

MUTEX_BYTES = 64

_HUGE_PAGE = 1 << 21  # bytes

_libc = ctypes.CDLL(None, use_errno=True)


class Memory:
    """Words, initially 0. The data plane holds the mutex for a burst, the control plane for one operation."""

    log_address = 0
    """Address of a log in which compiled code notes the words it changes (`memory.rows`), or 0."""

    def __init__(self, size_bytes: int) -> None:
        self.attach(_allocate_huge_pages(max(WORD_BYTES, size_bytes)))

    def attach(self, words: Words) -> None:
        self.byte_view = words.view(np.uint8).data
        self.words = words
        """Current contents, for reading only; change them with `store`, `store_bytes` and `changing`."""
        self.address: int = self.words.ctypes.data
        lock = np.zeros(MUTEX_BYTES // 8 + 1, dtype=np.uint64)
        self.waiting = lock[-1:]
        """One word that is not 0 while the control plane waits for the mutex or holds it."""
        self.mutex_address: int = lock.ctypes.data
        self.waiting_address: int = self.waiting.ctypes.data
        _libc.pthread_mutex_init(ctypes.c_void_p(self.mutex_address), None)
        self.control_lock = threading.RLock()
        """Lock that control-plane threads take before the mutex; it also guards their own copies of state."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the data plane out, for short reads and writes."""
        with self.control_lock:
            self.waiting[0] = 1
            _libc.pthread_mutex_lock(ctypes.c_void_p(self.mutex_address))
            try:
                yield
            finally:
                _libc.pthread_mutex_unlock(ctypes.c_void_p(self.mutex_address))
                self.waiting[0] = 0

    def read(self, first: int, stop: int, unit: int = 1) -> Words:
        """Return a copy of words, under `locked`; the kernel datapath makes only `unit` words consistent."""
        return self.words[first:stop].copy()

    def store(self, first_word: int, values: Sequence[int] | Words) -> None:
        """Change words; the caller holds `locked`."""
        self.words[first_word : first_word + len(values)] = values

    def store_bytes(self, first_byte: int, data: bytes) -> None:
        """Change bytes, under `locked`; in the kernel datapath, packets may change other bytes of words."""
        self.byte_view[first_byte : first_byte + len(data)] = data

    @contextmanager
    def changing(self) -> Iterator[Words]:
        """Yield the words to compiled code that changes them, which takes the mutex itself."""
        with self.control_lock:
            yield self.words


def _allocate_huge_pages(size_bytes: int) -> Words:
    """Allocate words, in huge pages if possible: tables span more small pages than a TLB holds."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    mapping = mmap.mmap(-1, -(-size_bytes // _HUGE_PAGE) * _HUGE_PAGE + _HUGE_PAGE, flags=flags)
    # Only Linux has the constant, and some kernels are built without huge pages.
    with contextlib.suppress(AttributeError, OSError):
        mapping.madvise(mmap.MADV_HUGEPAGE)
    # Bytes from the mapping's start to the next huge page.
    start = -np.frombuffer(mapping, dtype=np.uint8).ctypes.data % _HUGE_PAGE
    return np.frombuffer(mapping, dtype=np.uint64, count=size_bytes // WORD_BYTES, offset=start)
