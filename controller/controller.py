"""The controller of one switch: it sets jobs up, moves hot sets in and out, and reads state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import chain

from typing_extensions import Self

from controller.address import DEFAULT_ADDRESS, DEFAULT_DEVICE_ID
from controller.client import SwitchClient
from controller.errors import DeviceError, UnknownJob, UnknownKey
from controller.hotset.migrate import ANY_SLOT, MigrationPlan, Progress, execute, plan
from controller.hotset.quotas import check_quota, remaining_keys, round_quota
from controller.inband import ANSWER_TIMEOUT_S, InBand, Servers
from controller.status import Counters, SwitchStatus, read_counters, read_pushes, read_status
from controller.tables import (
    CPU_PORT,
    CallerKind,
    Change,
    HomeRow,
    HotParam,
    InitialRow,
    JobRow,
    ServerRow,
    Update,
    WorkerRow,
)
from foundation.concurrency import gather_or_cancel
from foundation.designs.registry import DEFAULT
from foundation.limits import BeginWait, WallClockLimit
from foundation.protocol import addressing
from foundation.protocol.codec import Keys, Values
from foundation.protocol.control import Command
from foundation.protocol.header import CONTROLLER_CALLER, HOTLINE_PORT, PS_CALLER_BASE, PS_MASK
from foundation.protocol.rows import RowRanges

_MAX_SHOWN_KEYS = 10  # in an error


@dataclass(frozen=True, slots=True)
class Register:
    """A key with an entry, and the signed 32-bit values that the switch holds; None if its PS holds them."""

    param: HotParam
    values: tuple[int, ...] | None


def no_progress(done: int, total: int) -> None:
    pass


class Controller:
    """Client of one switch, to be used with `async with`; see `SwitchClient` for the primary role.

    Methods raise a `ControllerError`. They check what they can before the first write, and a call that failed
    half-way is finished by calling the method again.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        device_id: int = DEFAULT_DEVICE_ID,
        primary: bool = True,
        exclusive: bool = False,
        timeout_s: float = ANSWER_TIMEOUT_S,
        switch: SwitchClient | None = None,
        design: str = DEFAULT,
        limits: BeginWait = WallClockLimit,
    ) -> None:
        """`timeout_s` is for an answer of a server; `limits` begin the waits for it and for the switch."""
        self._switch = switch or SwitchClient(
            address, device_id=device_id, primary=primary, exclusive=exclusive, design=design, limits=limits
        )
        self._timeout_s, self._limits = timeout_s, limits

    async def __aenter__(self) -> Self:
        await self._switch.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._switch.__aexit__(*error)

    async def commit_pipeline(self) -> bool:
        """Commit the design's pipeline; return False without a change if the switch runs it already."""
        return await self._switch.commit_pipeline()

    async def install(self, *rows: InitialRow) -> None:
        """Insert rows, or modify those whose key has an entry with other data."""
        self._switch.check_pipeline()
        present_rows = {
            row.identity: row for kind in {type(row) for row in rows} for row in await self._switch.read(kind)
        }
        changed_rows = [row for row in rows if present_rows.get(row.identity) != row]
        await self._switch.write(
            [
                Update(Change.MODIFY if row.identity in present_rows else Change.INSERT, row)
                for row in changed_rows
            ]
        )

    async def remove(self, *rows: InitialRow) -> None:
        """Delete rows, which must exist."""
        self._switch.check_pipeline()
        await self._switch.write([Update(Change.DELETE, row) for row in rows])

    async def plan(self, job: int, keys: Sequence[int]) -> MigrationPlan:
        """Return the moves that `load` would make."""
        other_plans, own_plan = await self._plan(job, keys)
        return MigrationPlan(
            tuple(chain(*(other_plan.moves for other_plan in other_plans.values()), own_plan.leaving)),
            own_plan.arriving,
        )

    async def load(
        self,
        job: int,
        keys: Sequence[int],
        *,
        slots: Mapping[int, int] = ANY_SLOT,
        progress: Progress = no_progress,
    ) -> MigrationPlan:
        """Make `keys` a job's hot set by moving the difference; the keys are parked if offload is off.

        Other jobs give back the slots that the job needs within its quota. `slots` has the slots of arriving
        keys that must not get any. Return the job's own moves.
        """
        other_plans, own_plan = await self._plan(job, keys, slots)
        for other, other_plan in other_plans.items():
            await self._execute(other, other_plan, renew=True, progress=no_progress)
        return await self._execute(job, own_plan, renew=True, progress=progress)

    async def _plan(
        self, job: int, keys: Sequence[int], slots: Mapping[int, int] = ANY_SLOT
    ) -> tuple[dict[int, MigrationPlan], MigrationPlan]:
        """Return the plans of other jobs, which give slots back, and the plan of the load after them."""
        await self.job(job)
        params = await self._switch.read(HotParam)
        jobs = await self._read_jobs()
        quotas, ranges = (
            {row.job: getattr(row, name) for row in jobs.values()} for name in ("quota", "ranges")
        )
        remaining_by_job = remaining_keys(params, job, keys, quotas, ranges=ranges)
        other_plans = {
            other: plan(params, other, remaining, jobs[other].offload, ranges=ranges[other])
            for other, remaining in remaining_by_job.items()
        }
        freed_keys = {
            (move.param.job, move.param.key) for each in other_plans.values() for move in each.leaving
        }
        remaining_params = [param for param in params if (param.job, param.key) not in freed_keys]
        own_plan = plan(remaining_params, job, keys, jobs[job].offload, ranges=ranges[job], slot_of_key=slots)
        return other_plans, own_plan

    async def load_all(
        self, hot_sets: Mapping[int, Sequence[int]], *, renew: bool = False, progress: Progress = no_progress
    ) -> None:
        """Load hot sets by job, concurrently; without `renew` servers must have their epochs and keys."""
        # The values of one hot set move while the entries of another hot set are written.
        params, plans = await self._switch.read(HotParam), {}
        for job, keys in hot_sets.items():
            row = await self.job(job)
            plans[job] = plan(params, job, keys, row.offload, ranges=row.ranges)
            # For other jobs, slots of both leaving and arriving keys are taken.
            params += [move.param for move in plans[job].arriving if move.start is None]
        total, done_by_job = sum(len(job_plan.moves) for job_plan in plans.values()), dict[int, int]()

        def make_job_progress(job: int) -> Progress:
            def show_total(moved_count: int, _: int) -> None:
                done_by_job[job] = moved_count
                progress(sum(done_by_job.values()), total)

            return show_total

        await gather_or_cancel(
            self._execute(job, job_plan, renew, make_job_progress(job)) for job, job_plan in plans.items()
        )

    async def unload(self, job: int, *, progress: Progress = no_progress) -> MigrationPlan:
        """Move the values of all keys of a job back to their PS and delete their entries."""
        return await self.load(job, [], progress=progress)

    async def plan_offload(self, job: int, is_on: bool) -> MigrationPlan:
        ranges = (await self.job(job)).ranges
        params = await self._switch.read(HotParam)
        return plan(params, job, [param.key for param in params if param.job == job], is_on, ranges=ranges)

    async def set_offload(self, job: int, is_on: bool, *, progress: Progress = no_progress) -> MigrationPlan:
        """Move the values of a job's hot set into the switch, or back to the PS; the entries stay."""
        settings = await self.job(job)
        keys = [param.key for param in await self._switch.read(HotParam) if param.job == job]
        changed_job = replace(settings, offload=is_on)
        # The flag is on as long as any value is in the switch.
        if is_on:
            await self.install(changed_job)
        offload_plan = plan(await self._switch.read(HotParam), job, keys, is_on, ranges=settings.ranges)
        await self._execute(job, offload_plan, renew=True, progress=progress)
        if not is_on:
            await self.install(changed_job)
        return offload_plan

    async def renew(self, job: int) -> None:
        """Send a job's servers their epochs; they reclaim the values that an earlier switch held."""
        servers = await self._read_servers(job)
        async with InBand(self._switch, timeout_s=self._timeout_s, limits=self._limits) as inband:
            await self._renew_epochs(inband, servers)

    async def renew_callers(self, rows: Sequence[WorkerRow]) -> None:
        """Install callers whose epochs have changed, in place of those of the same jobs and numbers."""
        renewed = {(row.job, row.worker) for row in rows}
        if renewed:
            present = await self._switch.read(WorkerRow)
            await self.remove(*(row for row in present if (row.job, row.worker) in renewed))
            await self.install(*rows)

    async def command_servers(self, job: int, command: Command, epoch: int | None = None) -> None:
        """Have each server of a job execute a command without keys; `epoch` is its argument, if any."""
        servers = await self._read_servers(job)
        async with InBand(self._switch, timeout_s=self._timeout_s, limits=self._limits) as inband:
            await gather_or_cancel(inband.execute(command, server, epoch) for server in servers)

    async def _renew_epochs(self, inband: InBand, servers: Servers) -> None:
        rows = await self._switch.read(WorkerRow)
        epochs = {(row.job, row.worker): row.epoch for row in rows}
        server_epochs = [(server, epochs.get((server.job, PS_CALLER_BASE + server.ps))) for server in servers]
        await gather_or_cancel(
            inband.execute(Command.RENEW, server, epoch)
            for server, epoch in server_epochs
            if epoch is not None
        )

    async def set_proxy(self, job: int, is_on: bool) -> None:
        """Have the switch present all workers of a job to the PS as one connection, or as one per worker."""
        await self.install(replace(await self.job(job), proxy=is_on))

    async def quotas(self) -> dict[int, int]:
        """Return the quota of each job on the switch, in slots of banks."""
        return {job: row.quota for job, row in (await self.jobs()).items()}

    async def jobs(self) -> dict[int, JobRow]:
        self._switch.check_pipeline()
        return await self._read_jobs()

    async def set_ranges(self, job: int, ranges: RowRanges) -> None:
        """Set the dims of a job's rows; its keys must not be in the switch."""
        await self.install(replace(await self.job(job), ranges=ranges))

    async def set_quota(self, job: int, keys: int) -> None:
        """Set a job's quota, rounded up (`round_quota`), for later loads and periods; raises `QuotaError`."""
        row = await self.job(job)
        quota = round_quota(keys)
        check_quota(job, quota, await self.quotas())
        await self.install(replace(row, quota=quota))

    async def read_register(self, name: str, first: int = 0, count: int | None = None) -> list[int]:
        """Return cells of a register array of the design's program; see `SwitchClient.read_register`."""
        self._switch.check_pipeline()
        return await self._switch.read_register(name, first, count)

    def digests(self, name: str) -> AsyncIterator[dict[str, int]]:
        """Yield digests of the design's program as values by field; see `SwitchClient.digests`."""
        self._switch.check_pipeline()
        return self._switch.digests(name)

    async def counters(self) -> Counters:
        self._switch.check_pipeline()
        return await read_counters(self._switch)

    async def status(self) -> SwitchStatus:
        self._switch.check_pipeline()
        return await read_status(self._switch)

    async def entries(self) -> list[HotParam]:
        self._switch.check_pipeline()
        return await self._switch.read(HotParam)

    async def pushes(self, params: Sequence[HotParam]) -> list[int]:
        """Return how many pushes, without retransmissions, the switch has added to each entry's slot."""
        self._switch.check_pipeline()
        return await read_pushes(self._switch, params)

    async def busiest(self, job: int, limit: int) -> list[tuple[Keys, Values]]:
        """Return `InBand.busiest` of each PS, for an equal share of `limit` keys."""
        servers = await self._read_servers(job)
        limit_per_server = -(-limit // len(servers))  # rounded up
        async with InBand(self._switch, timeout_s=self._timeout_s, limits=self._limits) as inband:
            return await gather_or_cancel(inband.busiest(server, limit_per_server) for server in servers)

    async def registers(
        self, job: int, keys: Sequence[int] | None = None, params: Sequence[HotParam] | None = None
    ) -> list[Register]:
        """Return the job's entries, or those of `keys`, with values; `params` are all entries, if known."""
        servers = await self._read_servers(job)
        all_params = await self._switch.read(HotParam) if params is None else params
        entries = {param.key: param for param in all_params if param.job == job}
        wanted_keys = sorted(entries if keys is None else set(keys))
        unknown_keys = [key for key in wanted_keys if key not in entries]
        if unknown_keys:
            shown_keys = ", ".join(map(str, unknown_keys[:_MAX_SHOWN_KEYS]))
            raise UnknownKey(f"job {job} has no entry on the switch for key {shown_keys}")
        params = [entries[key] for key in wanted_keys]
        async with (
            InBand(self._switch, timeout_s=self._timeout_s, limits=self._limits) as inband,
            self._registered_caller(inband.epoch, job),
        ):
            values = await inband.read(servers, [(param.key, param.dim) for param in params])
        return [Register(param, values.get(param.key)) for param in params]

    async def _execute(
        self, job: int, job_plan: MigrationPlan, renew: bool, progress: Progress
    ) -> MigrationPlan:
        servers = await self._read_servers(job)
        async with InBand(self._switch, timeout_s=self._timeout_s, limits=self._limits) as inband:
            moved_keys = [move.param.key for move in job_plan.moves if move.command is not None]
            if renew and moved_keys:
                await self._renew_epochs(inband, servers)
                # Before the first write, check that every PS answers and knows the keys.
                await inband.check(servers, moved_keys, (await self.job(job)).ranges)
            await execute(
                job_plan,
                self._switch.write,
                lambda command, ps, keys: inband.move(command, servers[ps], keys),
                servers.n_ps,
                progress,
            )
        return job_plan

    async def job(self, job: int) -> JobRow:
        """Return a job's row; raise `UnknownJob` without one."""
        self._switch.check_pipeline()
        jobs = await self._read_jobs()
        if job not in jobs:
            known_jobs = ", ".join(map(str, sorted(jobs))) or "none"
            raise UnknownJob(f"job {job} is not on the switch; its jobs: {known_jobs}")
        return jobs[job]

    async def _read_jobs(self) -> dict[int, JobRow]:
        return {row.job: row for row in await self._switch.read(JobRow)}

    async def _read_servers(self, job: int) -> Servers:
        await self.job(job)
        own = {row.ps & PS_MASK: row for row in await self._switch.read(ServerRow) if row.job == job}
        passed_on = [row.ps & PS_MASK for row in await self._switch.read(HomeRow) if row.job == job]
        known = sorted({*own, *passed_on})
        if not own or known != list(range(len(known))):
            ids = ", ".join(map(str, known)) or "none"
            raise UnknownJob(f"job {job}: expected the parameter servers 0, 1, ... on the switch, got {ids}")
        return Servers(own, len(known))

    @asynccontextmanager
    async def _registered_caller(self, epoch: int, job: int) -> AsyncIterator[None]:
        workers = await self._switch.read(WorkerRow)
        # The row of a killed controller is still there.
        await self.remove(*(row for row in workers if (row.job, row.worker) == (job, CONTROLLER_CALLER)))
        n_callers = self._switch.table_size(WorkerRow)
        free_callers = sorted(set(range(n_callers)) - {row.caller for row in workers})
        if not free_callers:
            raise DeviceError(f"all {n_callers} entries of table workers are taken")
        host = addressing.controller()
        row = WorkerRow(
            job=job,
            worker=CONTROLLER_CALLER,
            epoch=epoch,
            caller=free_callers[0],
            mac=host.mac,
            addr=host.address,
            udp_port=HOTLINE_PORT,
            port=CPU_PORT,
            kind=CallerKind.PRIVILEGED,
        )
        await self.install(row)
        try:
            yield
        finally:
            await self.remove(row)
