"""The machines of a dask cluster, as tasks on them describe them."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from experiment.run_config import Config
from hotline_machines import survey as survey_module
from hotline_machines.assignment import Assignment, OfferedMachine, assign
from hotline_machines.errors import MachinesError
from hotline_machines.security import check_address, check_listeners, host_of, security
from hotline_machines.survey import SurveyedMachine, software_versions
from hotline_machines.versions import RUNNER, check_versions

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
_CONNECT_TIMEOUT_S = 5.0
_TASK_TIMEOUT_S = 120.0
_MAX_CLOCK_DIFFERENCE_S = 0.02
"""Blocks are told apart by Unix time, and are longer than this apart."""


class Machine(NamedTuple):
    """A machine of the cluster."""

    worker: str  # dask's address of its worker
    resources: Mapping[str, float]
    survey: SurveyedMachine
    clock_difference_s: float
    """How far its Unix time is ahead of this machine's, in s, as well as one task can tell."""
    clock_error_s: float

    @property
    def name(self) -> str:
        return self.survey.name


class Plan(NamedTuple):
    """Which machine has what in a run."""

    machines: dict[str, Machine]  # by name, those that the run uses and others
    assignment: Assignment
    remarks: list[str]


@asynccontextmanager
async def connected(config: Config) -> AsyncIterator[Client]:
    """Yield a client of the scheduler of a run; raise `MachinesError` if none answers."""
    from distributed import Client

    assert config.machines is not None
    check_address(config.machines, config.wiring.plaintext)
    # What it logs with a stack trace, such as the end of the scheduler, is also raised or watched here.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    client = Client(
        config.machines,
        asynchronous=True,
        timeout=_CONNECT_TIMEOUT_S,
        security=security(),
        set_as_default=False,
    )
    try:
        await client
    except (OSError, ValueError, TypeError, RuntimeError, asyncio.TimeoutError) as error:
        await client.close()
        raise MachinesError(
            f"MACHINES={config.machines}: expected a dask scheduler, none answers: {_first_line(error)}"
        ) from None
    try:
        if not (config.machines.startswith("tls://") or config.wiring.plaintext):
            check_listeners(_addresses(await _identity(client)))
        yield client
    finally:
        await client.close()


async def _identity(client: Client) -> dict[str, Any]:
    identity: dict[str, Any] = await _rpc(client).identity(n_workers=-1)  # of dask's own making
    return identity


def _addresses(identity: Mapping[str, Any]) -> dict[str, str]:
    """Return the command that starts each process of a cluster, by its address."""
    workers = identity["workers"]
    nannies = [worker["nanny"] for worker in workers.values() if worker["nanny"]]
    return {identity["address"]: "dask scheduler", **dict.fromkeys([*workers, *nannies], "dask worker")}


async def on_worker(client: Client, worker: str, function: Callable[..., T], *arguments: object) -> T:
    """Run a task on this worker, once; raise `MachinesError` if it takes too long."""
    future = client.submit(
        function, *arguments, workers=[worker], allow_other_workers=False, retries=0, pure=False
    )
    try:
        result: T = await asyncio.wait_for(future, _TASK_TIMEOUT_S)
    except asyncio.TimeoutError:
        raise MachinesError(
            f"worker {worker}: expected the result of {function.__name__} within {_TASK_TIMEOUT_S:.0f} s, "
            "got none"
        ) from None
    return result


async def survey_machines(client: Client, config: Config) -> dict[str, Machine]:
    """Return the machines whose workers of dask have resources, by name."""
    info = (await _identity(client))["workers"]
    if not info:
        raise MachinesError(
            f"MACHINES={config.machines}: the scheduler has no worker; start `dask worker` on the machines"
        )
    offers = {worker: each["resources"] for worker, each in info.items() if each["resources"]}
    await _check_names(client, sorted(offers))
    found = await asyncio.gather(*(_survey(client, worker, offers[worker]) for worker in sorted(offers)))
    return {machine.name: machine for machine in found}


async def _check_names(client: Client, workers: Sequence[str]) -> None:
    """Raise `MachinesError` if two workers are on one machine; a survey takes much longer."""
    names = await asyncio.gather(*(on_worker(client, worker, socket.gethostname) for worker in workers))
    worker_by_name: dict[str, str] = {}
    for name, worker in zip(names, workers, strict=True):
        if worker_by_name.setdefault(name, worker) != worker:
            raise MachinesError(
                f"{name}: expected one worker of dask with resources on each machine, got "
                f"{worker_by_name[name]} and {worker}; machines are known by their host names, so give each "
                "its own (`hostname NAME`)"
            )


async def make_plan(client: Client, config: Config) -> Plan:
    """Survey the machines, compare their versions, and assign the run's hosts to them."""
    machines = await survey_machines(client, config)
    assignment = assign(
        [OfferedMachine(name, machine.resources) for name, machine in sorted(machines.items())],
        config.workers,
        config.servers,
        config.wiring.pins or {},
    )
    used = [machines[name] for name in assignment.machines]
    remarks = check_versions(
        {RUNNER: software_versions(), **{machine.name: machine.survey.versions for machine in used}}
    )
    for machine in used:
        check_machine(machine, is_alone=len(used) == 1)
    return Plan(machines, assignment, remarks)


def _rpc(client: Client) -> Any:
    """Return dask's connection for calls of the scheduler, whose methods have no types."""
    return client.scheduler


async def _survey(client: Client, worker: str, resources: Mapping[str, float]) -> Machine:
    begin_ns = time.time_ns()
    try:
        surveyed = await on_worker(client, worker, survey_module.survey)
    except MachinesError:
        raise
    except Exception as error:  # what an import on the machine raises is of any class
        raise MachinesError(
            f"worker {worker}: expected Hotline as on this machine, with packages/machines, got "
            f"{type(error).__name__}: {_first_line(error)}"
        ) from None
    end_ns = time.time_ns()
    error_s = (end_ns - begin_ns) / 2e9
    return Machine(worker, resources, surveyed, (surveyed.time_ns - begin_ns) / 1e9 - error_s, error_s)


def check_machine(machine: Machine, is_alone: bool) -> None:
    """Raise `MachinesError` for what a machine lacks to be one of a run, or the only one."""
    surveyed, address = machine.survey, ip_address(host_of(machine.worker))
    if not is_alone and (address.version != 4 or address.is_loopback):
        raise MachinesError(
            f"{machine.name}: expected an IPv4 address by which the other machines reach it, got {address}; "
            "`dask worker --host ADDRESS` gives it one"
        )
    if surveyed.uid != 0:
        raise MachinesError(
            f"{machine.name}: expected a worker of dask that root has started, since it builds interfaces, "
            f"got one of user {surveyed.uid}"
        )
    if surveyed.missing_programs:
        raise MachinesError(
            f"{machine.name}: expected the program {surveyed.missing_programs[0]} on PATH, found none; "
            "tools/scripts/setup installs it"
        )
    if abs(machine.clock_difference_s) > _MAX_CLOCK_DIFFERENCE_S + machine.clock_error_s:
        raise MachinesError(
            f"{machine.name}: expected a clock that differs from this machine's by at most "
            f"{_MAX_CLOCK_DIFFERENCE_S:g} s, got {machine.clock_difference_s:+.3f} s; synchronise them by NTP"
        )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
