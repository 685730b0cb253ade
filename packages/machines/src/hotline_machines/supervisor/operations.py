"""Carry out a run's requests on a machine; the methods are called by name."""

from __future__ import annotations

import asyncio
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeVar

from experiment.errors import SwitchFailed
from experiment.folder import chown_to_sudo_user
from experiment.run_config import Config, Faults
from experiment.session import MachineCounters
from foundation.concurrency import in_thread
from foundation.logs.collector import UpdateLogCollector
from hotline_machines.channel import SwitchEnd
from hotline_machines.security import client_context
from hotline_machines.supervisor.children import DIES_WITH_PARENT, Children
from hotline_machines.supervisor.interfaces import build_host, build_port, move_port
from hotline_machines.supervisor.link import measure_link
from hotline_machines.supervisor.worker_sockets import WorkerSockets
from hotline_machines.wiring import HostWiring, PortWiring
from softswitch.kernel.probe import probe
from topologies.agent_launcher import AgentLauncher
from topologies.cpu_counters import read_contention
from topologies.script_command import ScriptCommand
from topologies.switches import Counters, TargetSwitch, switch_of

T = TypeVar("T")
_FileState = tuple[int, int]  # size in bytes, time of the last change in ns


class Operations:
    """The state of a run on this machine. `folder` is its folder here; `send` sends events to the run."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        collector: UpdateLogCollector,
        launcher: AgentLauncher,
        send: Callable[[object], None],
    ) -> None:
        self._scheduler = config.machines or ""
        self._config, self._folder, self._collector, self._send = config, folder, collector, send
        self.children = Children(launcher, send)
        self.worker_sockets = WorkerSockets(send)
        self._switch: TargetSwitch | None = None
        self._switch_task: asyncio.Task[None] | None = None
        self._launches = 0

    # -- interfaces

    async def build_hosts(self, hosts: Sequence[HostWiring]) -> None:
        for host in hosts:
            await in_thread(build_host, host, self._config.workers, self._config.servers)

    async def build_ports(self, ports: Sequence[PortWiring]) -> None:
        for port in ports:
            await in_thread(build_port, port)

    async def move_port(self, port: PortWiring) -> None:
        await in_thread(move_port, port)

    # -- agents

    async def start_agent(self, number: int, namespace: str, module: str, arguments: Sequence[str]) -> int:
        return await self.children.start(number, namespace, module, arguments)

    async def write(self, number: int, data: bytes) -> None:
        self.children.write(number, data)

    async def close_input(self, number: int) -> None:
        self.children.close_input(number)

    async def kill(self, number: int) -> None:
        self.children.kill(number)

    # -- scripts

    async def listen(self, path: str) -> None:
        await self.worker_sockets.listen(Path(path))

    async def stop_listening(self, path: str) -> None:
        self.worker_sockets.stop(Path(path))

    async def start_script(self, number: int, namespace: str, command: ScriptCommand, folder: str) -> int:
        chown_to_sudo_user(self._folder / "parts")  # scripts run as that user, and write there
        return await self.children.start_script(number, namespace, command, Path(folder))

    async def signal_group(self, number: int, signal_number: signal.Signals) -> None:
        self.children.signal_group(number, signal_number)

    # -- switch

    async def start_switch(self, interfaces: Mapping[int, str], cpu: int | None) -> int:
        """Start the switch without waiting for it, and return its process id; its end is an event."""
        if self._switch is None:
            config = self._config.model_copy(update={"datapath": self._choose_datapath()})
            self._switch = switch_of(config, self._folder / "logs", cpu)
            self._switch.prefix = DIES_WITH_PARENT
            self._switch.interfaces = interfaces
            self._switch.launch()
        else:
            await self._switch.restart()
        self._launches += 1
        self._switch_task = asyncio.ensure_future(self._report_end(self._switch, self._launches))
        assert self._switch.pid is not None
        return self._switch.pid

    def _choose_datapath(self) -> str:
        """Return the datapath for "auto": the kernel where it can be.

        The switch itself would choose the sockets, as it cannot know that frames of a tunnel or a cable have
        finished checksums. All hosts finish them (`interfaces.build_host`).
        """
        if self._config.datapath != "auto" or self._config.faults != Faults():
            return self._config.datapath
        return "kernel" if probe() is None else "sockets"

    async def end_switch(self) -> None:
        """End the switch in order; its end is no event then."""
        if self._switch is not None:
            await self._stop_reporting()
            await self._switch.end()

    async def wait_for_switch(self) -> None:
        assert self._switch is not None
        await self._switch.wait_until_listening()

    async def switch_counters(self) -> Counters | None:
        return None if self._switch is None else await self._switch.counters()

    async def _report_end(self, switch: TargetSwitch, launch: int) -> None:
        try:
            await switch.wait_until_failed()
        except SwitchFailed as error:
            self._send(SwitchEnd(launch, str(error)))

    async def _stop_reporting(self) -> None:
        if self._switch_task is not None:
            self._switch_task.cancel()
            await asyncio.gather(self._switch_task, return_exceptions=True)

    # -- measurements

    async def clock(self) -> int:
        return time.monotonic_ns()

    async def read_contention(self) -> MachineCounters:
        return read_contention()

    async def read_processes(self, read: Callable[[int], T], pids: Mapping[str, int]) -> dict[str, T]:
        return {name: read(pid) for name, pid in pids.items()}

    async def collected_updates(self) -> int:
        return self._collector.updates

    async def measure_link(self, host: str, port: int, token: str) -> dict[str, float]:
        """Measure the link to another supervisor: round trip in µs, and bandwidth in Mbit/s."""
        return await measure_link(host, port, token, client_context(self._scheduler))

    # -- files of the run's folder, by their names in it

    async def write_file(self, name: str, data: bytes) -> None:
        file = self._folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    async def list_files(self, folder: str, pattern: str) -> dict[str, _FileState]:
        found = (file for file in (self._folder / folder).iterdir() if fnmatch(file.name, pattern))
        return {
            f"{folder}/{file.name}": ((state := file.stat()).st_size, state.st_mtime_ns)
            for file in found
            if file.is_file()
        }

    async def read_file(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    async def empty_folder(self, folder: str) -> None:
        for file in (self._folder / folder).iterdir():
            file.unlink()

    # -- end

    async def end(self, is_shared: bool) -> None:
        """End all processes, and remove the folder unless the run itself sees it."""
        self.worker_sockets.close()
        await self._stop_reporting()
        await self.children.end()
        if self._switch is not None:
            await in_thread(self._switch.stop)
        if not is_shared:
            shutil.rmtree(self._folder, ignore_errors=True)
