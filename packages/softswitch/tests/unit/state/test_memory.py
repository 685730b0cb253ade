"""The block and its lock: zeroed, addressable, and the data plane sees that the control plane waits."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from nativekit.libc import pthread_mutex_lock, pthread_mutex_unlock
from nativekit.memory import load_acquire
from softswitch.native import entry_point
from softswitch.state.memory import Memory

DEADLINE_S = 60.0
LIBC = ctypes.CDLL(None)


def at(address: int) -> int:
    """The word that another thread, or machine code, finds at an address."""
    return ctypes.c_uint64.from_address(address).value


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


def is_free(memory: Memory) -> bool:
    mutex = ctypes.c_void_p(memory.mutex_address)
    if LIBC.pthread_mutex_trylock(mutex):
        return False
    LIBC.pthread_mutex_unlock(mutex)
    return True


@contextmanager
def held_by_the_data_plane(memory: Memory) -> Iterator[None]:
    mutex = ctypes.c_void_p(memory.mutex_address)
    LIBC.pthread_mutex_lock(mutex)
    try:
        yield
    finally:
        LIBC.pthread_mutex_unlock(mutex)


@pytest.mark.parametrize(("size", "words"), [(0, 1), (1, 1), (8, 1), (16, 2), (4096, 512)])
def test_memory_is_zeroed_and_addressable_in_words(size: int, words: int) -> None:
    memory = Memory(size)
    assert memory.words.tolist() == [0] * words
    memory.words[words - 1] = 5
    assert at(memory.address + 8 * (words - 1)) == 5
    assert memory.byte_view[8 * (words - 1)] == 5
    assert memory.words.dtype == np.uint64


def test_the_lock_is_held_within_and_free_afterwards() -> None:
    memory = Memory(8)
    assert is_free(memory)
    with memory.locked():
        assert not is_free(memory)
        assert at(memory.waiting_address) == 1
    assert is_free(memory)
    assert at(memory.waiting_address) == 0


def test_an_error_releases_the_lock() -> None:
    memory = Memory(8)
    with pytest.raises(ValueError, match="wrong"), memory.locked():
        raise ValueError("wrong")
    assert is_free(memory)
    assert at(memory.waiting_address) == 0
    with memory.locked():
        pass


def test_the_flag_does_not_overlap_the_lock() -> None:
    """The flag behind the mutex's 64 bytes, so that neither overwrites the other."""
    memory = Memory(8)
    assert memory.waiting_address >= memory.mutex_address + 64
    memory.waiting[0] = 3
    assert at(memory.waiting_address) == 3
    assert is_free(memory)


def test_the_data_plane_sees_that_the_control_plane_waits() -> None:
    memory = Memory(8)
    entered = threading.Event()

    def control() -> None:
        with memory.locked():
            entered.set()

    with held_by_the_data_plane(memory):
        assert at(memory.waiting_address) == 0
        thread = threading.Thread(target=control)
        thread.start()
        wait_for(lambda: at(memory.waiting_address) == 1)
        assert not entered.is_set()
    thread.join(DEADLINE_S)
    assert entered.is_set()
    assert at(memory.waiting_address) == 0


def test_control_threads_take_turns_and_the_flag_is_down_after_the_last() -> None:
    memory = Memory(8)

    def count() -> None:
        for _ in range(500):
            with memory.locked():
                before = int(memory.words[0])
                assert at(memory.waiting_address) == 1
                memory.words[0] = before + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert memory.words[0] == 2000
    assert at(memory.waiting_address) == 0


def test_a_control_thread_may_take_the_memory_lock_while_holding_the_control_lock() -> None:
    memory = Memory(8)
    with memory.control_lock, memory.locked():
        memory.words[0] = 1
    assert is_free(memory)


@entry_point
def hammer(mutex: int, waiting: int, stop: int) -> int:
    """A data plane that never rests, and lets go first what waits, as the port loop does."""
    turns = 0
    while load_acquire(stop) == 0:
        while load_acquire(waiting) and load_acquire(stop) == 0:
            pass
        pthread_mutex_lock(mutex)
        turns += 1
        pthread_mutex_unlock(mutex)
    return turns


def test_the_control_plane_gets_its_turns_beside_a_busy_data_plane() -> None:
    memory, stop = Memory(8), np.zeros(1, dtype=np.uint32)
    turns: list[int] = []
    arguments = (memory.mutex_address, memory.waiting_address, stop.ctypes.data)
    thread = threading.Thread(target=lambda: turns.append(hammer(*arguments)))
    thread.start()
    try:
        for _ in range(200):
            with memory.locked():
                memory.words[0] += np.uint64(1)
    finally:
        stop[0] = 1
        thread.join(DEADLINE_S)
    assert memory.words[0] == 200
    assert turns
