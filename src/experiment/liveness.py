"""Track which processes of a run are down, so that a wait for a process can outlast its recovery."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from experiment.members import MemberLog
from experiment.processes import RunProcesses

_DETECTION_TIMEOUT_S = 1.0  # maximum time from the end of a process's connections until its death is detected


class Liveness:
    def __init__(self, member_file: Path | None = None) -> None:
        """Begin without processes; those of workers and servers are listed in `member_file`."""
        self.processes = RunProcesses()
        self.members = MemberLog(member_file)
        self.deaths = 0  # number of deaths so far
        self._down: set[str] = set()
        self._all_up = asyncio.Event()
        self._all_up.set()
        self._next_death = asyncio.Event()

    @property
    def all_up(self) -> bool:
        return not self._down

    def others_down(self, name: str) -> bool:
        return bool(self._down - {name})

    def mark_down(self, name: str) -> None:
        self.deaths += 1
        self._down.add(name)
        self._all_up.clear()
        self._next_death.set()
        self._next_death = asyncio.Event()  # an event wakes the waiters of one death only

    def mark_up(self, name: str) -> None:
        self._down.discard(name)
        if self.all_up:
            self._all_up.set()

    async def wait_until_all_up(self) -> None:
        await self._all_up.wait()

    async def wait_for_death(self, deaths_before: int) -> None:
        while self.deaths == deaths_before:
            await self._next_death.wait()

    async def has_new_death(self, deaths_before: int) -> bool:
        """Return whether there are more deaths than `deaths_before`; wait up to a second for one."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.wait_for_death(deaths_before), _DETECTION_TIMEOUT_S)
        return self.deaths > deaths_before
