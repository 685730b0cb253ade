"""A run under way, as its phases see it.

`topologies.session` has it in real processes, `simulator.session` in virtual time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from pydantic import BaseModel, ConfigDict

from analysis.record import ProgramUse, RunRecord, ServerUse
from experiment.config import Config
from experiment.progress import Reporter
from foundation.designs.interface import Arm
from foundation.logs.columns import AFTER_ALL_STEPS

START_AHEAD_NS = 20_000_000
"""How far in the future a common start is set, so that every worker has read the command before."""

OnProgress = Callable[[str, int], None]
"""(worker's name, steps that it has done)."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Steps of the trace that every worker is to run for an arm."""

    arm: Arm
    first_step: int
    steps: int
    """Of each worker."""
    period_ns: int = 0
    """From a step to the next; 0 is a closed loop."""
    offsets_ns: tuple[int, ...] = ()
    """Delay of each worker behind the common start, as workers of asynchronous training are not in step; none
    where there are none."""
    round: int = -1
    """Below 0 it is not of the measured phase."""
    load: float = 0.0
    """As a part of what all arms carry."""
    discarded: int = AFTER_ALL_STEPS
    """Steps of each worker after which all are measured, also before `discard_ms` is over: a closed loop may
    be faster than was expected."""


class Ran(BaseModel):
    """What a worker tells of the steps that it has run."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    steps: int
    behind_ns: int
    cpu_s: float
    updates_sent: int = 0
    """Pushed lanes."""
    retransmissions: int = 0
    loss: float | None
    """None for a load that trains nothing."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What takes the CPUs from a run: counters at some time, of which only differences mean anything."""

    at_ms: float
    """Of real time, Unix time."""
    steal_ms: float = 0.0
    """Taken by the hypervisor from the CPUs of this process, all together."""
    others_cpu_ms: float = 0.0
    """CPU time of all processes but this one, those that it has started, and the kernel's."""
    pressure_ms: float = 0.0
    """Time in which some task waited for a CPU (PSI); 0 where the kernel does not tell."""

    def since(self, before: Reading) -> Reading:
        """What has been added; at least 0, as a process that nobody waits for takes its time with it."""
        return Reading(
            at_ms=self.at_ms - before.at_ms,
            steal_ms=max(0.0, self.steal_ms - before.steal_ms),
            others_cpu_ms=max(0.0, self.others_cpu_ms - before.others_cpu_ms),
            pressure_ms=max(0.0, self.pressure_ms - before.pressure_ms),
        )


@dataclass(slots=True)
class Session(ABC):
    """Workers, servers and a switch that are ready for RPCs, and the books of the run."""

    config: Config
    run: Path
    """Its folder."""
    record: RunRecord
    reporter: Reporter
    next_step: int = 0
    """First step of the trace that nothing has used yet."""

    @property
    def parts(self) -> Path:
        """Folder of the agents' part files."""
        return self.run / "parts"

    @property
    def hot_set(self) -> Path:
        """The hot set's file."""
        return self.run / "hotset.parquet"

    def take_steps(self, number: int) -> int:
        """Reserve steps of the trace; the first of them."""
        first = self.next_step
        self.next_step += number
        return first

    # -- clocks

    @abstractmethod
    def clock_ns(self) -> int:
        """Time on the clock that steps are run by, ns."""

    @abstractmethod
    def spent_s(self) -> float:
        """What counts against `budget_s`."""

    # -- steps

    @abstractmethod
    async def run_steps(self, planned: Planned, on_progress: OnProgress | None = None) -> list[Ran]:
        """Let every worker run what is planned; what each of them tells."""

    def has_ended(self, arm: Arm) -> bool:
        """Whether no worker of an arm takes any more steps."""
        return False

    @abstractmethod
    async def load(self, keys: Sequence[int]) -> None:
        """Have these keys in the switch for the arms in which it aggregates, and its workers know of it."""

    # -- what hosts tell

    @abstractmethod
    async def write_updates(self) -> None:
        """Have servers write the updates that they have counted so far into the update logs."""

    @abstractmethod
    async def new_operations(self) -> pl.DataFrame:
        """What workers have logged since the last call, without blocks that were run again."""

    @abstractmethod
    async def server_use(self) -> dict[str, ServerUse]:
        """What servers have done for each arm since they started; their CPU is in every arm's."""

    @abstractmethod
    def program_use(self) -> ProgramUse | None:
        """What the kernel's program has taken of the agents since the start; None where it is not told."""

    @abstractmethod
    def run_queues_ns(self) -> dict[str, int]:
        """How long each process has waited for a core since it started."""

    @abstractmethod
    def restarts(self) -> dict[str, int]:
        """How often processes have been started again; those that were not are left out."""

    @abstractmethod
    def read_machine(self) -> Reading:
        """What has taken the CPUs from the run."""
