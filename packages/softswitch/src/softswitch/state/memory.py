"""The memory block that packet function and control plane share, its lock, and transactions on it."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from softswitch import libc
from softswitch.errors import ProgramError
from softswitch.memory.rows import LOG_WORDS, Words
from softswitch.memory.words import WORD_BYTES

MUTEX_BYTES = 64

_HUGE_PAGE = 1 << 21  # bytes
_SMALL_STATE = 4 * _HUGE_PAGE
"""Bytes of state for whose small pages a TLB has room."""


class Memory:
    """Words, initially 0. The data plane holds the mutex for a burst, the control plane for one operation."""

    log_always = False
    """Whether compiled code logs the words it changes also outside of transactions."""

    def __init__(self, size_bytes: int) -> None:
        self._undo_steps: list[Callable[[], None]] | None = None  # of the current transaction
        self._holds_mutex = False  # whether the current transaction does
        self.attach(_allocate(max(WORD_BYTES, size_bytes)))

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
        libc.call("pthread_mutex_init", ctypes.c_void_p(self.mutex_address), None)
        self.control_lock = threading.RLock()
        """Lock that control-plane threads take before the mutex; it also guards their own copies of state."""

    def close(self) -> None:
        """Release all memory; any later use raises AttributeError, and closing twice is harmless."""
        vars(self).clear()

    @property
    def free_mutex_address(self) -> int:
        """The address of the mutex, for code that takes it; 0 if the current transaction holds it."""
        return 0 if self._holds_mutex else self.mutex_address

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the data plane out, for short reads and writes."""
        with self.control_lock:
            if self._holds_mutex:
                yield
                return
            self.waiting[0] = 1
            libc.call("pthread_mutex_lock", ctypes.c_void_p(self.mutex_address))
            try:
                yield
            finally:
                libc.call("pthread_mutex_unlock", ctypes.c_void_p(self.mutex_address))
                self.waiting[0] = 0

    # -- transactions

    @cached_property
    def log(self) -> Words:
        """Changes by compiled code in the current `changing` block (`memory.rows`)."""
        return np.zeros(LOG_WORDS, dtype=np.uint64)  # the system provides no pages before they are used

    @property
    def is_logging(self) -> bool:
        """Whether compiled code must log the words it changes."""
        return self.log_always or self._undo_steps is not None

    @contextmanager
    def transaction(self, is_atomic: bool) -> Iterator[None]:
        """Undo all changes of the block if it raises; if `is_atomic`, packets see all of them at once.

        An atomic transaction locks the data plane out for as long as it lasts.
        """
        with self.control_lock, self.locked() if is_atomic else contextlib.nullcontext():
            self._begin()
            self._holds_mutex = is_atomic
            try:
                yield
            except BaseException:
                with self.locked():
                    self._undo()
                raise
            finally:
                self._undo_steps, self._holds_mutex = None, False

    def on_undo(self, step: Callable[[], None]) -> None:
        """Call `step` if the current transaction, if any, is undone; the last step is called first."""
        if self._undo_steps is not None:
            self._undo_steps.append(step)

    def _begin(self) -> None:
        assert self._undo_steps is None, "transactions do not nest"
        self._undo_steps = []

    def _undo(self) -> None:
        steps, self._undo_steps = self._undo_steps or [], None
        for step in reversed(steps):
            step()

    # -- contents

    def read(self, first: int, stop: int, unit: int = 1) -> Words:
        """Return a copy of words, under `locked`; the kernel datapath makes only `unit` words consistent."""
        return self.words[first:stop].copy()

    def read_cells(self, first_byte: int, step: int, count: int, size: int) -> npt.NDArray[np.uint8]:
        """Return a copy of cells [count, size], each `step` bytes after the previous one, under `locked`.

        In the kernel datapath only each cell is consistent.
        """
        octets = np.frombuffer(self.byte_view, dtype=np.uint8)
        return strided_cells(octets, first_byte, step, count, size).copy()

    def store(self, first_word: int, values: Sequence[int] | Words) -> None:
        """Change words; the caller holds `locked`."""
        words = self.words[first_word : first_word + len(values)]
        if self._undo_steps is not None:
            self.on_undo(partial(self._restore, slice(first_word, first_word + len(values)), words.copy()))
        words[:] = values

    def store_bytes(self, first_byte: int, data: bytes) -> None:
        """Change bytes, under `locked`; in the kernel datapath, packets may change other bytes of words."""
        self.store_cells(first_byte, len(data), 1, data)

    def store_cells(self, first_byte: int, step: int, count: int, data: bytes) -> None:
        """Change the bytes of `count` cells, each `step` bytes after the previous one, as `store_bytes`."""
        cells = strided_cells(
            np.frombuffer(self.byte_view, dtype=np.uint8), first_byte, step, count, len(data)
        )
        if self._undo_steps is not None:
            self.on_undo(partial(cells.__setitem__, slice(None), cells.copy()))
        cells[:] = np.frombuffer(data, dtype=np.uint8)

    @contextmanager
    def changing(self) -> Iterator[Words]:
        """Yield the words to compiled code that changes them, which takes the mutex itself."""
        with self.control_lock:
            if self._undo_steps is None:
                yield self.words
                return
            self.log[0] = 0
            yield self.words
            self.on_undo(partial(self._restore, *self._logged_changes()))

    def _logged_changes(self) -> tuple[npt.NDArray[np.int64], Words]:
        """Return the words that compiled code has changed, last change first, and their old values."""
        changes = self.log[1 : 1 + 2 * int(self.log[0])].reshape(-1, 2)[::-1]
        return changes[:, 0].astype(np.int64), changes[:, 1].copy()

    def _restore(self, where: slice | npt.NDArray[np.int64], values: Words) -> None:
        # Of several values for a word, NumPy assigns the last, which is the oldest.
        self.words[where] = values


def strided_cells(
    data: npt.NDArray[np.uint8], first: int, step: int, count: int, size: int
) -> npt.NDArray[np.uint8]:
    """Return a view [cell, byte] of cells of `size` bytes, each `step` bytes after the previous one."""
    if not count:
        return data[:0].reshape(0, size)
    assert first + step * (count - 1) + size <= len(data)
    return np.ndarray((count, size), np.uint8, data, first, (step, 1))


def _allocate(size_bytes: int) -> Words:
    """Allocate words: a large state in huge pages, if possible, since a TLB holds too few small ones.

    Of small pages, only those that are used take memory.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    try:
        mapping = mmap.mmap(-1, -(-size_bytes // _HUGE_PAGE) * _HUGE_PAGE + _HUGE_PAGE, flags=flags)
    except OSError as error:
        raise ProgramError(
            f"the program's tables and arrays need {size_bytes} bytes: {error.strerror}"
        ) from None
    # Only Linux has the constant, and some kernels are built without huge pages.
    with contextlib.suppress(AttributeError, OSError):
        mapping.madvise(mmap.MADV_HUGEPAGE if size_bytes > _SMALL_STATE else mmap.MADV_NOHUGEPAGE)
    # Bytes from the mapping's start to the next huge page.
    start = -np.frombuffer(mapping, dtype=np.uint8).ctypes.data % _HUGE_PAGE
    return np.frombuffer(mapping, dtype=np.uint64, count=size_bytes // WORD_BYTES, offset=start)
