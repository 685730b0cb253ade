"""The packet function alone, in this process: CPU time a call, without I/O, locks or clocks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nativekit.compile import int64
from nativekit.libc import clock_gettime
from softswitch.compiled import CompiledPipeline
from softswitch.conformance.client import pipeline_config
from softswitch.native import call_process, entry_point
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import p4r
from switch_bench.errors import BenchError
from switch_bench.workload import FIRST_SEQ, INGRESS, RUN_BYTES, SEQ_BYTES, Setup, Workload

_CLOCK_THREAD_CPUTIME_ID = 3  # of clock_gettime(2)
_OUT_BYTES = 1 << 17  # of the output records of one call
_ARRIVAL_US, _NOW_US = 0, 3  # the times of every call
_REPEATS = 5
_NS_PER_S = 1_000_000_000


def install_program(setup: Setup) -> CompiledPipeline:
    control = ControlledPipeline(pipeline_config(setup.program.json), CompiledPipeline, clock=lambda: 0)
    if any(control.write(p4r.WriteRequest(updates=setup.updates))):
        raise BenchError(f"{setup.program.json.name}: the pipeline refused entries of the bench")
    return control.pipeline


def ns_per_packet(pipeline: CompiledPipeline, workload: Workload, calls: int) -> list[float]:
    """Return the CPU time of a call, ns, in each repeat. Raises BenchError if a frame is dropped."""
    numbers = FIRST_SEQ + np.arange(_REPEATS * calls, dtype=np.int64)
    repeats = [(numbers[k * calls : (k + 1) * calls], workload.stamp.seq, SEQ_BYTES) for k in range(_REPEATS)]
    frames = np.array([bytearray(frame) for frame in workload.frames], np.uint8)
    frames[:, workload.stamp.run + RUN_BYTES - 1] = 1  # number of the first run, big-endian
    return [_time(pipeline, frames, *repeat) for repeat in repeats]


def ns_per_key(
    pipeline: CompiledPipeline, frame: bytes, keys: NDArray[np.int64], offset: int, size: int
) -> list[float]:
    """Return the CPU time of a call, ns, in each of a few repeats; each call's frame has the next key."""
    frames = np.array([bytearray(frame)], np.uint8)
    return [_time(pipeline, frames, keys, offset, size) for _ in range(_REPEATS)]


def _time(
    pipeline: CompiledPipeline, frames: NDArray[np.uint8], numbers: NDArray[np.int64], offset: int, size: int
) -> float:
    out, clock = np.zeros(_OUT_BYTES, np.uint8), np.zeros(2, np.int64)
    outputs, ns = call_all(
        pipeline.process_address, pipeline.state_address, frames, numbers, offset, size, out, clock
    )
    if outputs != len(numbers):
        raise BenchError(f"the packet function output {outputs} of {len(numbers)} frames, expected all")
    return float(ns) / len(numbers)


@entry_point
def call_all(
    process: int,
    state: int,
    frames: NDArray[np.uint8],
    numbers: NDArray[np.int64],
    offset: int,
    size: int,
    out: NDArray[np.uint8],
    clock: NDArray[np.int64],
) -> tuple[int, int]:
    """Write each number into a frame and call the packet function; return output count and CPU time, ns."""
    clock_gettime(_CLOCK_THREAD_CPUTIME_ID, clock.ctypes.data)
    begin_ns = clock[0] * _NS_PER_S + clock[1]
    outputs, index = int64(0), 0
    for number in numbers:
        frame = frames[index]
        index = index + 1 if index + 1 < len(frames) else 0
        for k in range(size):
            frame[offset + k] = (number >> (8 * (size - 1 - k))) & 0xFF
        outputs += call_process(
            process,
            state,
            INGRESS,
            frame.ctypes.data,
            len(frame),
            _ARRIVAL_US,
            _NOW_US,
            out.ctypes.data,
            len(out),
        )
    clock_gettime(_CLOCK_THREAD_CPUTIME_ID, clock.ctypes.data)
    return outputs, clock[0] * _NS_PER_S + clock[1] - begin_ns
