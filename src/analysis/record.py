"""`run.json`: the record of a run, with the runner's measurements of each block."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from math import nan
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import Self

from analysis.disturbed_blocks import CostSources
from analysis.statistics import ALPHA, Comparison
from foundation.designs.arms import arms_in_order, reference_of, unknown_arm_message
from foundation.designs.combination import Combination
from foundation.designs.recorded import RecordedDesign, remember
from foundation.errors import HotlineError, reason_of
from foundation.logs.columns import LOGS
from foundation.logs.parts import write_text
from foundation.logs.update_log import read_head, reading
from foundation.settings import first_error

Json: TypeAlias = dict[str, Any]

COMPILED_CODEC = "fast"  # the codec of compiled agents


class AnalysisError(HotlineError):
    """The record or logs of a run cannot be used; the message names the file and the reason."""


End = Literal["decided", "futility", "precision", "budget", "rounds", "script"]
"""Why no more rounds were run: at a look (`analysis.stopping`) every claim is decided, or more rounds would
decide none; intervals are narrow; the time budget; the requested number of rounds; the script has ended."""


class _RecordModel(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ServerUse(_RecordModel):
    packets: int = 0
    bytes: int = 0
    proc_wall_ns: int = 0
    proc_cpu_ns: int = 0
    cpu_s: float = 0.0
    """CPU time of the whole processes in s. This and the counters below are totals of all jobs."""
    bursts: int = 0
    """Number of bursts of datagrams that servers have read; 0 if it is unknown."""
    waits: int = 0
    """Number of times that a server found nothing to do, and slept until a datagram came."""
    commits: int = 0
    commit_ns: int = 0
    delayed: int = 0
    """Number of datagrams that waited for a commit; those of a burst wait together."""
    delay_ns: int = 0
    """Sum of these datagrams' waits, in ns, which PS_proc includes and `proc_wall_ns` does not."""


ANY = "any"
"""Placement of a process that may run on any CPU."""
_MAX_STRAY_SHARE = 0.01  # share of the program's time on other CPUs up to which it is ignored


class ProgramUse(_RecordModel):
    """CPU time of the kernel's program, in s, by the CPUs on which it ran.

    On a sender's CPU it is part of the sender's CPU time. On other CPUs it is part of the CPU time of any
    process that ran there, or of none.
    """

    workers: float
    """Time for workers' frames on the sender's CPU, which is part of the workers' CPU time."""
    servers: float
    on_workers: float = 0.0
    """Time for other hosts' frames on a CPU of the workers; `on_servers`: of the servers."""
    on_servers: float = 0.0
    apart: float = 0.0
    """Time on CPUs without agents."""

    @property
    def total(self) -> float:
        return self.workers + self.servers + self.on_workers + self.on_servers + self.apart

    @property
    def is_on_senders_cpus(self) -> bool:
        return self.workers + self.servers >= (1 - _MAX_STRAY_SHARE) * self.total

    @property
    def of_workers(self) -> float:
        """Part of the workers' CPU time that the program took, in s; NaN if it is unknown."""
        return self.workers if self.on_workers <= _MAX_STRAY_SHARE * self.total else nan

    @property
    def of_servers(self) -> float:
        """Part of the servers' CPU time that the program took, in s; NaN if it is unknown."""
        return self.servers if self.on_servers <= _MAX_STRAY_SHARE * self.total else nan


class MachineUse(_RecordModel):
    """CPU time of one of several machines that a block did not get, in ms."""

    cpus: int
    steal_ms: float
    others_cpu_ms: float
    pressure_ms: float


class Contention(_RecordModel):
    """CPU time that a period of measuring did not get, and what disturbed it beyond the bounds."""

    duration_ms: float = 0.0
    steal_ms: float = 0.0
    """CPU time that the hypervisor took, over all CPUs, in ms."""
    others_cpu_ms: float = 0.0
    pressure_ms: float = 0.0
    machines: dict[str, MachineUse] = Field(default_factory=dict)
    """Use of each machine, in runs on several; the three values above are sums."""
    clock_step_ms: float = 0.0
    """Size of the step of a machine's Unix clock, in ms."""
    disturbed: list[str] = Field(default_factory=list)


class Block(Contention):
    round: int
    load: float
    arm: str
    first_step: int
    steps: int
    period_ns: int  # between two steps of a worker; 0 in a closed loop
    loss: float | None
    """Mean log loss of the block's mini-batches; None without training."""
    max_lateness_ns: int
    fell_behind: bool
    """Whether the load generator was late by more than a period."""
    servers: ServerUse
    worker_cpu_s: float
    program_s: ProgramUse | None = None
    """CPU time of the switch's program in the kernel; None if a process is the switch."""
    run_queue_ms: dict[str, float]
    """Time that each process was runnable and did not run, in ms."""
    begun_us: int = 0
    ended_us: int = 0
    retransmissions: int = 0
    restarts: int = 0
    """Restarts of PSs and of the switch, whose earlier counts are lost."""
    worker_changes: int = 0  # number of workers that died or joined meanwhile


class AgentCost(_RecordModel):
    """CPU time of an RPC at agents that are connected without a switch, in µs."""

    worker_us: float
    server_us: float


class CapacityCheck(_RecordModel):
    when: Literal["middle", "end"]
    capacity: dict[str, float]
    contention: dict[str, Contention] = Field(default_factory=dict)
    """Arm -> what its measurement did not get; {} in records of before it was read."""


class Staleness(_RecordModel):
    """Ages, at their replacement, of the values that servers publish in the switch, in one arm."""

    copies: int
    p50_ms: float
    p99_ms: float
    oldest_ms: float
    bound_ms: float
    late: int
    """Number of copies that were older than `bound_ms`."""
    rpcs: int

    @classmethod
    def of(cls, servers: Iterable[Mapping[str, Any]]) -> Self:
        servers = list(servers)
        # Servers count copies in histogram bins by age; a bin's key is its upper limit in ns.
        copies: Counter[int] = Counter()
        for server in servers:
            copies.update({int(limit): n for limit, n in server["copies"].items()})
        limits = np.array(sorted(copies), np.int64)
        cumulative_counts = np.cumsum([copies[limit] for limit in limits.tolist()])
        total = int(cumulative_counts[-1]) if len(cumulative_counts) else 0
        p50, p99 = (
            float(limits[np.searchsorted(cumulative_counts, share * total)]) / 1e6 if total else 0.0
            for share in (0.5, 0.99)
        )
        oldest_ms = max(server["oldest_ns"] for server in servers) / 1e6
        return cls(
            copies=total, p50_ms=min(p50, oldest_ms), p99_ms=min(p99, oldest_ms), oldest_ms=oldest_ms,
            bound_ms=servers[0]["bound_ns"] / 1e6, late=sum(server["late"] for server in servers),
            rpcs=sum(server["rpcs"] for server in servers),
        )  # fmt: skip


class Accounting(_RecordModel):
    """The pushed lanes of all jobs after quiescing, by outcome."""

    sent: int
    applied: int
    lost: int
    unknown: int
    """Lanes in unanswered pushes of workers that ended early."""
    mismatched_keys: int
    """Keys whose values, at PS and switch, differ from what the design makes of the pushes that were sent."""
    overflows: int
    changed_arms: list[str] = Field(default_factory=list)
    collected: int | None = None
    """Updates at the parameter servers, as summed by the log collector; None in runs without a collector."""
    uncollected: int = 0
    dropped_rows: int = 0
    """Rows missing in the logs, because the disk was too slow."""
    restarts: dict[str, int] = Field(default_factory=dict)
    unreplayed: dict[str, int] = Field(default_factory=dict)
    """Dead worker -> keys with updates in its replay log that may be unreplayed."""
    combination: Combination = Combination.ADD
    """Combination of pushes that values were compared with. With NONE, `applied` and `lost` are 0."""


class WorkerChange(_RecordModel):
    """A worker that was killed, or took part after another one with its rank was killed."""

    worker: str
    change: Literal["died", "joined"]
    round: int = -1
    """Round of the block that was run then, from 0, or of the last one; -1 before the rounds."""
    rows: int = 0
    """Rows that a worker pushed when it joined, because the one before it had not sent them."""


class SimulatedArm(_RecordModel):
    workers_busy: float  # mean share of time that a worker uses the CPU
    servers_busy: float
    communication: float
    """Share of a step in which a worker waits for its pull and its push (Pan et al. Fig. 1)."""
    pull_us: float = 0.0  # mean time of a pull
    server_packets: float = 0.0  # number of packets that reach servers, by step of a worker
    uplink_bytes: float = 0.0
    """Bytes that racks or leaves send to and get from the P4 switch, or the spine, by step of a worker."""
    frames: int
    dropped: int  # by full queues
    lost: int  # on cables
    marked: int  # by ECN
    longest_kb: float
    """Length of the longest queue, in units of 1,024 bytes."""
    retransmissions: int


class Simulation(_RecordModel):
    rpcs: int
    packet_passes: int
    events: int
    virtual_s: float  # simulated time
    real_s: float
    """Time from the configuration to the last RPC, in s."""
    loop_s: float = 0.0  # real time of the event loop
    arms: dict[str, SimulatedArm] = Field(default_factory=dict)


class Virtual(_RecordModel):
    load: str
    own: dict[str, Comparison]
    """Comparisons with a core for each agent, and a dedicated switch."""
    shared: dict[str, Comparison]
    """Comparisons with the cores of the run's machine, to check the model against the measurement."""
    own_capacity: dict[str, float]
    shared_capacity: dict[str, float]
    network: Json
    sources: CostSources = ()
    """The blocks that the costs were measured in."""


def _cpus_of(place: object) -> set[int]:
    """Return the CPUs of a part of a placement; none for any CPU."""
    if isinstance(place, int):
        return {place}
    return set(place) if isinstance(place, list) else set()


class RunRecord(_RecordModel):
    target: str
    datapath: str | None = None
    config: Json
    machine: Json
    versions: dict[str, str]
    machines: dict[str, Json] = Field(default_factory=dict)
    """Machine -> its description, versions and hosts, in runs on several machines."""
    links: dict[str, Json] = Field(default_factory=dict)
    """Machine -> round trip and bandwidth of its link to the switch's machine before the run."""
    placement: Json
    """Switch, servers, workers and the rest -> CPU, or CPUs, or `ANY`."""
    seeds: dict[str, int]
    jobs: dict[str, int]
    agents: dict[str, AgentCost] = Field(default_factory=dict)
    """Codec -> cost of an RPC; of the run's codec and `COMPILED_CODEC` if these differ, else empty.

    Without numba, of the run's codec alone.
    """
    workload: Json = Field(default_factory=dict)
    phases_s: dict[str, float] = Field(default_factory=dict)
    capacity: dict[str, float] = Field(default_factory=dict)
    """Arm -> steps/s of all workers in a closed loop; loads are fractions of the minimum."""
    capacity_contention: dict[str, Contention] = Field(default_factory=dict)
    """Arm -> what the measurement of its capacity did not get."""
    empty_rpcs_contention: Contention | None = None
    offered_rate: dict[str, float] = Field(default_factory=dict)
    """Load -> steps/s of all workers."""
    blocks: list[Block] = Field(default_factory=list)
    repeated_blocks: list[Block] = Field(default_factory=list)
    worker_changes: list[WorkerChange] = Field(default_factory=list)
    ended_by: End | None = None
    alpha: float = ALPHA
    """Error rate of the intervals of differences at the first load, which depends on the look at which rounds
    ended. At other loads it is `ALPHA`, since looks use the first load only."""
    capacity_checks: list[CapacityCheck] = Field(default_factory=list)
    accounting: Accounting | None = None
    staleness: dict[str, Staleness] = Field(default_factory=dict)
    switch: Json | None = None
    registers: dict[str, int] = Field(default_factory=dict)
    """Register that the design shows, with its reduction -> what it had at the end, of all arms together."""
    simulation: Simulation | None = None
    virtual: Virtual | None = None
    memory_mb: dict[str, float] = Field(default_factory=dict)
    """Agent or switch -> its peak memory including mapped files, in units of 2^20 bytes."""
    recorded_design: RecordedDesign | None = None
    """The design and its arms, for a report where the design is not installed."""
    error: str | None = None

    @property
    def design(self) -> str:
        return reference_of(self.config["arms"]).design

    @property
    def has_separate_cpus(self) -> bool:
        """Whether each worker, each server and the switch had a CPU that no other of them had."""
        if self.simulation is not None:
            return False
        switch, servers, workers = map(_cpus_of, map(self.placement.get, ("switch", "servers", "workers")))
        expected = 1, self.config.get("servers", 0), self.config.get("workers", 0)
        are_enough = (len(switch), len(servers), len(workers)) == expected
        return are_enough and len(switch | servers | workers) == sum(expected)

    def arms_by_place(self) -> dict[str, Iterable[str]]:
        """Return the names of arms by the field that has them."""
        return {
            "jobs": self.jobs,
            "capacity": self.capacity,
            "blocks": (block.arm for block in (*self.blocks, *self.repeated_blocks)),
        }

    def repeated_spans_us(self) -> list[tuple[int, int]]:
        """Return (begin, end) of the repeated blocks, in µs of Unix time."""
        return [(block.begun_us, block.ended_us) for block in self.repeated_blocks]

    def first_attempts(self) -> list[Block]:
        """Return the first attempt of each block, when its mini-batches were new to the model."""
        attempts: dict[tuple[str, int, float], Block] = {}
        for block in (*self.repeated_blocks, *self.blocks):
            attempts.setdefault((block.arm, block.round, block.load), block)
        return list(attempts.values())

    def without_losses(self) -> Self:
        """Return the record without the losses of a model that is not trained, since pushes are not added."""
        blocks, repeated_blocks = (
            [block.model_copy(update={"loss": None}) for block in each]
            for each in (self.blocks, self.repeated_blocks)
        )
        return self.model_copy(update={"blocks": blocks, "repeated_blocks": repeated_blocks})

    def write(self, run: Path) -> None:
        write_text(run / "run.json", self.model_dump_json(indent=2) + "\n")


def capacity_by_arm(capacity: Mapping[str, float]) -> dict[str, float]:
    rates_by_arm: dict[str, list[float]] = {}
    for arm in arms_in_order(capacity):
        # A repetition counts as a measurement of the arm that it repeats.
        rates_by_arm.setdefault((arm.is_repetition and arm.reference) or arm.name, []).append(
            capacity[arm.name]
        )
    return {arm: sum(rates) / len(rates) for arm, rates in rates_by_arm.items()}


def capacity_of_baseline(capacity: Mapping[str, float]) -> float:
    return capacity_by_arm(capacity)[reference_of(capacity).name]


def min_capacity(capacity: Mapping[str, float]) -> float:
    return min(capacity_by_arm(capacity).values())


def read_record(run: Path) -> RunRecord:
    file = run / "run.json"
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        raise AnalysisError(f"{run}: not a run folder, there is no run.json") from None
    except NotADirectoryError:
        raise AnalysisError(f"{run}: expected the folder of a run, got a file") from None
    except OSError as error:
        raise AnalysisError(f"{file}: cannot be read: {reason_of(error)}") from error
    try:
        record = RunRecord.model_validate_json(text)
    except ValidationError as error:
        raise AnalysisError(f"{file}: {_describe(error)}") from None
    if record.recorded_design is not None:
        remember(record.recorded_design)
    for place, arms in record.arms_by_place().items():
        if message := unknown_arm_message(arms):
            raise AnalysisError(f"{file}: {place}: {message}")
    return record


def _describe(error: ValidationError) -> str:
    missing = [
        str(each["loc"][0]) for each in error.errors() if each["type"] == "missing" and len(each["loc"]) == 1
    ]
    if missing:
        return f"expected the record of a run, got JSON without {', '.join(missing)}"
    message = first_error(error)
    return message if error.errors()[0]["loc"] else f"expected the record of a run, got {message}"


def open_log(run: Path, log: str) -> pl.LazyFrame:
    """Return a log of a finished run; raise `AnalysisError` or `DataError` if its header is none of a log."""
    file = run / f"{log}.parquet"
    if not file.exists():
        raise AnalysisError(f"{run}: has no {file.name}; a finished run has one")
    read_head(file)  # refuses what is no regular file
    with reading(file):
        rows = pl.scan_parquet(file, glob=False)
        missing = [name for name in LOGS[log] if name not in rows.collect_schema()]
    if missing:
        raise AnalysisError(f"{file}: expected the log {log}, got a file without its column {missing[0]}")
    return rows


def scan_log(run: Path, log: str) -> pl.LazyFrame:
    """Return a log of a finished run, without the rounds before the measured ones, which are negative."""
    return open_log(run, log).filter(pl.col("round") >= 0)
