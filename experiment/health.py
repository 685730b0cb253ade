"""Who of a run has died and is not there again: whoever waits for somebody asks it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

_KNOWN_S = 1.0
"""After which a death is known for sure: a connection may have ended some time before."""


class Health:
    """Of all that comes back, by name."""

    def __init__(self) -> None:
        self.deaths = 0
        """So far."""
        self._missing: set[str] = set()
        self._whole = asyncio.Event()
        self._whole.set()
        self._death = asyncio.Event()
        """The next one."""

    @property
    def is_whole(self) -> bool:
        """Nobody is missing."""
        return not self._missing

    def misses(self, besides: str) -> bool:
        """Whether somebody else is missing."""
        return bool(self._missing - {besides})

    def lose(self, name: str) -> None:
        """Somebody has died."""
        self.deaths += 1
        self._missing.add(name)
        self._whole.clear()
        self._death.set()
        self._death = asyncio.Event()

    def regain(self, name: str) -> None:
        """Somebody is there again, as if nothing had been."""
        self._missing.discard(name)
        if self.is_whole:
            self._whole.set()

    async def until_whole(self) -> None:
        """Wait until nobody is missing."""
        await self._whole.wait()

    async def until_death(self, deaths: int) -> None:
        """Wait until there have been more deaths than that."""
        while self.deaths == deaths:
            await self._death.wait()

    async def explains(self, deaths: int) -> bool:
        """Whether somebody has died since there were so many deaths, so that a failure may be by that."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.until_death(deaths), _KNOWN_S)
        return self.deaths > deaths
