"""The session that a run's phases use, real (`topologies.session`) or simulated."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
from pydantic import BaseModel, ConfigDict

from analysis.disturbance import reasons_of_machine
from analysis.record import Contention, MachineUse, ProgramUse, RunRecord, ServerUse
from experiment.progress import Reporter
from experiment.run_config import Config
from foundation.designs.interface import Arm
from foundation.logs.columns import AFTER_ALL_STEPS

START_AHEAD_NS = 20_000_000
"""Delay of a common start, within which every worker reads its command, in ns."""

HOT_SET_FILE = "hotset.parquet"

OnProgress = Callable[[str, int], None]  # worker, number of steps done


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    arm: Arm
    first_step: int
    steps: int
    period_ns: int = 0
    """Time from a step to the next in ns; 0 is a closed loop."""
    offsets_ns: tuple[int, ...] = ()
    """Delay of each worker after the common start in ns, as workers are asynchronous; empty for none."""
    round: int = -1  # -1, with load 0, outside of the measured rounds
    load: float = 0.0  # fraction of the capacity, as in `Config.loads`; 0 is a closed loop
    max_discarded_steps: int = AFTER_ALL_STEPS
    """Maximum number of steps that each worker discards at the start of the block, in the first `discard_ms`;
    by default there is none. A closed loop may be faster than expected: without the maximum, it could end
    before `discard_ms` has elapsed."""


class BlockResult(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    steps: int
    max_lateness_ns: int
    cpu_s: float
    updates_sent: int = 0
    retransmissions: int = 0
    loss: float | None


@dataclass(frozen=True, slots=True)
class MachineCounters:
    """Counters of CPU time that a run does not get; only differences between readings have a meaning."""

    at_ms: float
    """Time of the reading in ms: Unix time at the run's start, continued by the monotonic clock, as in the
    logs of agents."""
    steal_ms: float = 0.0
    others_cpu_ms: float = 0.0
    """CPU time in ms of all processes besides this one, its descendants and the kernel's threads."""
    pressure_ms: float = 0.0
    """Time in which some task waited for a CPU (PSI), in ms; 0 if the kernel does not report it."""
    machines: Mapping[str, MachineCounters] = field(default_factory=dict)
    """Counters by machine, of which the others are sums, in runs on several."""
    unix_offset_ms: float = 0.0
    """Unix time minus the monotonic clock, in ms. It changes if the Unix clock is set, and not by slewing."""

    @property
    def clock_step_ms(self) -> float:
        """Largest step of a machine's Unix clock in an increase, in ms."""
        return max(abs(self.unix_offset_ms), *(each.clock_step_ms for each in self.machines.values()), 0.0)

    def since(self, before: MachineCounters) -> MachineCounters:
        """Return the increase of each counter, at least 0: the time of an unreaped process can vanish."""
        return MachineCounters(
            at_ms=self.at_ms - before.at_ms,
            steal_ms=max(0.0, self.steal_ms - before.steal_ms),
            others_cpu_ms=max(0.0, self.others_cpu_ms - before.others_cpu_ms),
            pressure_ms=max(0.0, self.pressure_ms - before.pressure_ms),
            unix_offset_ms=self.unix_offset_ms - before.unix_offset_ms,
            machines={
                name: counters.since(before.machines[name])
                for name, counters in self.machines.items()
                if name in before.machines
            },
        )


@dataclass(slots=True)
class Session(ABC):
    """Workers, servers and a switch that are ready for RPCs, and the record of the run."""

    config: Config
    run: Path
    record: RunRecord
    reporter: Reporter
    next_step: int = 0
    """First unused step of the trace."""

    @property
    def n_workers(self) -> int:
        """Number of workers that take steps."""
        return self.config.workers

    @property
    def parts(self) -> Path:
        return self.run / "parts"

    @property
    def hot_set_file(self) -> Path:
        return self.run / HOT_SET_FILE

    def take_steps(self, number: int) -> int:
        first = self.next_step
        self.next_step += number
        return first

    # -- clocks

    @abstractmethod
    def clock_ns(self) -> int:
        """Return the time of the clock that paces steps, in ns."""

    @abstractmethod
    def budget_clock_s(self) -> float:
        """Return the time of the clock that `budget_s` refers to, in s; only differences have a meaning."""

    # -- steps

    @abstractmethod
    async def run_steps(
        self, planned: PlannedBlock, on_progress: OnProgress | None = None
    ) -> list[BlockResult]:
        """Let every worker run the planned steps; return the workers' reports."""

    @asynccontextmanager
    async def active(self, arm: Arm) -> AsyncIterator[None]:
        """Have servers collect from the switch, if the design's servers do so, for this arm only.

        Arms share the servers, whose work for one arm in another arm's block would count as the other arm's.
        """
        yield

    def has_ended(self, arm: Arm) -> bool:
        """Return whether no worker of an arm takes further steps."""
        return False

    @abstractmethod
    async def load(self, keys: Sequence[int]) -> None:
        """Load keys into the switch for the arms in which it aggregates, and announce them to the workers."""

    # -- measurements

    @abstractmethod
    async def write_updates(self) -> None:
        """Have servers write the updates that they have counted so far into the update logs."""

    @abstractmethod
    async def new_operations(self) -> pl.DataFrame:
        """Return the operations logged since the last call; blocks that were run again are not `measured`."""

    @abstractmethod
    async def server_use(self) -> dict[str, ServerUse]:
        """Return the servers' use since their start, by arm; CPU time is the sum over all arms."""

    @abstractmethod
    async def program_use(self) -> ProgramUse | None:
        """Return the CPU time of the datapath's program in the kernel since the start; None if unknown."""

    @abstractmethod
    async def run_queues_ns(self) -> dict[str, int]:
        """Return the time that each process has waited for a core since it started, in ns."""

    @abstractmethod
    def restarts(self) -> dict[str, int]: ...  # process -> number of restarts so far

    @abstractmethod
    async def read_machine(self) -> MachineCounters:
        """Read the counters of CPU time that the run did not get."""

    async def contention_since(self, before: MachineCounters) -> Contention:
        """Return what the run did not get since a reading, with the disturbances beyond their bounds."""
        elapsed = (await self.read_machine()).since(before)
        contention = Contention(
            duration_ms=elapsed.at_ms,
            steal_ms=elapsed.steal_ms,
            others_cpu_ms=elapsed.others_cpu_ms,
            pressure_ms=elapsed.pressure_ms,
            clock_step_ms=elapsed.clock_step_ms,
            machines={
                name: MachineUse(
                    cpus=self.record.machines[name]["cpus"],
                    steal_ms=counters.steal_ms,
                    others_cpu_ms=counters.others_cpu_ms,
                    pressure_ms=counters.pressure_ms,
                )
                for name, counters in elapsed.machines.items()
            },
        )
        contention.disturbed = reasons_of_machine(contention, self.record.machine["cpus"])
        return contention
