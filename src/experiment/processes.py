"""Limits on waits for the processes of a run, which count only the time for which all of them sleep."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from softswitch.progress import Activity, IdleLimit, describe_activity, describe_load, read_activity

log = logging.getLogger(__name__)

ReadActivity: TypeAlias = Callable[[], Awaitable[Activity]]
_MAX_AGE_S = 0.1
"""Age of what is known of processes up to which several waits of one moment share it."""


def _never() -> bool:
    return False


class ProcessLimit:
    """A `foundation.limits.WaitLimit`: on the time for which all of some processes sleep, or have ended.

    A wait that is longer because they work is noted in the log.
    """

    def __init__(
        self,
        limit_s: float,
        what: str,
        read: Callable[[], Awaitable[Mapping[str, Activity]]],
        is_paused: Callable[[], bool] = _never,
        counts_work: bool = False,
    ) -> None:
        """Begin to wait for `what`; `counts_work` is for processes that are to end (`IdleLimit`)."""
        self._what, self._read, self._is_paused = what, read, is_paused
        self._idle = IdleLimit(limit_s, counts_work)
        self._activities: Mapping[str, Activity] = {}

    @property
    def look_s(self) -> float:
        return self._idle.look_s

    async def is_exceeded(self) -> bool:
        if self._idle.look_s == 0:
            self._activities = await self._read()
            self._idle.look(self._activities.values(), self._is_paused())
            waited_s = self._idle.take_overdue_s()
            if waited_s is not None and not self._idle.is_exceeded:
                log.warning("waiting for %s for %.0f s: %s", self._what, waited_s, self.describe_state())
        return self._idle.is_exceeded

    def describe(self) -> str:
        return f"within {self._idle.limit_s:g} s of idle time ({self.describe_state()})"

    def describe_state(self) -> str:
        processes = [f"{name} {describe_activity(each)}" for name, each in self._activities.items()]
        return "; ".join([*processes, describe_load()])


class RunProcesses:
    """The processes of a run, each of which may be what an answer of another one waits for."""

    def __init__(self) -> None:
        self._readers: dict[str, ReadActivity] = {}
        self._activities: dict[str, Activity] = {}
        self._read_at_s = -_MAX_AGE_S

    def register(self, name: str, read: ReadActivity) -> None:
        """Take a process into account from now on, instead of an earlier one of this name."""
        self._readers[name] = read

    def limit(self, limit_s: float, what: str, is_paused: Callable[[], bool] = _never) -> ProcessLimit:
        """Begin a wait for an answer that depends on any of the processes."""
        return ProcessLimit(limit_s, what, self.read_activities, is_paused)

    async def read_activities(self) -> Mapping[str, Activity]:
        if time.monotonic() - self._read_at_s >= _MAX_AGE_S:
            self._activities = {name: await read() for name, read in self._readers.items()}
            self._read_at_s = time.monotonic()
        return self._activities


async def read_here(pid: int) -> Activity:
    """Read the activity of a process of this machine, as `ReadActivity` does once its id is known."""
    return read_activity(pid)
