"""Let a hot set follow drift: in each period count updates, choose keys, and move them.

An update is a lane of a worker's fresh push, counted once, where it is added: by its PS, by key, or by the
switch, by slot. So counts of hot and cold keys are comparable, and those of a key that has moved add up.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray

from controller.controller import Controller
from controller.errors import HotSetError, OffloadIsOff
from controller.hotset.selection import Change, Rates, Rule, choose, smoothed, summed
from controller.tables import SLOTS, HotParam, State
from foundation.protocol.codec import Keys, Values
from foundation.protocol.header import LANES
from foundation.text import pluralize

_Slot = tuple[int, int, int]
"""Key, lane and slot of an entry."""
_CANDIDATES = 2
"""Cold keys to consider for each that may become hot in a period."""


@dataclass(frozen=True, slots=True)
class Period:
    """The counts of a period, and the moves at its end."""

    updates: int | None
    """Updates of the job; None in the first period, whose beginning was not observed."""
    in_switch: int | None
    """Updates that the switch has added; None in the first period."""
    keys_in: int
    keys_out: int
    keys: int
    """Size of the hot set after the moves."""
    seconds: float

    @property
    def share(self) -> float | None:
        """Share of the updates that the switch has added; None without updates, or in the first period."""
        return self.in_switch / self.updates if self.updates and self.in_switch is not None else None


class Follower:
    """Adapts a job's hot set; `period` is due at even intervals. It cannot be used after an error."""

    def __init__(self, controller: Controller, job: int, rule: Rule) -> None:
        self._controller = controller
        self._job = job
        self._rule = rule
        self._rates = Rates.none()
        self._pushes: dict[_Slot, int] | None = None
        """Counts of the job's slots at the last reading; None before the first period."""
        self.is_moving = False
        """Whether a move is under way, which should not be interrupted."""

    async def period(self) -> Period:
        """End a period and begin the next; the first only fills a small set. Raises a `ControllerError`."""
        began = time.monotonic()
        entries, room = await self._entries()
        hot = np.array([entry.key for entry in entries], dtype=np.uint64)
        is_first = self._pushes is None
        cold, counts, at_servers = await self._busiest(self._rule.top_k - len(entries))
        pushes = await self._pushes_since(entries)
        change = self._choose(summed(np.append(hot, cold), np.append(pushes, counts)), hot, room, is_first)
        if change or any(entry.state is not State.HOT for entry in entries):
            await self._move(change.applied(hot.tolist()))
        in_switch = int(pushes.sum())
        return Period(
            updates=None if is_first else at_servers + in_switch,
            in_switch=None if is_first else in_switch,
            keys_in=len(change.arriving),
            keys_out=len(change.leaving),
            keys=len(entries) + len(change.arriving) - len(change.leaving),
            seconds=time.monotonic() - began,
        )

    async def _entries(self) -> tuple[list[HotParam], list[int]]:
        """Return the job's entries, and each lane's slots for it; raises `OffloadIsOff`, `HotSetError`."""
        if not (await self._controller.job(self._job)).offload:
            raise OffloadIsOff(f"job {self._job} has its offload off; `hotline offload on` brings it back")
        entries = await self._controller.entries()
        others = Counter(entry.lane for entry in entries if entry.job != self._job)
        room = [SLOTS - others[lane] for lane in range(LANES)]
        if self._rule.top_k > sum(room):
            raise HotSetError(
                f"top-k {self._rule.top_k} is too large: the switch has room for "
                f"{pluralize(sum(room), 'key')} of job {self._job}"
            )
        return [entry for entry in entries if entry.job == self._job], room

    async def _busiest(self, missing: int) -> tuple[Keys, Values, int]:
        """Return the most updated keys of this period [n], their updates [n], and the updates of all keys."""
        limit = max(missing, 0) + _CANDIDATES * self._rule.swaps
        shares = await self._controller.busiest(self._job, limit)
        keys = np.concatenate([keys[1:] for keys, _ in shares])
        counts = np.concatenate([counts[1:] for _, counts in shares])
        return keys, counts, sum(int(counts[0]) for _, counts in shares)

    async def _pushes_since(self, entries: Sequence[HotParam]) -> NDArray[np.int64]:
        """Return the switch's updates of each entry since the last reading [n]; 0 without one."""
        before = self._pushes or {}
        self._pushes = await self._read(entries)
        # A counter that went back was reset by a new pipeline.
        since = [
            count - before.get(slot, count) if count >= before.get(slot, 0) else count
            for slot, count in self._pushes.items()
        ]
        return np.array(since, dtype=np.int64)

    def _choose(self, counts: Rates, hot: Keys, room: Sequence[int], is_first: bool) -> Change:
        if is_first:
            rule = replace(self._rule, top_k=max(self._rule.top_k, len(hot)), swaps=0)
            return choose(counts, hot, rule, room)
        self._rates = smoothed(self._rates, counts)
        return choose(self._rates, hot, self._rule, room)

    async def _move(self, wanted: Sequence[int]) -> None:
        self.is_moving = True
        plan = await self._controller.load(self._job, wanted)
        self.is_moving = False
        # A slot's count is not reset when its key changes.
        assert self._pushes is not None
        self._pushes |= await self._read([move.param for move in plan.arriving])

    async def _read(self, entries: Sequence[HotParam]) -> dict[_Slot, int]:
        slots = [(entry.key, entry.lane, entry.slot) for entry in entries]
        return dict(zip(slots, await self._controller.pushes(entries), strict=True))


async def follow(follower: Follower, every: float, periods: int | None) -> AsyncIterator[Period]:
    """Yield the first period at once, then `periods` more, one every `every` seconds; None never ends."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    for number in count():
        yield await follower.period()
        if number == periods:
            return
        due = max(due + every, loop.time())
        await asyncio.sleep(due - loop.time())
