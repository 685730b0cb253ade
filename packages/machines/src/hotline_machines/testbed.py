"""The kind of testbed that `MACHINES=` selects."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.record import ANY, RunRecord
from experiment.design_parts import hosts_of
from experiment.errors import log_cleanup_errors
from experiment.progress import Reporter
from experiment.requirements import RunKind, check_design
from experiment.run_config import Config
from foundation.concurrency import gather_or_cancel
from hotline_machines.building import build_network
from hotline_machines.cluster import Machine, Plan, connected, make_plan, on_worker, survey_machines
from hotline_machines.errors import MachinesError
from hotline_machines.launch import UP, LaunchedSupervisor, clean_machine, launch_supervisor
from hotline_machines.links import measure_links
from hotline_machines.network import MachinesNetwork
from hotline_machines.remote import RemoteMachine
from hotline_machines.scheduler import wait_until_scheduler_ends
from hotline_machines.script_files import check_scripts, describe_script
from hotline_machines.security import client_context, host_of
from hotline_machines.supervisor.server import SupervisorSpec, shared_file_of
from hotline_machines.tunnel import p4runtime_tunnel
from hotline_scripts.rendezvous import down_command
from topologies.agents import supervise
from topologies.cpu_placement import Placement
from topologies.preflight import check_after_death, check_inputs, check_script
from topologies.testbed import Reservation, Testbed, TestbedKind, UpTestbed

if TYPE_CHECKING:
    from distributed import Client

log = logging.getLogger(__name__)


class _NoReservation:
    """Each machine's supervisor keeps other runs from its machine."""

    def set_folder(self, run: Path) -> None:
        pass  # a supervisor removes its own folder


class MachinesTestbed(TestbedKind):
    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._ended_by = ""

    def check(self, config: Config) -> None:
        self._check(config, RunKind.REAL if config.script is None else RunKind.SCRIPT)

    def _check(self, config: Config, kind: RunKind) -> None:
        check_after_death(config, kind)
        check_design(config.design, kind, hosts_of(config))
        check_inputs(config)

        async def survey() -> Plan:
            async with connected(config) as client:
                plan = await make_plan(client, config)
                if config.script is not None:
                    await _compare_scripts(client, config, plan)
                return plan

        self._plan = asyncio.run(survey())
        for remark in self._plan.remarks:
            log.warning("versions differ: %s", remark)

    def remove_killed(self, config: Config) -> list[str]:
        async def remove() -> list[str]:
            async with connected(config) as client:
                machines = await survey_machines(client, config)
                ended_by = down_command(config.machines)
                found = await gather_or_cancel(
                    _clean(client, machine, ended_by) for machine in machines.values()
                )
            removed = [
                f"{name} on {machine}"
                for machine, names in zip(machines, found, strict=True)
                for name in names
                if name != UP
            ]
            # The end on one machine is that on all of them.
            return [*([UP] if any(UP in names for names in found) else []), *removed]

        return asyncio.run(remove())

    @contextmanager
    def reserve(self, config: Config) -> Iterator[Reservation]:
        yield _NoReservation()

    def remove_remains(self, config: Config) -> None:
        """Do nothing: the end of this process ends the supervisors, and those remove all."""

    def describe(self, config: Config, record: RunRecord) -> None:
        plan = self._checked_plan
        used = [plan.machines[name] for name in plan.assignment.machines]
        record.machine = _describe_all(used)
        record.versions = dict(plan.machines[plan.assignment.switch].survey.versions)
        record.placement = dict.fromkeys(("switch", "servers", "workers", "rest"), ANY)
        record.machines = {
            machine.name: {
                **machine.survey.description,
                "versions": machine.survey.versions,
                "switch": machine.name == plan.assignment.switch,
                "hosts": plan.assignment.hosts_of(machine.name),
            }
            for machine in used
        }

    @asynccontextmanager
    async def open(
        self, config: Config, run: Path, record: RunRecord, reporter: Reporter
    ) -> AsyncIterator[Testbed]:
        async with AsyncExitStack() as stack:
            plan, token = self._checked_plan, secrets.token_hex(32)
            with reporter.phase("machines"):
                client = await stack.enter_async_context(connected(config))
                machines = await _start_supervisors(client, config, run, plan, token, stack)
            with reporter.phase("links"):
                record.links = await measure_links(config, machines, plan.assignment, token)
            with reporter.phase("network"):
                network = await build_network(config, run, plan, machines)
                await _start_switch(config, network, token, stack)
            try:
                yield Testbed(
                    network, Placement(), network, _refuse_command_line,
                    watches=[lambda: wait_until_scheduler_ends(client, config.machines or "")],
                )  # fmt: skip
            finally:
                with log_cleanup_errors():
                    await network.fetch_rest(record.accounting is not None)
                for name, state in network.describe_machines().items():
                    record.machines[name] |= state
                for line in network.describe_losses():
                    log.warning("%s", line)

    def check_up(self, config: Config) -> None:
        self._check(config, RunKind.UP)

    @contextmanager
    def reserve_up(self, config: Config, ended_by: str) -> Iterator[Reservation]:
        self._ended_by = ended_by
        yield _NoReservation()

    @asynccontextmanager
    async def open_up(self, config: Config, folder: Path) -> AsyncIterator[UpTestbed]:
        async with AsyncExitStack() as stack:
            plan, token = self._checked_plan, secrets.token_hex(32)
            client = await stack.enter_async_context(connected(config))
            machines = await _start_supervisors(client, config, folder, plan, token, stack, self._ended_by)
            network = await build_network(config, folder, plan, machines, workers_have_namespaces=False)
            await _start_switch(config, network, token, stack)

            async def wait_for_end() -> None:
                failures = [
                    wait_until_scheduler_ends(client, config.machines or ""),
                    *(machine.wait_until_lost() for machine in machines.values()),
                ]
                await supervise(_wait_for_end_request(list(machines.values())), failures)

            yield UpTestbed(network, Placement(), network.ranks, wait_for_end)

    @property
    def _checked_plan(self) -> Plan:
        assert self._plan is not None, "check comes first"
        return self._plan


async def _compare_scripts(client: Client, config: Config, plan: Plan) -> None:
    """Raise `MachinesError` unless all machines with workers have the script that this machine has."""
    check_script(config)
    folder, script = Path.cwd(), str(Path(config.script_command[0]).absolute())
    names = {name for host, name in plan.assignment.hosts.items() if host.startswith("w")}
    own = describe_script(script, str(folder))
    found = {
        name: await on_worker(client, plan.machines[name].worker, describe_script, script, str(folder))
        for name in sorted(names)
    }
    check_scripts(config.script_command[0], str(folder), own, found)


async def _wait_for_end_request(machines: Sequence[RemoteMachine]) -> None:
    waits = [asyncio.ensure_future(machine.end_requested.wait()) for machine in machines]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()


async def _start_switch(config: Config, network: MachinesNetwork, token: str, stack: AsyncExitStack) -> None:
    """Start the switch, and give the network an address of this machine that leads to it."""
    await network.switch.start()
    machine = network.switch.machine
    tls = client_context(config.machines or "")
    network.address = await stack.enter_async_context(p4runtime_tunnel(machine, token, tls))
    log.info("the switch is on %s; `./hotline status --switch %s`", machine.name, network.address)


async def _clean(client: Client, machine: Machine, ended_by: str) -> list[str]:
    removed = await on_worker(client, machine.worker, clean_machine, ended_by)
    if isinstance(removed, str):
        raise MachinesError(f"{machine.name}: {removed}")
    return removed


def _refuse_command_line() -> None:
    raise MachinesError("CLI=1: Mininet's command line is for its own network")


def _describe_all(machines: list[Machine]) -> dict[str, str | int]:
    """Return a description of all machines as if they were one, with the sums of their CPUs and memory."""
    descriptions = [machine.survey.description for machine in machines]
    first = descriptions[0]
    return {
        **{
            name: first[name] if all(each[name] == first[name] for each in descriptions) else "various"
            for name in ("system", "kernel", "cpu")
        },
        **{name: sum(int(each[name]) for each in descriptions) for name in ("cpus", "memory_mb")},
    }


async def _start_supervisors(
    client: Client,
    config: Config,
    run: Path,
    plan: Plan,
    token: str,
    stack: AsyncExitStack,
    ended_by: str | None = None,
) -> dict[str, RemoteMachine]:
    """Start a supervisor on each machine; `ended_by` is what ends `hotline up`, and None for a run."""
    machines: dict[str, RemoteMachine] = {}

    async def close_all() -> None:
        await asyncio.gather(*(machine.close() for machine in machines.values()))

    stack.push_async_callback(close_all)

    shared_file = shared_file_of(run, token)
    shared_file.touch()
    stack.callback(shared_file.unlink)

    async def start(generation: int, machine: Machine) -> None:
        address = host_of(machine.worker)
        spec = SupervisorSpec(
            config=config, scheduler=config.machines or "", run=run, generation=generation, token=token,
            host=address, ended_by=ended_by,
        )  # fmt: skip
        launched = await on_worker(client, machine.worker, launch_supervisor, spec.model_dump_json())
        if not isinstance(launched, LaunchedSupervisor):
            raise MachinesError(f"{machine.name}: {launched}")
        machines[machine.name] = await RemoteMachine.open(
            machine, launched, run, address, token, client_context(config.machines or "")
        )

    used = [plan.machines[name] for name in plan.assignment.machines]
    await gather_or_cancel(start(generation, machine) for generation, machine in enumerate(used))
    return machines


TESTBED = MachinesTestbed()
