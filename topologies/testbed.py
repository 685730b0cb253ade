"""Interface of the place where a run's processes are: this machine, or machines of a package."""

from __future__ import annotations

import asyncio
import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from analysis.record import ProgramUse, RunRecord
from experiment.errors import AgentFailed
from experiment.progress import Reporter
from experiment.run_config import Config
from experiment.session import MachineCounters
from softswitch.progress import Activity
from topologies.agent_process import Message
from topologies.agents import Agent
from topologies.cpu_counters import read_contention
from topologies.cpu_placement import Placement, PortCounters, program_use_of
from topologies.script_command import ScriptCommand
from topologies.switches import Counters

T = TypeVar("T")


class LineWriter(Protocol):
    """The part of `asyncio.StreamWriter` that a connection to a worker needs."""

    def write(self, data: bytes) -> None: ...

    def is_closing(self) -> bool: ...

    def close(self) -> None: ...

    async def wait_closed(self) -> None: ...

    def get_extra_info(self, name: str) -> Any:
        """Return information about the transport, which has no type."""
        ...


class WorkerService(Protocol):
    """A service that workers of scripts join by a Unix socket."""

    def listen(self, path: Path) -> AbstractAsyncContextManager[None]:
        """Serve at a socket that all users of this machine may use."""
        ...

    async def serve_connection(
        self, reader: asyncio.StreamReader, writer: LineWriter, machine_ranks: frozenset[int] | None = None
    ) -> None:
        """Serve a worker until its connection ends; `machine_ranks` are those that it may have, or None."""

    async def close_connections(self) -> None:
        """End all connections, and wait until what ends with them is over."""


class ScriptProcess(Protocol):
    """A process of a user's script, which may be on another machine."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    async def activity(self) -> Activity:
        """Return what the process does, on whichever machine it is."""
        ...

    async def wait(self) -> int: ...

    def signal_group(self, signal_number: signal.Signals) -> None:
        """Send a signal to the process and to all that it has started; do nothing if none is left."""


class AgentHost(Protocol):
    """A host of the network, in which agents and scripts run."""

    @property
    def switch_interface(self) -> str | None:
        """Return the switch's interface for the host; None if the host is on another machine."""

    def make_agent(self, name: str, module: str, settings: Message, log_dir: Path, **options: Any) -> Agent:
        """Make an agent, which has not been started; `options` are those of `Agent`."""
        ...

    async def start_script(self, command: ScriptCommand, log: Path) -> ScriptProcess:
        """Start a script, whose output goes to the file `log`."""
        ...


class ControlledSwitch(Protocol):
    """The switch of a network, whose process may be on another machine."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int | None: ...

    @property
    def restarts(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    async def end(self) -> None:
        """End the process in order, if it is running; `restart` starts another one."""

    async def restart(self) -> None:
        """Start a new process after the previous one has ended; then await `wait_until_listening`."""

    async def wait_until_listening(self) -> None: ...

    async def wait_until_failed(self) -> None:
        """Wait until the process ends although nothing has stopped it, and then raise SwitchFailed."""

    async def activity(self) -> Activity:
        """Return what the process does, on whichever machine it is."""
        ...

    async def counters(self) -> Counters | None: ...

    def frames_sent(self) -> int | None:
        """Return how many frames have left the switch's ports, or None if that is not known here."""


@contextmanager
def name_switch_rate(switch: ControlledSwitch, clock_ns: Callable[[], int]) -> Iterator[None]:
    """Add the rate at which the switch sent frames meanwhile to an AgentFailed of the block."""
    start_ns, frames_before = clock_ns(), switch.frames_sent()
    try:
        yield
    except AgentFailed as error:
        frames = switch.frames_sent()
        if frames is None or frames_before is None:
            raise
        rate = (frames - frames_before) * 1e9 / max(1, clock_ns() - start_ns)
        raise AgentFailed(f"{error}; meanwhile the switch carried {rate:,.0f} frames/s") from error


class TestbedNetwork(Protocol):
    """A running network. `workers` and `servers` are in order of their numbers."""

    @property
    def switch(self) -> ControlledSwitch:
        """Return the switch of all hosts, or the first spine."""
        ...

    @property
    def other_switches(self) -> Sequence[ControlledSwitch]:
        """Return further spines, and the leaves, if `switch` is a spine."""
        ...

    @property
    def workers(self) -> Sequence[AgentHost]: ...

    @property
    def servers(self) -> Sequence[AgentHost]: ...

    @property
    def address(self) -> str:
        """P4Runtime address of the switch, HOST:PORT."""
        ...

    async def publish_files(self, *paths: Path) -> None:
        """Make files and folders of the run's folder available to agents."""

    async def fetch_files(self, pattern: str) -> None:
        """Make the files that agents have written into parts/ available to this process."""

    async def remove_fetched_files(self) -> None:
        """Remove the files in parts/ of other machines than this one."""

    def serve_workers(self, rendezvous: WorkerService, path: Path) -> AbstractAsyncContextManager[None]:
        """Serve workers at a Unix socket of each machine with workers, for all of its users."""
        ...

    async def worker_clocks_ns(self) -> Sequence[int]:
        """Return how far each worker's monotonic clock is ahead of this process's, in ns."""
        ...

    async def read_contention(self, cpus: Iterable[int]) -> MachineCounters:
        """Read the counters of CPU time that the run did not get; `cpus` are those of this process."""
        ...

    async def read_processes(self, read: Callable[[int], T], pids: Mapping[str, int]) -> dict[str, T]:
        """Return what a function finds out about each process of the run, by its name."""
        ...

    def program_use(self, ports: Mapping[str, PortCounters], placement: Placement) -> ProgramUse:
        """Attribute the CPU time of the datapath's program in the kernel."""
        ...


class SingleMachine:
    """The part of a `TestbedNetwork` that is the same for all networks of this machine."""

    workers: Sequence[AgentHost]
    servers: Sequence[AgentHost]
    other_switches: Sequence[ControlledSwitch] = ()

    async def publish_files(self, *paths: Path) -> None:
        """Do nothing: agents see the runner's files."""

    async def fetch_files(self, pattern: str) -> None:
        """Do nothing: the runner sees the agents' files."""

    async def remove_fetched_files(self) -> None:
        """Do nothing: the files are the runner's."""

    def serve_workers(self, rendezvous: WorkerService, path: Path) -> AbstractAsyncContextManager[None]:
        return rendezvous.listen(path)

    async def worker_clocks_ns(self) -> Sequence[int]:
        return [0] * len(self.workers)

    async def read_contention(self, cpus: Iterable[int]) -> MachineCounters:
        return read_contention(cpus=cpus)

    async def read_processes(self, read: Callable[[int], T], pids: Mapping[str, int]) -> dict[str, T]:
        return {name: read(pid) for name, pid in pids.items()}

    def program_use(self, ports: Mapping[str, PortCounters], placement: Placement) -> ProgramUse:
        return program_use_of(ports, len(self.workers), len(self.servers), placement)


class UpdateCounter(Protocol):
    """The log collector, or those of several machines."""

    @property
    def updates(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Testbed:
    network: TestbedNetwork
    placement: Placement
    collector: UpdateCounter
    open_command_line: Callable[[], None]
    """Opens the command line of CLI=1, and returns when its user has left it."""
    watches: Sequence[Callable[[], Coroutine[object, None, None]]] = ()
    """Each waits for a failure that no process of the run explains, and raises its error."""


@dataclass(frozen=True, slots=True)
class UpTestbed:
    """The testbed of `hotline up`, whose workers are scripts outside of the network's hosts."""

    network: TestbedNetwork
    placement: Placement
    ranks: Mapping[str, Sequence[int]]
    """Machine -> ranks of the workers that join there; empty if all join on this machine."""
    wait_for_end: Callable[[], Coroutine[object, None, None]]
    """Waits until another process requests the end; raises `HotlineError` when the testbed has failed."""


class Reservation(Protocol):
    """A lock that a run holds so that no other run begins."""

    def set_folder(self, run: Path) -> None: ...


class TestbedKind(ABC):
    @abstractmethod
    def check(self, config: Config) -> None:
        """Raise `HotlineError` for what a run lacks, before anything is changed."""

    @abstractmethod
    def reserve(self, config: Config) -> AbstractContextManager[Reservation]:
        """Keep other runs from beginning, and remove what a killed one has left."""

    @abstractmethod
    def remove_killed(self, config: Config) -> list[str]:
        """Remove what killed runs have left, and return its names; a run in progress is not changed."""

    @abstractmethod
    def remove_remains(self, config: Config) -> None:
        """Remove what the next run would have to remove, as this process is about to end by force."""

    @abstractmethod
    def describe(self, config: Config, record: RunRecord) -> None:
        """Record the machine or machines, and the versions and the placement of what runs there."""

    @abstractmethod
    def open(
        self, config: Config, run: Path, record: RunRecord, reporter: Reporter
    ) -> AbstractAsyncContextManager[Testbed]:
        """Build the network, start the switch and the log collector, and remove all at the end."""

    @abstractmethod
    def check_up(self, config: Config) -> None:
        """Raise `HotlineError` for what `hotline up` lacks, before anything is changed."""

    @abstractmethod
    def reserve_up(self, config: Config, ended_by: str) -> AbstractContextManager[Reservation]:
        """Like `reserve`, for `hotline up`, which the command `ended_by` ends."""

    @abstractmethod
    def open_up(self, config: Config, folder: Path) -> AbstractAsyncContextManager[UpTestbed]:
        """Build the network and start the switch; workers have their addresses outside of namespaces."""
