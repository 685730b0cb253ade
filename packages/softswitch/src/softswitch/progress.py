"""Whether processes work, from /proc, so that a limit on a wait does not take slowness for death.

A slow process runs, waits for a CPU or for the disk, or has been stopped. The time of that counts for no
limit: only time in which a process lives and sleeps does.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

_LOOKS_PER_LIMIT = 20
_MIN_LOOK_S, _MAX_LOOK_S = 0.005, 5.0
_MAX_STEPS = 2  # intervals between two looks that count at most
NOTE_S = 30.0
"""Time in s between two notes on a wait that is longer than its limit."""
# A system without sysconf has no /proc either, in whose files times are ticks.
_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_MAX_LINE_BYTES = 4096


class ProcessState(IntEnum):
    """State of a process: that of its threads and descendants which is farthest from sleep."""

    ENDED = 0
    SLEEPS = 1
    IS_STOPPED = 2
    WAITS_FOR_DISK = 3
    RUNS = 4
    """It runs, or waits for a CPU."""

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


_STATES = {
    "R": ProcessState.RUNS,
    "D": ProcessState.WAITS_FOR_DISK,
    "T": ProcessState.IS_STOPPED,
    "t": ProcessState.IS_STOPPED,
    "Z": ProcessState.ENDED,
    "X": ProcessState.ENDED,
}


class Activity(NamedTuple):
    """State of a process and its descendants, and their times so far."""

    state: ProcessState
    cpu_s: float
    """CPU time so far in s."""
    wait_s: float
    """Time for which threads that live now have waited for a CPU in s."""
    log: str = ""
    """The file to which the process's standard error goes; "" if that is none."""
    log_bytes: int = 0


ENDED = Activity(ProcessState.ENDED, cpu_s=0.0, wait_s=0.0)


def read_activity(pid: int, proc: Path = Path("/proc")) -> Activity:
    """Return the activity of a process; `ENDED` if there is none with this id."""
    # Without `Path`, which takes almost twice as long: this is read while runs measure.
    state, cpu_s, wait_s = ProcessState.ENDED, 0.0, 0.0
    remaining, seen = [pid], {pid}
    while remaining:
        process = f"{proc}/{remaining.pop()}"
        # utime and stime, with those of descendants that have ended.
        cpu_s += sum(map(int, _stat_fields(process)[11:15])) / _TICKS_PER_S
        for thread in _threads(process):
            if fields := _stat_fields(thread):
                state = max(state, _STATES.get(fields[0], ProcessState.SLEEPS))
            wait_s += sum(map(int, _read(f"{thread}/schedstat").split()[1:2])) / 1e9
            children = set(map(int, _read(f"{thread}/children").split())) - seen
            seen |= children
            remaining += children
    return Activity(state, cpu_s, wait_s, *_find_log(f"{proc}/{pid}/fd/2"))


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int:
    """Return when a process was started, in clock ticks since the machine's start; 0 if there is none."""
    return int(next(iter(_stat_fields(f"{proc}/{pid}")[19:]), 0))


def _threads(process: str) -> list[str]:
    try:
        return [f"{process}/task/{name}" for name in os.listdir(f"{process}/task")]
    except OSError:  # it has ended
        return []


def _stat_fields(process: str) -> list[str]:
    """Return the fields of proc(5), stat, from the state on: the name before it may contain spaces."""
    return _read(f"{process}/stat").rpartition(")")[2].split()


def _read(path: str) -> str:
    """Return a file's text, or "" if there is none: of a process that has ended, or in another kernel."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def _find_log(standard_error: str) -> tuple[str, int]:
    """Return the file that a link leads to, and its size in bytes."""
    with suppress(OSError):
        status = os.stat(standard_error)
        if stat.S_ISREG(status.st_mode):
            return os.readlink(standard_error), status.st_size
    return "", 0


class IdleLimit:
    """A limit on the time for which processes live and all of them sleep; a longer log is progress, too.

    For processes that are to end, `counts_work` has the limit count their CPU time as well.
    """

    def __init__(
        self,
        limit_s: float,
        counts_work: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit_s = limit_s
        self.counted_s = 0.0
        self._counts_work, self._clock = counts_work, clock
        self._interval_s = min(max(limit_s / _LOOKS_PER_LIMIT, _MIN_LOOK_S), _MAX_LOOK_S)
        self._start_s = self._last_s = clock()
        self._last: _Work | None = None
        self._notes = 0

    @property
    def look_s(self) -> float:
        """Time in s until the next look at the processes is due."""
        return max(0.0, self._last_s + self._interval_s - self._clock())

    @property
    def is_exceeded(self) -> bool:
        return self.counted_s > self.limit_s

    def look(self, activities: Iterable[Activity], is_paused: bool = False) -> None:
        """Take into account what the processes do now; `is_paused` if the time since the last look is not."""
        activities = list(activities)
        now_s = self._clock()
        # This process may have been stopped or slow itself, so that the others had less time than it seems.
        elapsed_s = min(now_s - self._last_s, _MAX_STEPS * self._interval_s)
        work = _Work(
            sum(each.cpu_s for each in activities),
            sum(each.wait_s for each in activities),
            sum(each.log_bytes for each in activities),
        )
        if self._last is not None and not is_paused:
            is_asleep = all(each.state <= ProcessState.SLEEPS for each in activities)
            self.counted_s += self._count(elapsed_s, is_asleep, self._last, work)
        self._last_s, self._last = now_s, work

    def _count(self, elapsed_s: float, is_asleep: bool, last: _Work, work: _Work) -> float:
        # An end of a process takes its times out of the sums.
        cpu_s, wait_s = max(0.0, work.cpu_s - last.cpu_s), max(0.0, work.wait_s - last.wait_s)
        counted_s = cpu_s if self._counts_work else 0.0
        if is_asleep and work.log_bytes == last.log_bytes:
            counted_s += max(0.0, elapsed_s - cpu_s - wait_s)
        return counted_s

    def take_overdue_s(self) -> float | None:
        """Return how long the wait has lasted, once each `NOTE_S` after the limit; otherwise None."""
        waited_s = self._clock() - self._start_s
        if waited_s < self.limit_s + self._notes * NOTE_S:
            return None
        self._notes += 1
        return waited_s


class _Work(NamedTuple):
    cpu_s: float
    wait_s: float
    log_bytes: int


def describe_activity(activity: Activity) -> str:
    """Return what is known of a process: "lives and sleeps, and has used 3.1 s of CPU time"."""
    if activity.state is ProcessState.ENDED:
        return "has ended"
    state = {ProcessState.IS_STOPPED: "is stopped (SIGSTOP)", ProcessState.RUNS: "works"}.get(
        activity.state, str(activity.state)
    )
    line = last_line(Path(activity.log)) if activity.log else ""
    last_words = f", and last wrote {line!r} to {activity.log}" if line else ""
    return f"lives and {state}, has used {activity.cpu_s:.1f} s of CPU time{last_words}"


def describe_load() -> str:
    return f"the machine's load is {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"


def last_line(log: Path) -> str:
    """Return the last line of a log that is not empty; "" if there is none, or no such file here."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _MAX_LINE_BYTES))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
