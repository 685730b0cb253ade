"""Clocks that a test sets. The machine's own clocks are read, and never set."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable
from pathlib import Path

from nativekit.clocks import MONOTONIC, NS_PER_S, REALTIME
from nativekit.libc import clock_gettime
from nativekit.llvm import Compiled

HOUR_NS, DAY_NS = 3_600 * NS_PER_S, 86_400 * NS_PER_S
STEPS_NS = {"-1 h": -HOUR_NS, "+1 h": HOUR_NS, "+30 d": 30 * DAY_NS, "+50 d": 50 * DAY_NS}
"""The steps of the Unix clock that everything must endure."""

_READING = re.compile(r"\btime\.time(_ns)?\b|CLOCK_REALTIME|\b(datetime|date)\.(now|utcnow|today)\b")


def readers_of_unix_time(*folders: Path) -> set[str]:
    """Return the modules below folders that read the Unix clock, relative to the parent of their folder."""
    return {
        str(file.relative_to(folder.parent))
        for folder in folders
        for file in folder.rglob("*.py")
        if _READING.search(file.read_text())
    }


class SteppedClock:
    """A Unix clock that `step` sets, beside a monotonic clock. Code under test gets both from here.

    `monotonic_ns` is that of the machine, or of a test that makes its own time.
    """

    def __init__(self, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.monotonic_ns = monotonic_ns
        self.step_ns = 0
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def step(self, ns: int) -> None:
        self.step_ns += ns

    def time_ns(self) -> int:
        """Return Unix time, for `time.time_ns`."""
        return self.monotonic_ns() + self._offset_ns + self.step_ns

    @property
    def replacements(self) -> dict[Compiled, Callable[[int, int], int]]:
        """What `nativekit.plain.plain` replaces, so that compiled functions read these clocks."""
        return {clock_gettime: self._clock_gettime}

    def _clock_gettime(self, clock_id: int, address: int) -> int:
        times_ns = {REALTIME: self.time_ns, MONOTONIC: self.monotonic_ns}
        now_ns = times_ns[clock_id]() if clock_id in times_ns else time.clock_gettime_ns(clock_id)
        (ctypes.c_int64 * 2).from_address(address)[:] = [*divmod(now_ns, NS_PER_S)]
        return 0
