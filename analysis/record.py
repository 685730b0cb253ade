"""`run.json`: what a run was, and what only the runner knows of each block."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analysis.statistics import Comparison
from foundation.designs.arms import baseline_of, ordered
from foundation.errors import HotlineError
from foundation.logs.parts import write_text

FAST = "fast"
"""The codec of compiled agents."""


class AnalysisError(HotlineError):
    """The record or logs of a run cannot be used; the message names the file and the reason."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ServerUse(_Model):
    """What all PS agents together did for one job in a block, or over a run."""

    packets: int = 0
    bytes: int = 0
    proc_wall_ns: int = 0
    proc_cpu_ns: int = 0
    cpu_s: float = 0.0
    """CPU of the whole processes, in s; and below what was so of all jobs."""
    commits: int = 0
    """Of what durable PSs keep."""
    commit_ns: int = 0
    delayed: int = 0
    """Datagrams that waited for a commit, with their burst."""
    delay_ns: int = 0
    """How long all of them did: part of their PS_proc, and not of `proc_wall_ns`."""


ANY = "any"
"""Placed on no CPU of its own."""
_STRAY = 0.01
"""Part of the program's time that may be elsewhere before it is said."""


class ProgramUse(_Model):
    """CPU time of the kernel's program, in s, by where it ran.

    On its senders' CPUs it ran in their time. On others' it ran in that of whoever was there, or of nobody.
    """

    workers: float
    """For frames of workers on the sender's CPU: part of the workers' CPU time. Likewise of the servers."""
    servers: float
    on_workers: float = 0.0
    """For others' frames on a CPU of the workers. Likewise of the servers."""
    on_servers: float = 0.0
    apart: float = 0.0
    """On CPUs that no agent has."""

    @property
    def total(self) -> float:
        """All of it."""
        return self.workers + self.servers + self.on_workers + self.on_servers + self.apart

    @property
    def is_its_senders(self) -> bool:
        """Whether it ran on its senders' CPUs, but for a stray frame."""
        return self.workers + self.servers >= (1 - _STRAY) * self.total

    @property
    def of_workers(self) -> float:
        """What of the workers' CPU time was the program's; NaN where that is not known."""
        return self.workers if self.on_workers <= _STRAY * self.total else nan

    @property
    def of_servers(self) -> float:
        """Likewise of the servers' CPU time."""
        return self.servers if self.on_servers <= _STRAY * self.total else nan


class Block(_Model):
    """One arm at one load in one round."""

    round: int
    load: float
    arm: str
    first_step: int
    steps: int
    """Steps of all workers."""
    period_ns: int
    """Between two steps of one worker."""
    loss: float | None
    """Mean log loss of the block's mini-batches; None for a load that trains nothing."""
    behind_ns: int
    """Largest lateness of any worker's operation."""
    fell_behind: bool
    """Whether the load generator was late by more than a period."""
    servers: ServerUse
    worker_cpu_s: float
    program_s: ProgramUse | None = None
    """What the switch took, and of whom; None where a process is the switch."""
    run_queue_ms: dict[str, float]
    """Time each process was runnable and did not run."""
    begun_us: int = 0
    """Unix time, and below when it had ended."""
    ended_us: int = 0
    duration_ms: float = 0.0
    steal_ms: float = 0.0
    """CPU time that the hypervisor took, all CPUs together."""
    others_cpu_ms: float = 0.0
    """CPU time of processes that are not the run's."""
    pressure_ms: float = 0.0
    """Time in which some task waited for a CPU."""
    retransmissions: int = 0
    restarts: int = 0
    """Of PSs and of the switch, which had counted something before that is missing here."""
    disturbed: list[str] = Field(default_factory=list)
    """What was beyond its bounds (`analysis.disturbance`)."""


class AgentCost(_Model):
    """CPU time that an RPC takes of agents on their own, without a switch between them, in µs."""

    worker_us: float
    server_us: float


class CapacityCheck(_Model):
    """What every arm carried later in the run."""

    when: Literal["middle", "end"]
    capacity: dict[str, float]
    """Arm -> steps/s of all workers in a closed loop."""


class Accounting(_Model):
    """Where the pushed lanes are after quiescing, over all jobs."""

    sent: int
    applied: int
    """By the parameter servers and by the switch."""
    lost: int
    unknown: int
    """Unanswered pushes of workers that ended early."""
    mismatched_keys: int
    """Keys where what workers sent is not, modulo 2^32, what PS and switch hold."""
    overflows: int
    """Additions at the switch that overflowed by the sign rule."""
    changed_arms: list[str] = Field(default_factory=list)
    """Arms whose offload or proxy was not theirs at the end: somebody changed the switch meanwhile."""
    collected: int | None = None
    """Updates at the parameter servers, as the log collector added them up; None before there was one."""
    uncollected: int = 0
    """Those that it was not sent, and that are in the logs none the less."""
    dropped_rows: int = 0
    """Of the logs, because the disk was too slow."""
    restarts: dict[str, int] = Field(default_factory=dict)
    """How often PSs, or the switch, ended and were started again; those that were not are left out."""
    owed: dict[str, int] = Field(default_factory=dict)
    """Keys of which workers that have died owe the servers something, as their replay logs have it."""


class SimulatedArm(_Model):
    """One arm of a run in virtual time: its closed loop, and its cables in all phases."""

    workers_busy: float
    """Share of the time that a worker had its core."""
    servers_busy: float
    communication: float
    """Share of a step in which a worker waits for its pull and its push ([DDL] Fig. 1)."""
    frames: int
    """That were put into the queue of a cable."""
    dropped: int
    """Because the queue was full."""
    lost: int
    """By faults."""
    marked: int
    longest_kb: float
    """The longest queue, in 1,024 bytes."""
    retransmissions: int


class Simulation(_Model):
    """What a run in virtual time was."""

    rpcs: int
    """Answered, in all arms and phases."""
    packet_passes: int
    """Frames through the P4 program."""
    events: int
    virtual_s: float
    real_s: float
    """From the configuration to the last RPC."""
    loop_s: float = 0.0
    """Of it, in the compiled event loop."""
    arms: dict[str, SimulatedArm] = Field(default_factory=dict)


class Virtual(_Model):
    """What virtual time says of a real run's first load: arm *hot* against *neither*, by metric."""

    load: str
    own: dict[str, Comparison]
    """Every agent on a core of its own, and the switch a device."""
    shared: dict[str, Comparison]
    """The cores as they were: to be held against what was measured."""
    own_capacity: dict[str, float]
    """Arm -> steps/s of all workers in a closed loop; and the same with the cores as they were."""
    shared_capacity: dict[str, float]
    network: dict[str, Any]
    """The device, as the table [network] of a simulation has it."""


class RunRecord(_Model):
    """The whole of `run.json`."""

    target: str
    datapath: str | None = None
    """Where the softswitch processed packets: `kernel` or `sockets`; None where it did not tell."""
    config: dict[str, Any]
    machine: dict[str, Any]
    versions: dict[str, str]
    placement: dict[str, Any]
    """Switch, servers, workers and the rest -> CPU, or CPUs, or `ANY`."""
    seeds: dict[str, int]
    jobs: dict[str, int]
    """Arm -> job."""
    agents: dict[str, AgentCost] = Field(default_factory=dict)
    """Codec -> what an RPC takes; of the run's, where that is not fast, and of fast beside it."""
    workload: dict[str, Any] = Field(default_factory=dict)
    phases_s: dict[str, float] = Field(default_factory=dict)
    """Duration of each phase."""
    capacity: dict[str, float] = Field(default_factory=dict)
    """Arm -> steps/s of all workers in a closed loop; loads are fractions of the least."""
    offered_rate: dict[str, float] = Field(default_factory=dict)
    """Load -> steps/s of all workers."""
    blocks: list[Block] = Field(default_factory=list)
    """Each arm at each load in each round, as it was measured at last."""
    repeated_blocks: list[Block] = Field(default_factory=list)
    """Those that were disturbed and run again, which `blocks` has instead."""
    ended_by: Literal["precision", "budget", "rounds", "script"] | None = None
    """Why there were no more rounds."""
    capacity_checks: list[CapacityCheck] = Field(default_factory=list)
    accounting: Accounting | None = None
    """None where the run was interrupted before."""
    switch: dict[str, Any] | None = None
    """What the switch counted at its ports (softswitch's `SwitchCounters`); None where it does not tell."""
    simulation: Simulation | None = None
    """None of a run with real processes."""
    virtual: Virtual | None = None
    """None where the run was not simulated as well."""
    memory_mb: dict[str, float] = Field(default_factory=dict)
    """Agent, or switch -> the most memory that it had, in 2^20 bytes, files that it has mapped among it."""
    error: str | None = None
    """Why the run ended early."""

    @property
    def design(self) -> str:
        """Name of the design whose arms were run."""
        return baseline_of(self.config["arms"]).design

    def repeated(self) -> list[tuple[int, int]]:
        """From when to when (Unix time, µs) blocks lasted that were run again."""
        return [(block.begun_us, block.ended_us) for block in self.repeated_blocks]

    def first_attempts(self) -> list[Block]:
        """Of blocks that were run again the first run, when their mini-batches were new to the model."""
        found: dict[tuple[str, int, float], Block] = {}
        for block in (*self.repeated_blocks, *self.blocks):
            found.setdefault((block.arm, block.round, block.load), block)
        return list(found.values())

    def write(self, run: Path) -> None:
        """Write `run.json` into a run folder."""
        write_text(run / "run.json", self.model_dump_json(indent=2) + "\n")


def capacity_by_arm(capacity: Mapping[str, float]) -> dict[str, float]:
    """Arm -> steps/s, of each its mean with the arms that only repeat it, which are left out."""
    found: dict[str, list[float]] = {}
    for arm in ordered(capacity):
        found.setdefault((arm.is_repetition and arm.baseline) or arm.name, []).append(capacity[arm.name])
    return {arm: sum(each) / len(each) for arm, each in found.items()}


def capacity_of_baseline(capacity: Mapping[str, float]) -> float:
    """In steps/s, of the arm that others are compared with."""
    return capacity_by_arm(capacity)[baseline_of(capacity).name]


def min_capacity(capacity: Mapping[str, float]) -> float:
    """In steps/s, of the arm that carries least: what all arms carry."""
    return min(capacity_by_arm(capacity).values())


def read_record(run: Path) -> RunRecord:
    """Read a run folder's `run.json`; AnalysisError when it is missing or not one of ours."""
    file = run / "run.json"
    try:
        return RunRecord.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        raise AnalysisError(f"{run}: not a run folder, there is no run.json") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise AnalysisError(f"{file}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
