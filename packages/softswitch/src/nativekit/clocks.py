"""Clocks of compiled code, and the monotonic time of the kernel's timestamps, which are of the Unix clock.

The Unix clock may be set at any time, so nothing is ordered or timed by it. The kernel stamps packets with it
all the same. A stamp is converted by the difference of the two clocks, which is constant until a clock is set
(slewing changes both). So it is measured for each burst of packets, and a stamp is not trusted to be from
before it changed.
"""

from __future__ import annotations

import time
from typing import Protocol

from nativekit.compile import compiled, int64
from nativekit.libc import clock_gettime
from nativekit.records import Ints

REALTIME, MONOTONIC = time.CLOCK_REALTIME, time.CLOCK_MONOTONIC
THREAD_CPU = time.CLOCK_THREAD_CPUTIME_ID
NS_PER_S = 1_000_000_000
MIN_STEP_NS = 1_000_000
"""Minimum change of the difference of the clocks that is taken for a step. Two readings of clocks have a
smaller distance, unless the thread is interrupted between them."""


class ClockFields(Protocol):
    """Fields of a record with which compiled code reads clocks."""

    timespec: Ints  # struct timespec: seconds, ns
    unix_offset_ns: int  # Unix time minus the monotonic clock
    offset_since_ns: int  # monotonic time when the last step of `unix_offset_ns` was found


@compiled
def read_clock(fields: ClockFields, clock_id: int) -> int:
    timespec = fields.timespec
    clock_gettime(clock_id, timespec.ctypes.data)
    return int64(timespec[0] * NS_PER_S + timespec[1])


@compiled
def measure_offset(fields: ClockFields) -> int:
    """Measure the difference of the clocks; return the monotonic time in ns."""
    unix_ns = read_clock(fields, REALTIME)
    now_ns = read_clock(fields, MONOTONIC)
    offset_ns = unix_ns - now_ns
    if abs(offset_ns - fields.unix_offset_ns) >= MIN_STEP_NS:
        fields.offset_since_ns = now_ns
    fields.unix_offset_ns = offset_ns
    return now_ns


@compiled
def monotonic_time_of(fields: ClockFields, stamp_ns: int, now_ns: int) -> int:
    """Return the monotonic time in ns of a Unix timestamp: not after `now_ns`, nor before the last step."""
    since_ns = fields.offset_since_ns
    return min(max(stamp_ns - fields.unix_offset_ns, since_ns), now_ns)
