"""Servers and a switch that count updates, as a `Follower` sees them; keys move at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from controller.hotset.migrate import ANY_SLOT, plan
from controller.sizes import SLOTS
from controller.tables import Change, HotParam, JobRow, KeyState, Update
from foundation.protocol.header import NO_KEY
from foundation.protocol.rows import ONE_VALUE, RowRanges


class CountingSwitch:
    """Stands in for a `Controller` with these jobs, whose quotas are 0 at first."""

    def __init__(self, *jobs: int, slots: int = SLOTS) -> None:
        self.quota_of_job: dict[int, int] = dict.fromkeys(jobs, 0)
        """Quota of each job, in keys."""
        self.params: dict[tuple[int, int], HotParam] = {}
        self.ranges: dict[int, RowRanges] = {}
        """Dims of the rows of the keys of each job that has rows of more than one value."""
        self._slots = slots
        self._at_servers: dict[int, Counter[int]] = {job: Counter() for job in jobs}
        self._in_switch: Counter[tuple[int, int]] = Counter()

    def update(self, job: int, key: int, times: int = 1) -> bool:
        """Count updates of a key; return whether it is in the switch."""
        if (param := self.params.get((job, key))) is not None:
            self._in_switch[param.bank, param.slot] += times
            return True
        self._at_servers[job][key] += times
        return False

    def hot(self, job: int) -> list[int]:
        return [key for of_job, key in self.params if of_job == job]

    async def job(self, job: int) -> JobRow:
        return (await self.jobs())[job]

    async def jobs(self) -> dict[int, JobRow]:
        return {
            job: JobRow(job, True, False, self.quota_of_job[job], self.ranges.get(job, ONE_VALUE))
            for job in self.quota_of_job
        }

    async def entries(self) -> list[HotParam]:
        return list(self.params.values())

    async def busiest(self, job: int, maximum: int) -> Any:
        busiest = self._at_servers[job].most_common(maximum)
        total, self._at_servers[job] = self._at_servers[job].total(), Counter()
        keys, counts = [NO_KEY, *(key for key, _ in busiest)], [total, *(count for _, count in busiest)]
        return [(np.array(keys, np.uint64), np.array(counts, np.int64))]

    async def pushes(self, entries: Sequence[HotParam]) -> list[int]:
        return [self._in_switch[entry.bank, entry.slot] for entry in entries]

    async def load(self, job: int, wanted: Sequence[int], *, slots: Mapping[int, int] = ANY_SLOT) -> Any:
        """Move keys as `plan` says, which raises if a lane lacks slots."""
        ranges = self.ranges.get(job, ONE_VALUE)
        moves = plan(
            self.params.values(), job, wanted, offload=True, slots=self._slots, ranges=ranges,
            slot_of_key=slots,
        )  # fmt: skip
        for step in (moves.leaving, moves.arriving):
            self._apply(
                update for move in step for update in (*move.preparing_updates(), move.final_update())
            )
        return moves

    def _apply(self, updates: Iterable[Update]) -> None:
        for update in updates:
            param = update.row
            assert isinstance(param, HotParam)
            job_and_key = (param.job, param.key)
            if update.change is Change.DELETE:
                del self.params[job_and_key]
            else:
                self.params.pop(job_and_key, None)
                is_free = all(
                    row.slot != param.slot or not set(row.banks) & set(param.banks)
                    for row in self.params.values()
                )
                assert is_free
                self.params[job_and_key] = param
        assert all(param.state in KeyState for param in self.params.values())
