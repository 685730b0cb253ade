"""Let hot sets follow drift: in each period count updates, divide the slots, choose keys, and move them.

An update is one lane of a worker's push, without retransmissions. PSs count the updates
that they add, by key, and the switch those that it adds, by slot; counts of a key that moved are summed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from controller.controller import Controller
from controller.errors import HotSetError, OffloadIsOff
from controller.hotset.placement import in_slots, occupied_by
from controller.hotset.quotas import (
    ALL_SLOTS,
    Slots,
    first_per_lane,
    keys_of_others,
    slots_of,
    slots_of_entries,
)
from controller.hotset.rules import PeriodUpdates, RunningRule
from controller.hotset.selection import (
    HotSetChange,
    HotSetState,
    Rates,
    RuleChoice,
    SelectedKeys,
    SwapRule,
    choose_for_jobs,
    cold_limit,
    smooth_rates,
    sum_by_key,
)
from controller.sizes import CAPACITY, SLOTS
from controller.tables import HotParam, JobRow, KeyState
from foundation.protocol.codec import Keys, Values
from foundation.protocol.rows import RowRanges, banks_of_row
from foundation.text import pluralize

_EntryId = tuple[int, int, int]  # key, lane, slot


@dataclass(frozen=True, slots=True)
class Period:
    job: int
    updates: int | None
    """Updates of the job; None in the first period, whose beginning was not observed."""
    in_switch: int | None
    """Updates that the switch has added; None in the first period."""
    keys_in: int
    keys_out: int
    keys: int  # hot keys after the moves
    seconds: float  # duration of counting and moving

    @property
    def share(self) -> float | None:
        return self.in_switch / self.updates if self.updates and self.in_switch is not None else None


@dataclass(slots=True)
class _Job:
    rule: SwapRule | RunningRule
    rates: Rates = field(default_factory=Rates.none)
    pushes: dict[_EntryId, int] | None = None
    """Counts of the job's slots at the last reading; None before the first period."""

    def cold_limit(self, hot_keys: int) -> int:
        if isinstance(self.rule, SwapRule):
            return cold_limit(self.rule.top_k, hot_keys, self.rule.max_swaps)
        return cold_limit(self.rule.top_k, hot_keys)

    def select(self, counts: Rates, hot: Keys, is_first: bool, ranges: RowRanges) -> HotSetState | RuleChoice:
        if isinstance(self.rule, RunningRule):
            # The switch's counts before the first period are unknown.
            if is_first and len(hot):
                return RuleChoice(hot, hot, ranges)
            period = PeriodUpdates(counts.keys, counts.rates.astype(np.int64), hot)
            return RuleChoice(self.rule.choose(period), hot, ranges)
        if is_first:
            filling = replace(self.rule, top_k=max(self.rule.top_k, len(hot)), max_swaps=0)
            return HotSetState(counts, hot, filling, ranges)
        self.rates = smooth_rates(self.rates, counts)
        return HotSetState(self.rates, hot, self.rule, ranges)


class _JobCounts(NamedTuple):
    entries: Sequence[HotParam]
    hot: Keys
    selected: HotSetState | RuleChoice
    updates: int | None
    in_switch: int | None


class Follower:
    """Adapts the hot sets of jobs; call `period` at equal intervals. It cannot be used after an error.

    A job's keys are chosen by rates (`SwapRule`, the rule `window`), or by another rule.
    """

    def __init__(self, controller: Controller, rules: Mapping[int, SwapRule | RunningRule]) -> None:
        self._controller = controller
        self._jobs = {job: _Job(rule) for job, rule in rules.items()}
        self.is_moving = False

    async def period(self) -> list[Period]:
        """End a period and begin the next; the first only fills up hot sets. Raises a `ControllerError`.

        In the first period other rules than `window` fill empty hot sets only.
        """
        start_s = time.monotonic()
        rows = await self._check_offload_and_read_jobs()
        quotas = {job: row.quota for job, row in rows.items()}
        entries = await self._controller.entries()
        other_keys, room = self._other_keys_and_room(entries, rows)
        job_counts = {job: await self._count_updates(job, entries, rows[job].ranges) for job in self._jobs}
        changes, remaining_slots = choose_for_jobs(
            self._selections(job_counts, entries, rows),
            {other: slots_of(keys, rows[other].ranges) for other, keys in other_keys.items()},
            quotas,
            room,
        )
        other_keys_before_after = {
            other: (keys, first_per_lane(keys, remaining_slots[other], rows[other].ranges))
            for other, keys in other_keys.items()
        }
        await self._execute_changes(job_counts, changes, other_keys_before_after)
        return [
            Period(
                job=job,
                updates=each.updates,
                in_switch=each.in_switch,
                keys_in=len(changes[job].arriving),
                keys_out=len(changes[job].leaving),
                keys=len(each.hot) + len(changes[job].arriving) - len(changes[job].leaving),
                seconds=time.monotonic() - start_s,
            )
            for job, each in job_counts.items()
        ]

    async def _check_offload_and_read_jobs(self) -> dict[int, JobRow]:
        for job in self._jobs:
            row = await self._controller.job(job)
            if not row.offload:
                raise OffloadIsOff(f"job {job} has its offload off; `hotline offload on` turns it on")
        return await self._controller.jobs()

    def _other_keys_and_room(
        self, entries: Sequence[HotParam], rows: Mapping[int, JobRow]
    ) -> tuple[dict[int, list[int]], Slots]:
        """Return other jobs' keys in order of slots, and the slots by bank, both for jobs with rows."""
        keys_by_job, _ = keys_of_others(entries, self._jobs, rows)
        of_others = slots_of_entries([entry for entry in entries if entry.job not in self._jobs])
        for job, job_state in self._jobs.items():
            n_banks = min(banks_of_row(each.dim) for each in rows[job].ranges)
            room = (CAPACITY - int(of_others.sum())) // n_banks
            if job_state.rule.top_k > room:
                raise HotSetError(
                    f"top-k {job_state.rule.top_k} is too large: the switch has room for "
                    f"{pluralize(room, 'key')} of job {job}"
                )
        orphans = [entry for entry in entries if entry.job not in self._jobs and entry.job not in rows]
        return keys_by_job, ALL_SLOTS - slots_of_entries(orphans)

    def _selections(
        self, job_counts: Mapping[int, _JobCounts], entries: Sequence[HotParam], rows: Mapping[int, JobRow]
    ) -> dict[int, SelectedKeys]:
        """Return the jobs' selections, which place their rows if the switch has rows of several dims."""
        dims = {entry.dim for entry in entries} | {each.dim for row in rows.values() for each in row.ranges}
        if len({banks_of_row(dim) for dim in dims}) == 1:
            return {job: counts.selected for job, counts in job_counts.items()}
        occupied = occupied_by(entries, SLOTS)
        return {
            job: in_slots(counts.selected, counts.entries, occupied) for job, counts in job_counts.items()
        }

    async def _count_updates(
        self, job: int, all_entries: Sequence[HotParam], ranges: RowRanges
    ) -> _JobCounts:
        job_state = self._jobs[job]
        entries = [entry for entry in all_entries if entry.job == job]
        hot = np.array([entry.key for entry in entries], dtype=np.uint64)
        is_first = job_state.pushes is None
        cold, counts, at_servers = await self._read_busiest(job, job_state.cold_limit(len(entries)))
        pushes = await self._read_new_pushes(job_state, entries)
        updates = sum_by_key(np.append(hot, cold), np.append(pushes, counts))
        selected = job_state.select(updates, hot, is_first, ranges)
        in_switch = int(pushes.sum())
        if is_first:
            return _JobCounts(entries, hot, selected, None, None)
        return _JobCounts(entries, hot, selected, at_servers + in_switch, in_switch)

    async def _read_busiest(self, job: int, limit: int) -> tuple[Keys, Values, int]:
        """Return the most updated keys of this period [n], their updates [n], and the updates of all keys."""
        answers = await self._controller.busiest(job, limit)
        # The first entry of an answer is the total of the PS.
        keys = np.concatenate([keys[1:] for keys, _ in answers])
        counts = np.concatenate([counts[1:] for _, counts in answers])
        return keys, counts, sum(int(counts[0]) for _, counts in answers)

    async def _read_new_pushes(self, job_state: _Job, entries: Sequence[HotParam]) -> NDArray[np.int64]:
        """Return the updates that the switch has added since the last reading [n]; 0 for new entries."""
        previous_pushes = job_state.pushes or {}
        job_state.pushes = await self._read_pushes(entries)
        # A counter that went back was reset by a new pipeline.
        pushes = [
            total - previous_pushes.get(entry_id, total)
            if total >= previous_pushes.get(entry_id, 0)
            else total
            for entry_id, total in job_state.pushes.items()
        ]
        return np.array(pushes, dtype=np.int64)

    async def _execute_changes(
        self,
        job_counts: Mapping[int, _JobCounts],
        changes: Mapping[int, HotSetChange],
        other_keys_before_after: Mapping[int, tuple[list[int], list[int]]],
    ) -> None:
        """Free the slots that jobs give back, then make all other moves."""
        self.is_moving = True
        for other, (keys, remaining) in other_keys_before_after.items():
            if len(remaining) < len(keys):
                await self._controller.load(other, remaining)
        if len(job_counts) > 1:
            for job, counts in job_counts.items():
                if surplus := set(changes[job].surplus):
                    await self._controller.load(
                        job, [key for key in counts.hot.tolist() if key not in surplus]
                    )
        for job, counts in job_counts.items():
            if changes[job] or any(entry.state is not KeyState.HOT for entry in counts.entries):
                change = changes[job]
                plan = await self._controller.load(
                    job, change.apply_to(counts.hot.tolist()), slots=change.slots
                )
                # A slot's count is not reset when its key changes; the next period counts from these.
                pushes = self._jobs[job].pushes
                assert pushes is not None
                pushes |= await self._read_pushes(
                    [move.param for move in plan.arriving if move.param.job == job]
                )
        self.is_moving = False

    async def _read_pushes(self, entries: Sequence[HotParam]) -> dict[_EntryId, int]:
        entry_ids = [(entry.key, entry.lane, entry.slot) for entry in entries]
        return dict(zip(entry_ids, await self._controller.pushes(entries), strict=True))


async def follow(follower: Follower, interval_s: float, periods: int | None) -> AsyncIterator[list[Period]]:
    """Yield the first period at once, then `periods` more (None: endlessly), one every `interval_s` s."""
    loop = asyncio.get_running_loop()
    due_s = loop.time()
    for period_number in count():
        yield await follower.period()
        if period_number == periods:
            return
        due_s = max(due_s + interval_s, loop.time())
        await asyncio.sleep(due_s - loop.time())
