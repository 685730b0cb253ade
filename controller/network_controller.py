"""A controller of several switches with hot sets: each has the hot keys of its own servers, or of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import chain
from typing import NoReturn

from typing_extensions import Self

from controller.controller import Controller, Register, no_progress
from controller.errors import DeviceError, UnknownKey
from controller.hotset.migrate import ANY_SLOT, MigrationPlan, Progress
from controller.status import Counters
from controller.tables import HotParam, JobRow
from foundation.concurrency import gather_or_cancel
from foundation.protocol.control import Command
from foundation.protocol.leaf_spine import LeafSpine
from foundation.protocol.rows import RowRanges


class NetworkController(Controller):
    """The part of a `Controller` that a run needs, for `homes`: the switches of `network.homes` in order.

    Other methods concern one switch, and raise `DeviceError`.
    """

    def __init__(self, network: LeafSpine, homes: Sequence[Controller]) -> None:
        self._network, self._homes = network, homes
        self._stack = AsyncExitStack()

    def __getattr__(self, name: str) -> NoReturn:
        if name == "_switch":  # of the methods that are not for several switches
            raise DeviceError(
                f"expected a controller of one switch, got that of {len(self._homes)} with hot sets"
            )
        raise AttributeError(name)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for home in self._homes:
                await stack.enter_async_context(home)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    async def load_all(
        self, hot_sets: Mapping[int, Sequence[int]], *, renew: bool = False, progress: Progress = no_progress
    ) -> None:
        for job, keys in hot_sets.items():
            await self._unload_leaving(job, keys)
        split = {job: [*self._network.keys_by_home(keys).values()] for job, keys in hot_sets.items()}
        await gather_or_cancel(
            home.load_all(
                {job: parts[index] for job, parts in split.items()}, renew=renew, progress=progress_of_home
            )
            for index, (home, progress_of_home) in enumerate(self._with_progress(progress))
        )

    async def load(
        self,
        job: int,
        keys: Sequence[int],
        *,
        slots: Mapping[int, int] = ANY_SLOT,
        progress: Progress = no_progress,
    ) -> MigrationPlan:
        await self._unload_leaving(job, keys)
        parts = self._network.keys_by_home(keys).values()
        plans = await gather_or_cancel(
            home.load(job, part, slots=slots, progress=progress_of_home)
            for part, (home, progress_of_home) in zip(parts, self._with_progress(progress), strict=True)
        )
        return MigrationPlan(
            tuple(chain(*(plan.leaving for plan in plans))), tuple(chain(*(plan.arriving for plan in plans)))
        )

    async def _unload_leaving(self, job: int, keys: Sequence[int]) -> None:
        """Have servers take back the rows that are to be at another level, whose switch may get them then."""
        if not self._network.has_levels:
            return
        for home, wanted in zip(self._homes, self._network.keys_by_home(keys).values(), strict=True):
            present = {param.key for param in await home.entries() if param.job == job}
            if not present <= set(wanted):
                await home.load(job, [key for key in wanted if key in present])

    def _with_progress(self, progress: Progress) -> list[tuple[Controller, Progress]]:
        """Return the homes, each with its part of a common progress."""
        done, totals = [0] * len(self._homes), [0] * len(self._homes)

        def progress_of(index: int) -> Progress:
            def show_total(moved_count: int, total: int) -> None:
                done[index], totals[index] = moved_count, total
                progress(sum(done), sum(totals))

            return show_total

        return [(home, progress_of(index)) for index, home in enumerate(self._homes)]

    async def command_servers(self, job: int, command: Command, epoch: int | None = None) -> None:
        # What one home has added is published at the others the second time.
        is_repeated = command is Command.PUBLISH and self._network.is_home_by_worker
        for _ in range(2 if is_repeated else 1):
            await gather_or_cancel(home.command_servers(job, command, epoch) for home in self._homes)

    async def set_ranges(self, job: int, ranges: RowRanges) -> None:
        for home in self._homes:
            await home.set_ranges(job, ranges)

    async def job(self, job: int) -> JobRow:
        """Return a job's row, which all homes have."""
        return await self._homes[0].job(job)

    async def entries(self) -> list[HotParam]:
        return list(chain(*[await home.entries() for home in self._homes]))

    async def registers(
        self, job: int, keys: Sequence[int] | None = None, params: Sequence[HotParam] | None = None
    ) -> list[Register]:
        if self._network.is_home_by_worker:
            return list(chain(*[await home.registers(job, keys) for home in self._homes]))
        all_params = await self.entries() if params is None else params
        own_params = [param for param in all_params if param.job == job]
        wanted = self._network.keys_by_home([param.key for param in own_params] if keys is None else keys)
        if self._network.has_levels:
            wanted = await self._present_keys(job, keys)
        return list(
            chain(
                *[
                    await home.registers(job, home_keys, own_params)
                    for home, home_keys in zip(self._homes, wanted.values(), strict=True)
                ]
            )
        )

    async def _present_keys(self, job: int, keys: Sequence[int] | None) -> dict[int, list[int]]:
        """Return the keys that each home has, of these or of all; raise `UnknownKey` if no home has one."""
        found: dict[int, list[int]] = {}
        missing = set(keys or ())
        for number, home in zip(self._network.homes, self._homes, strict=True):
            present = {param.key for param in await home.entries() if param.job == job}
            found[number] = sorted(present if keys is None else present.intersection(keys))
            missing -= present
        if missing:
            raise UnknownKey(f"job {job} has no entry on any switch for key {min(missing)}")
        return found

    async def counters(self) -> Counters:
        """Return the counters of all homes, the lanes of one after those of the other."""
        counters = [await home.counters() for home in self._homes]
        return Counters(
            rpcs={name: sum(each.rpcs[name] for each in counters) for name in counters[0].rpcs},
            drops={name: sum(each.drops[name] for each in counters) for name in counters[0].drops},
            lanes=tuple(chain(*(each.lanes for each in counters))),
        )
