"""Time of each packet in the packet function, with caches warm or evicted before each packet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from nativekit.compile import carray, compiled, int64
from nativekit.libc import clock_gettime, memcpy
from nativekit.memory import pointer
from softswitch.compiled import CompiledPipeline
from softswitch.native import call_process, entry_point
from switch_bench.errors import BenchError
from switch_bench.workload import FIRST_SEQ, INGRESS
from switch_harness.kernel import LOOPBACK, OnLoopback
from tools.bench.pushes import SEQ_AT, Pushes

Run = Callable[[Pushes, int, bool], NDArray[np.int64]]
"""Called with pushes, the number of the first, and whether to evict caches; returns ns per frame."""

EVICTED_BYTES = 4 << 20
"""Memory that is written between packets to evict caches: twice a core's private cache."""
_LINE_BYTES = 64
_WORD_BYTES = 8  # of int64
_MONOTONIC = 1  # clock of clock_gettime
_NS_PER_S = 1_000_000_000
_OUT_BYTES = 1 << 17
_FRAME_BYTES = 2048
_EVICTION_BUFFER = np.ones(EVICTED_BYTES // _WORD_BYTES, np.int64)
_NO_BUFFER = np.ones(0, np.int64)

_ATTRIBUTE_BYTES = 160
_RETVAL, _DATA_SIZE_OUT, _DURATION = 1, 3, 9  # indices of 32-bit words in `bpf_attr.test`
_ARRIVAL_US, _NOW_US = 0, 3
"""Times of the packet function's clock when a frame arrived and when it is processed, the same for all."""

_syscall: Any = types.ExternalFunction("syscall", types.intp(*[types.intp] * 4))


def packet_function_run(pipeline: CompiledPipeline) -> Run:
    """Return runs of the packet function as the datapath with sockets calls it."""
    out, frame = np.zeros(_OUT_BYTES, np.uint8), np.zeros(_FRAME_BYTES, np.uint8)

    def run(pushes: Pushes, first: int, evict: bool) -> NDArray[np.int64]:
        times_ns = np.zeros(len(pushes.frames), np.int64)
        eviction_buffer = _EVICTION_BUFFER if evict else _NO_BUFFER
        code, state = pipeline.process_address, pipeline.state_address
        sent = time_calls(
            code, state, pushes.frames, FIRST_SEQ + first, eviction_buffer, frame, out, times_ns
        )
        return check_count(times_ns, sent)

    return run


def kernel_run(pipeline: OnLoopback) -> Run:
    """Return test runs of the BPF program; the kernel measures their time."""
    pipeline.connect(INGRESS)

    def run(pushes: Pushes, first: int, evict: bool) -> NDArray[np.int64]:
        times_ns = np.zeros(len(pushes.frames), np.int64)
        eviction_buffer = _EVICTION_BUFFER if evict else _NO_BUFFER
        test_run = pipeline.run.compiled_run(pushes.frames.shape[1], LOOPBACK)
        sent = time_runs(
            *test_run, pipeline.redirected, pushes.frames, FIRST_SEQ + first, eviction_buffer, times_ns
        )
        return check_count(times_ns, sent)

    return run


def c_loop_run(size: int) -> Run:
    """Return a lower bound: a loop that adds to one of `size` cache lines for each of a packet's lanes."""
    lines = np.zeros((size, _LINE_BYTES // _WORD_BYTES), np.int64)

    def run(pushes: Pushes, first: int, evict: bool) -> NDArray[np.int64]:
        times_ns = np.zeros(len(pushes.ranks), np.int64)
        time_lines(lines, pushes.ranks, _EVICTION_BUFFER if evict else _NO_BUFFER, times_ns)
        return times_ns

    return run


def check_count(times_ns: NDArray[np.int64], sent: int) -> NDArray[np.int64]:
    if sent != len(times_ns):
        raise BenchError(f"{sent} of {len(times_ns)} frames came out of the packet function")
    return times_ns


@compiled
def evict_caches(eviction_buffer: NDArray[np.int64]) -> Any:
    total = int64(0)  # returned, so that no optimization removes the loop
    for index in range(0, len(eviction_buffer), _LINE_BYTES // _WORD_BYTES):
        eviction_buffer[index] += 1
        total += eviction_buffer[index]
    return total


@compiled
def set_seq(frame: NDArray[np.uint8], seq: int) -> None:
    for k in range(4):
        frame[SEQ_AT + k] = (seq >> (8 * (3 - k))) & 0xFF


@compiled
def monotonic_ns(clock: NDArray[np.int64]) -> Any:
    clock_gettime(_MONOTONIC, clock.ctypes.data)
    return clock[0] * _NS_PER_S + clock[1]


@entry_point
def time_calls(
    process: int,
    state: int,
    frames: NDArray[np.uint8],
    first_seq: int,
    eviction_buffer: NDArray[np.int64],
    frame: NDArray[np.uint8],
    out: NDArray[np.uint8],
    times_ns: NDArray[np.int64],
) -> int:
    """Time the packet function on each frame, copied as from a receive ring; return the number of outputs."""
    clock, size, sent = np.zeros(2, np.int64), frames.shape[1], int64(0)
    for k in range(len(frames)):
        evict_caches(eviction_buffer)
        set_seq(frames[k], first_seq + k)
        memcpy(frame.ctypes.data, frames[k].ctypes.data, size)
        start_ns = monotonic_ns(clock)
        sent += call_process(
            process, state, INGRESS, frame.ctypes.data, size, _ARRIVAL_US, _NOW_US, out.ctypes.data, len(out)
        )
        times_ns[k] = monotonic_ns(clock) - start_ns
    return sent


@entry_point
def time_runs(
    syscall_number: int,
    command: int,
    attribute: int,
    frame: int,
    redirected: int,
    frames: NDArray[np.uint8],
    first_seq: int,
    eviction_buffer: NDArray[np.int64],
    times_ns: NDArray[np.int64],
) -> int:
    """Time the frames by BPF_PROG_TEST_RUN (`bpf.CompiledRun`); return how many were redirected."""
    sent = int64(0)
    words = carray(pointer(attribute), _ATTRIBUTE_BYTES // 4, np.uint32)
    capacity = words[_DATA_SIZE_OUT]
    for k in range(len(frames)):
        evict_caches(eviction_buffer)
        set_seq(frames[k], first_seq + k)
        memcpy(frame, frames[k].ctypes.data, frames.shape[1])
        words[_DATA_SIZE_OUT] = capacity
        _syscall(syscall_number, command, attribute, _ATTRIBUTE_BYTES)
        sent += int64(words[_RETVAL] == redirected)
        times_ns[k] = words[_DURATION]
    return sent


@entry_point
def time_lines(
    lines: NDArray[np.int64],
    ranks: NDArray[np.int64],
    eviction_buffer: NDArray[np.int64],
    times_ns: NDArray[np.int64],
) -> None:
    clock = np.zeros(2, np.int64)
    for k in range(len(ranks)):
        evict_caches(eviction_buffer)
        start_ns = monotonic_ns(clock)
        for rank in ranks[k]:
            lines[rank, 0] += 1
        times_ns[k] = monotonic_ns(clock) - start_ns
