"""The network of a run on several machines: hosts, files, clocks and counters of all of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from analysis.record import ProgramUse
from experiment.errors import AgentFailed
from experiment.run_config import Config
from experiment.session import MachineCounters
from foundation.concurrency import gather_or_cancel
from foundation.logs.parts import write_text
from hotline_machines.clocks import ClockReading, read_clock
from hotline_machines.errors import MachineLost
from hotline_machines.remote import RemoteMachine, RemoteProcess
from hotline_machines.supervisor.remains import NAMESPACE_PREFIX
from hotline_machines.switch import RemoteSwitch
from hotline_machines.workers import serve_workers
from softswitch.progress import Activity
from topologies.agent_process import Message
from topologies.agents import Agent
from topologies.cpu_counters import read_run_time_ms
from topologies.cpu_placement import Placement, PortCounters
from topologies.script_command import ScriptCommand
from topologies.testbed import WorkerService

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class RemoteHost:
    """A host of the network, and the machine on which it is."""

    name: str
    machine: RemoteMachine
    cpu: int | None
    relocate: Callable[[RemoteHost], Awaitable[None]]
    """Moves the host to another machine when its own is lost; raises `MachineLost` if it cannot."""

    @property
    def switch_interface(self) -> None:
        return None

    def make_agent(self, name: str, module: str, settings: Message, log_dir: Path, **options: Any) -> Agent:
        """Make an agent, which is started on the machine on which the host is then."""

        async def launch(arguments: Sequence[str], log_file: Path) -> RemoteProcess:
            config_file = arguments[-1]
            if self.machine.lost_event.is_set():
                try:
                    await self.relocate(self)
                except MachineLost as error:
                    raise AgentFailed(f"{name}: {error}") from None
                write_text(Path(config_file), json.dumps({**settings, "cpu": self.cpu}, indent=2))
            machine = self.machine
            if not machine.is_shared:
                data = machine.translate(Path(config_file).read_bytes())
                await machine.call("write_file", name=f"logs/{Path(config_file).name}", data=data)
            namespace = f"{NAMESPACE_PREFIX}{self.name}"
            return await machine.start_agent(namespace, module, arguments, log_file)

        async def read_process(pid: int) -> Activity:
            return await self.machine.read_activity(pid)

        return Agent(
            name, [], {**settings, "cpu": self.cpu}, log_dir, launch=launch, read_process=read_process,
            **options,
        )  # fmt: skip

    async def start_script(self, command: ScriptCommand, log: Path) -> RemoteProcess:
        """Start a script, at the path and in the working directory that it would have on this machine."""
        path, *arguments = command.script
        here = command._replace(script=(str(Path(path).absolute()), *arguments), cpu=self.cpu)
        return await self.machine.start_script(f"{NAMESPACE_PREFIX}{self.name}", here, Path.cwd(), log)


@dataclass(slots=True)
class MachinesNetwork:
    """A `topologies.testbed.TestbedNetwork` whose hosts are on several machines."""

    config: Config
    run: Path
    address: str
    switch: RemoteSwitch
    machines: dict[str, RemoteMachine]
    workers: list[RemoteHost]
    servers: list[RemoteHost]
    other_switches: Sequence[RemoteSwitch] = ()
    clocks: dict[str, ClockReading] = field(default_factory=dict)
    """Machine -> its last reading."""
    worst_clock_error_ns: dict[str, int] = field(default_factory=dict)
    collected: dict[str, int] = field(default_factory=dict)
    """Machine -> updates that its log collector has added up, as of the last fetch."""
    _fetched: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    """(machine, file) -> size and time of the last change when it was fetched."""

    @property
    def updates(self) -> int:
        return sum(self.collected.values())

    @property
    def reachable(self) -> list[RemoteMachine]:
        return [machine for machine in self.machines.values() if not machine.lost_event.is_set()]

    # -- files

    async def publish_files(self, *paths: Path) -> None:
        machines = [machine for machine in self.reachable if not machine.is_shared]
        files = [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*")))]
        for file in (file for file in files if file.is_file()):
            name, data = str(file.relative_to(self.run)), file.read_bytes()
            await gather_or_cancel(machine.call("write_file", name=name, data=data) for machine in machines)

    async def fetch_files(self, pattern: str) -> None:
        await self._for_each(lambda machine: self._fetch(machine, "parts", pattern))

    async def fetch_rest(self, is_accounted: bool) -> None:
        """Fetch all logs, and the files of a run that is not accounted for, before machines remove them."""
        pattern = "*.parquet" if is_accounted else "*"
        await self._for_each(lambda machine: self._fetch(machine, "parts", pattern))
        await self._for_each(lambda machine: self._fetch(machine, "logs", "s1.*"))

    async def remove_fetched_files(self) -> None:
        machines = [machine for machine in self.reachable if not machine.is_shared]
        await gather_or_cancel(machine.call("empty_folder", folder="parts") for machine in machines)
        self._fetched.clear()

    async def _fetch(self, machine: RemoteMachine, folder: str, pattern: str) -> None:
        self.collected[machine.name] = await machine.call("collected_updates")
        if machine.is_shared:
            return
        states = await machine.call("list_files", folder=folder, pattern=pattern)
        for name, state in states.items():
            key = (machine.name, name)
            # A mapped file that a process writes into may change without a new time.
            if self._fetched.get(key) != state or not name.endswith(".parquet"):
                data = await machine.call("read_file", name=name)
                partial = self.run / f"{name}.fetched"
                partial.write_bytes(data)
                partial.replace(self.run / name)
                self._fetched[key] = state

    # -- workers of scripts

    @property
    def ranks(self) -> dict[str, list[int]]:
        """Return the ranks of the workers on each machine that has any, by its name."""
        ranks: dict[str, list[int]] = {}
        for rank, host in enumerate(self.workers):
            ranks.setdefault(host.machine.name, []).append(rank)
        return ranks

    def serve_workers(self, rendezvous: WorkerService, path: Path) -> AbstractAsyncContextManager[None]:
        ranks = {self.machines[name]: frozenset(found) for name, found in self.ranks.items()}
        return serve_workers(rendezvous, path, ranks)

    # -- clocks

    async def worker_clocks_ns(self) -> Sequence[int]:
        await self._for_each(self._read_clock)
        return [self.clocks[host.machine.name].ahead_ns for host in self.workers]

    async def _read_clock(self, machine: RemoteMachine) -> None:
        reading = await read_clock(lambda: machine.call("clock"))
        self.clocks[machine.name] = reading
        self.worst_clock_error_ns[machine.name] = max(
            reading.error_ns, self.worst_clock_error_ns.get(machine.name, 0)
        )

    # -- counters

    async def read_contention(self, cpus: Iterable[int]) -> MachineCounters:
        found: dict[str, MachineCounters] = {}

        async def read(machine: RemoteMachine) -> None:
            found[machine.name] = await machine.call("read_contention")

        await self._for_each(read)
        return MachineCounters(
            at_ms=read_run_time_ms(),
            steal_ms=sum(each.steal_ms for each in found.values()),
            others_cpu_ms=sum(each.others_cpu_ms for each in found.values()),
            pressure_ms=sum(each.pressure_ms for each in found.values()),
            machines=found,
        )

    async def read_processes(self, read: Callable[[int], T], pids: Mapping[str, int]) -> dict[str, T]:
        pids_by_machine: dict[str, dict[str, int]] = {}
        for name, pid in pids.items():
            pids_by_machine.setdefault(self._machine_of_process(name).name, {})[name] = pid
        found: dict[str, T] = {}

        async def ask(machine: RemoteMachine) -> None:
            if machine.name in pids_by_machine:
                found.update(
                    await machine.call("read_processes", read=read, pids=pids_by_machine[machine.name])
                )

        await self._for_each(ask)
        return found

    def program_use(self, ports: Mapping[str, PortCounters], placement: Placement) -> ProgramUse:
        """Attribute the program's time to no agent: it runs where the switch's machine receives frames."""
        program_ns = sum(int(counters["program_ns"]) for counters in ports.values())
        return ProgramUse(workers=0.0, servers=0.0, apart=program_ns / 1e9)

    def describe_machines(self) -> dict[str, dict[str, Any]]:
        """Return by machine its clock (in µs, as last measured, and the largest error), hosts and loss."""
        found: dict[str, dict[str, Any]] = {}
        for name, machine in self.machines.items():
            hosts = (host for host in (*self.servers, *self.workers) if host.machine is machine)
            found[name] = {"hosts": [host.name for host in hosts]}
            if name in self.clocks:
                found[name]["clock_ahead_us"] = self.clocks[name].ahead_ns / 1e3
                found[name]["clock_error_us"] = self.worst_clock_error_ns[name] / 1e3
            if machine.lost_event.is_set():
                found[name]["lost"] = machine.lost_reason
        return found

    def describe_losses(self) -> Iterator[str]:
        """Say what is unknown since a machine is lost."""
        for machine in self.machines.values():
            hosts = [host.name for host in (*self.servers, *self.workers) if host.machine is machine]
            if machine.lost_event.is_set() and hosts:
                files = "" if machine.is_shared else ", whose files are gone with it"
                yield (
                    f"{machine.lost_error()}. It had {', '.join(hosts)}{files}: which of their last pushes "
                    "were applied, and what servers on it held, is unknown"
                )

    def _machine_of_process(self, name: str) -> RemoteMachine:
        if name == self.switch.name:
            return self.switch.machine
        # "ps-0", "worker-1", or "worker-1 of ARM" for a script.
        kind, _, number = name.partition(" ")[0].partition("-")
        return self.servers[int(number)].machine if kind == "ps" else self.workers[int(number) - 1].machine

    async def _for_each(self, ask: Callable[[RemoteMachine], Any]) -> None:
        """Ask all machines at the same time, except lost ones, whose agents count as ended."""

        async def ask_unless_lost(machine: RemoteMachine) -> None:
            try:
                await ask(machine)
            except MachineLost as error:
                log.debug("%s", error)

        await gather_or_cancel(ask_unless_lost(machine) for machine in self.reachable)
