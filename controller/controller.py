"""What a controller does with a switch: set jobs up, move hot sets in and out, read state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType

from typing_extensions import Self

from controller.client import DEFAULT_ADDRESS, SwitchClient
from controller.errors import DeviceError, UnknownJob, UnknownKey
from controller.hotset.migrate import Plan, Progress, execute, plan
from controller.inband import PATIENCE, InBand
from controller.status import Counters, SwitchStatus, read_counters, read_pushes, read_status
from controller.tables import (
    CPU_PORT,
    ROWS,
    CallerKind,
    Change,
    HotParam,
    Job,
    Server,
    Settings,
    Update,
    Worker,
)
from foundation.concurrency import gather_or_cancel
from foundation.designs.registry import DEFAULT
from foundation.protocol import addressing
from foundation.protocol.codec import Keys, Values
from foundation.protocol.control import Command
from foundation.protocol.header import CONTROLLER_CALLER, HOTLINE_PORT, PS_CALLER_BASE


@dataclass(frozen=True, slots=True)
class Register:
    """A key with an entry and the 32-bit value that the switch holds of it (None: its PS holds it)."""

    param: HotParam
    value: int | None


def _silent(done: int, total: int) -> None:
    """No progress is shown."""


class Controller:
    """`async with Controller(address) as controller`: see `SwitchClient` for the primary role.

    Methods raise a `ControllerError`; what can be checked is checked before the first write, and what a
    method did not finish is finished by calling it again.
    """

    def __init__(
        self,
        address: str = DEFAULT_ADDRESS,
        *,
        device_id: int = 1,
        primary: bool = True,
        undisturbed: bool = False,
        patience: float = PATIENCE,
        switch: SwitchClient | None = None,
        design: str = DEFAULT,
    ) -> None:
        self._switch = switch or SwitchClient(
            address, device_id=device_id, primary=primary, undisturbed=undisturbed, design=design
        )
        self._patience = patience

    async def __aenter__(self) -> Self:
        await self._switch.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._switch.__aexit__(kind, error, trace)

    async def commit_pipeline(self) -> bool:
        """Give the switch our pipeline. False, and nothing is touched, when it runs it already."""
        return await self._switch.commit_pipeline()

    async def install(self, *rows: Settings) -> None:
        """Insert rows, or modify those whose key is there with other data."""
        self._switch.check_pipeline()
        present = {
            row.identity: row for kind in {type(row) for row in rows} for row in await self._switch.read(kind)
        }
        changed = [row for row in rows if present.get(row.identity) != row]
        await self._switch.write(
            [Update(Change.MODIFY if row.identity in present else Change.INSERT, row) for row in changed]
        )

    async def remove(self, *rows: Settings) -> None:
        """Delete rows that are there."""
        self._switch.check_pipeline()
        await self._switch.write([Update(Change.DELETE, row) for row in rows])

    async def plan(self, job: int, keys: Sequence[int]) -> Plan:
        """What `load` would do."""
        offload = (await self.job(job)).offload
        return plan(await self._params(), job, keys, offload)

    async def load(self, job: int, keys: Sequence[int], *, progress: Progress = _silent) -> Plan:
        """Make `keys` the hot set of a job, under load, moving only the difference; the plan that was done.

        While offload is off for the job, keys are parked: they have their slots but stay at the PS.
        """
        return await self._move(job, keys, (await self.job(job)).offload, progress)

    async def load_all(self, hot_sets: Mapping[int, Sequence[int]]) -> None:
        """`load` hot sets that have been loaded before, side by side.

        The values of one move while entries of another are written. The jobs' servers must have been renewed.
        """
        params, plans = await self._params(), {}
        for job, keys in hot_sets.items():
            plans[job] = plan(params, job, keys, (await self.job(job)).offload)
            # Slots that keys are about to leave are not free for other jobs.
            params += [move.param for move in plans[job].arriving if move.start is None]
        await gather_or_cancel(self._carry_out(job, moves) for job, moves in plans.items())

    async def unload(self, job: int, *, progress: Progress = _silent) -> Plan:
        """Take all keys of a job home to their PS and delete their entries."""
        return await self.load(job, [], progress=progress)

    async def plan_offload(self, job: int, on: bool) -> Plan:
        """What `set_offload` would do."""
        await self.job(job)
        params = await self._params()
        return plan(params, job, [param.key for param in params if param.job == job], on)

    async def set_offload(self, job: int, on: bool, *, progress: Progress = _silent) -> Plan:
        """Move the values of a job's hot set into the switch, or home to the PS; the entries stay."""
        settings = await self.job(job)
        keys = [param.key for param in await self._params() if param.job == job]
        changed = Job(job, on, settings.proxy)
        # The flag is on as long as any value is in the switch.
        if on:
            await self.install(changed)
        done = await self._move(job, keys, on, progress)
        if not on:
            await self.install(changed)
        return done

    async def renew(self, job: int) -> None:
        """Tell the job's servers which switch this is, by the epochs that their rows have here.

        A server that has known another takes home what that one had: it is gone. `load` does so too.
        """
        servers = await self._servers(job)
        async with InBand(self._switch, patience=self._patience) as inband:
            await self._renew(inband, servers)

    async def _renew(self, inband: InBand, servers: Sequence[Server]) -> None:
        rows = await self._switch.read(Worker)
        epochs = {(row.job, row.worker): row.epoch for row in rows}
        known = [(server, epochs.get((server.job, PS_CALLER_BASE + server.ps))) for server in servers]
        await gather_or_cancel(inband.renew(server, epoch) for server, epoch in known if epoch is not None)

    async def set_proxy(self, job: int, on: bool) -> None:
        """Let the PS see all workers of a job as one connection, or each as its own."""
        settings = await self.job(job)
        await self.install(Job(job, settings.offload, on))

    async def counters(self) -> Counters:
        """All counters."""
        self._switch.check_pipeline()
        return await read_counters(self._switch)

    async def status(self) -> SwitchStatus:
        """All tables and counters."""
        self._switch.check_pipeline()
        return await read_status(self._switch)

    async def entries(self) -> list[HotParam]:
        """The entries of all jobs."""
        self._switch.check_pipeline()
        return await self._params()

    async def pushes(self, params: Sequence[HotParam]) -> list[int]:
        """How many pushes the switch has added to the slot of each entry, as a PS counts updates."""
        self._switch.check_pipeline()
        return await read_pushes(self._switch, params)

    async def busiest(self, job: int, most: int) -> list[tuple[Keys, Values]]:
        """Of each PS, `InBand.busiest` of its share of `most` keys."""
        servers = await self._servers(job)
        share = -(-most // len(servers))
        async with InBand(self._switch, patience=self._patience) as inband:
            return await gather_or_cancel(inband.busiest(server, share) for server in servers)

    async def registers(self, job: int, keys: Sequence[int] | None = None) -> list[Register]:
        """The job's entries, all or those of `keys`, by key, with values read through the data plane.

        Raises `UnknownKey` when one of `keys` has no entry.
        """
        servers = await self._servers(job)
        mine = {param.key: param for param in await self._params() if param.job == job}
        wanted = sorted(mine if keys is None else set(keys))
        unknown = [key for key in wanted if key not in mine]
        if unknown:
            raise UnknownKey(
                f"job {job} has no entry on the switch for key {', '.join(map(str, unknown[:10]))}"
            )
        params = [mine[key] for key in wanted]
        async with InBand(self._switch, patience=self._patience) as inband, self._caller(inband.epoch, job):
            held = await inband.read(servers, [param.key for param in params])
        return [Register(param, held.get(param.key)) for param in params]

    async def _move(self, job: int, keys: Sequence[int], offload: bool, progress: Progress) -> Plan:
        servers = await self._servers(job)
        moves = plan(await self._params(), job, keys, offload)
        async with InBand(self._switch, patience=self._patience) as inband:
            asked = [move.param.key for move in moves.moves if move.command is not None]
            if asked:
                await self._renew(inband, servers)
            # Before the first write: does every PS answer, and know the keys?
            await inband.check(servers, asked)
            await execute(moves, _Fabric(self._switch, inband, servers), len(servers), progress)
        return moves

    async def _carry_out(self, job: int, moves: Plan) -> None:
        servers = await self._servers(job)
        async with InBand(self._switch, patience=self._patience) as inband:
            await execute(moves, _Fabric(self._switch, inband, servers), len(servers), _silent)

    async def _params(self) -> list[HotParam]:
        return await self._switch.read(HotParam)

    async def job(self, job: int) -> Job:
        """A job's settings."""
        self._switch.check_pipeline()
        jobs = {row.job: row for row in await self._switch.read(Job)}
        if job not in jobs:
            known = ", ".join(map(str, sorted(jobs))) or "none"
            raise UnknownJob(f"job {job} is not on the switch; its jobs: {known}")
        return jobs[job]

    async def _servers(self, job: int) -> list[Server]:
        """The job's servers by id."""
        await self.job(job)
        rows = await self._switch.read(Server)
        servers = sorted((row for row in rows if row.job == job), key=lambda row: row.ps)
        if not servers or [row.ps for row in servers] != list(range(len(servers))):
            ids = ", ".join(str(row.ps) for row in servers) or "none"
            raise UnknownJob(
                f"job {job} has the parameter servers {ids} on the switch; they must be 0, 1, ..."
            )
        return servers

    @asynccontextmanager
    async def _caller(self, epoch: int, job: int) -> AsyncIterator[None]:
        """Make this controller a privileged caller of the job for a while."""
        workers = await self._switch.read(Worker)
        # A controller that was killed could not remove its own.
        await self.remove(*(row for row in workers if (row.job, row.worker) == (job, CONTROLLER_CALLER)))
        free = sorted(set(range(ROWS)) - {row.row for row in workers})
        if not free:
            raise DeviceError(f"all {ROWS} rows of table workers are taken")
        me = addressing.controller()
        row = Worker(
            job=job,
            worker=CONTROLLER_CALLER,
            epoch=epoch,
            row=free[0],
            mac=me.mac,
            addr=me.address,
            udp_port=HOTLINE_PORT,
            port=CPU_PORT,
            kind=CallerKind.PRIVILEGED,
        )
        await self.install(row)
        try:
            yield
        finally:
            await self.remove(row)


@dataclass(frozen=True, slots=True)
class _Fabric:
    """The real switch and parameter servers under a plan."""

    switch: SwitchClient
    inband: InBand
    servers: Sequence[Server]

    async def write(self, updates: Sequence[Update]) -> None:
        await self.switch.write(updates)

    async def command(self, command: Command, ps: int, keys: Sequence[int]) -> None:
        await self.inband.move(command, self.servers[ps], keys)
