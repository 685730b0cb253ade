"""The results of a run, `summary.json`, computed from its record and its logs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict, ValidationError

from analysis.disturbance import (
    BlockKey,
    blocks_without_costs,
    disturbed_blocks,
    invalidated_kinds,
    is_outside,
    key_of,
    undisturbed_capacities,
)
from analysis.disturbed_blocks import CostSources, DisturbedBlocks, withheld_by
from analysis.learning import (
    common_reports,
    compare_mean_losses,
    learning,
    mean_log_losses,
    mean_loss,
    read_curves,
)
from analysis.metrics import (
    METRICS,
    RPCS,
    Kind,
    Log,
    Metric,
    Width,
    block_metrics,
    estimates,
    find_widest,
    latencies,
    log_expressions,
    measured_rows,
    widths,
)
from analysis.metrics import differences as differences_of
from analysis.record import (
    AgentCost,
    AnalysisError,
    Block,
    CapacityCheck,
    ProgramUse,
    RunRecord,
    ServerUse,
    Staleness,
    Virtual,
    WorkerChange,
    open_log,
    scan_log,
)
from analysis.statistics import ALPHA, Comparison
from foundation.designs.arms import arm as arm_of
from foundation.designs.arms import (
    arms_in_order,
    has_hot_set,
    lead_arm,
    measured_arms,
    reference_of,
    unknown_arm_message,
)
from foundation.designs.combination import Combination
from foundation.designs.interface import Arm
from foundation.logs.columns import CLASSES, has_load, load_name
from foundation.logs.update_log import reading
from foundation.settings import first_error


class _SummaryModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class LatencyStatistics(_SummaryModel):
    """Statistics of a latency in µs; None without measurements."""

    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


class ArmSummary(_SummaryModel):
    """Statistics of an arm: server use over whole blocks, latencies of measured steps, extra metrics."""

    model_config = ConfigDict(frozen=True, extra="allow")
    steps: int
    rpcs_per_step: float
    op_latency_us: dict[str, LatencyStatistics]
    rpc_latency_us: LatencyStatistics
    rpc_latency_by_class_us: dict[str, LatencyStatistics]
    rpcs_per_step_by_class: dict[str, float]
    metrics_us: dict[str, float | None]
    """Part of an RPC (`foundation.logs.columns.METRICS`), or `switch`, its residence there -> mean in µs."""
    ps_proc_us_per_step: dict[str, float]
    """Clock (wall, cpu) -> time of handling requests per step, over all PS agents, in µs."""
    ps_packets_per_step: float
    ps_bytes_per_step: float
    ps_cpu_s: float
    durability: dict[str, float] | None = None
    step_us: float | None
    """Mean duration of a step, from the pull's scheduled start to the push's last response."""
    step_latency_us: LatencyStatistics
    loss: float | None

    def value_of(self, metric: Metric) -> float | None:
        node: Any = self  # in the loop, the model, dict or number that the path leads to
        for name in path_of(metric):
            node = node.get(name) if isinstance(node, dict) else getattr(node, name, None)
        return None if node is None else float(node)


class Updates(_SummaryModel):
    sent: int
    applied: int
    lost: int
    unknown: int
    mismatched_keys: int
    collected: int | None = None
    uncollected: int = 0
    combination: Combination = Combination.ADD


class LoadSummary(_SummaryModel):
    offered_rate: float | None
    alpha: float = ALPHA
    rounds: int
    rounds_fallen_behind: int
    arms: dict[str, ArmSummary]
    differences: dict[str, dict[str, Comparison]]
    block_steps: int = 0  # measured steps of an arm in a round, minimum over arms and rounds
    blocks_repeated: int = 0
    blocks_disturbed: int = 0
    """Number of blocks that were disturbed in their last attempt, and count nevertheless."""
    busy: DisturbedBlocks | None = None
    """The disturbed blocks of all arms, if they are too many to compare times; else None."""
    invalidated_by: dict[str, dict[Kind, DisturbedBlocks]] = {}
    """Arm -> kind of metric -> disturbed blocks, if there are too many to claim a difference."""

    @property
    def lacks_intervals(self) -> bool:
        comparisons = [comparison for metrics in self.differences.values() for comparison in metrics.values()]
        return bool(comparisons) and all(comparison.low is None for comparison in comparisons)


class ProgramShare(_SummaryModel):
    workers: float  # share of the workers' CPU time that the program used
    servers: float  # the same of the servers' CPU time
    cores: ProgramUse = ProgramUse(workers=0.0, servers=0.0)
    """Cores that the program used, in CPU seconds per second."""


class Summary(_SummaryModel):
    """The results of a run; fields that its record also has are described in `analysis.record`."""

    target: str
    offered_rate: dict[str, float]
    capacity: dict[str, float]
    rate: float | None = None  # configured steps/s that loads are fractions of, instead of the capacity
    hot_update_share: float | None
    """Share of pushed lanes that the switch served in the leading arm, in the measured phase."""
    hot_part: float | None = None
    """Share of the model's parameters that fit into the hot set; None without a hot set."""
    updates: Updates
    overflows: int
    dropped_rows: int = 0
    durable: str | None = None  # the setting `journal_sync`; None without a journal
    restarts: dict[str, int] = {}
    worker_changes: list[WorkerChange] = []
    changed_arms: list[str] = []
    empty_rpc_latency_us: LatencyStatistics
    """Latency of the emulator itself: of RPCs without lanes, through the switch to a PS and back."""
    last_loss: float | None = None
    chance_loss: float | None = None
    vector: int | None = None  # number of parameters of the vector in lockstep runs
    dims: tuple[int, ...] = (1,)
    """Values of each row, of which tables may have different numbers."""
    registers: dict[str, int] = {}
    learning: dict[str, Comparison] = {}
    reports: int | None = None  # number of reports that all arms have
    last_reported: dict[str, float] = {}  # arm -> loss of the last of these reports
    steps_per_s: dict[str, float] = {}  # arm -> rate of all workers in a run of a script
    program_share: ProgramShare | None = None
    cpus: int | None = None
    has_separate_cpus: bool = False
    ended_by: str | None = None
    alpha: float = ALPHA
    budget_s: float | None = None
    widest: Width | None = None
    """The interval width of pulls or pushes that is farthest from its goal."""
    repeated: dict[str, dict[str, int]] = {}  # arm -> disturbance -> number of repeated blocks
    capacity_checks: list[CapacityCheck] = []
    undisturbed_capacities: list[dict[str, float]] = []
    """The measurements of the capacity that were not disturbed; of an arm without such, all of them."""
    rpcs: int | None = None
    packet_passes: int | None = None
    virtual_s: float | None = None
    real_s: float | None = None
    loop_s: float | None = None
    staleness: Staleness | None = None
    agents: dict[str, AgentCost] = {}
    virtual: Virtual | None = None
    arms: dict[str, ArmSummary]
    loads: dict[str, LoadSummary]

    @property
    def is_simulated(self) -> bool:
        return self.virtual_s is not None

    @property
    def reference(self) -> Arm:
        return reference_of(self.capacity)

    @property
    def lead(self) -> Arm | None:
        return lead_arm(self.reference.design)

    @property
    def change(self) -> str:
        """Noun for what the lead arm does: offload, unless its switch takes no accounted work."""
        is_accounted, lead = self.updates.combination is not Combination.NONE, self.lead
        return (
            "offload" if lead is None or (lead.settings.aggregates and is_accounted) else f"arm {lead.name}"
        )

    @property
    def is_sound(self) -> bool:
        updates = self.updates
        return not (updates.lost or updates.mismatched_keys or self.overflows or self.changed_arms)

    @property
    def capacities(self) -> list[dict[str, float]]:
        """All measurements of the capacity, by arm: before the rounds, and the checks."""
        return [self.capacity, *(check.capacity for check in self.capacity_checks)]

    @property
    def measured_capacities(self) -> list[dict[str, float]]:
        """The measurements of the capacity to which costs are fitted: the undisturbed ones, if known."""
        return self.undisturbed_capacities or self.capacities

    @property
    def run_arms(self) -> tuple[Arm, ...]:
        return tuple(
            measured_arm for measured_arm in arms_in_order(self.arms) if self.arms[measured_arm.name].steps
        )


def summarise(run: Path, record: RunRecord) -> Summary:
    return _summarise(run, record)


def summarise_for_costs(run: Path, record: RunRecord) -> tuple[RunRecord, Summary]:
    """Return the record and the results of the blocks to which costs are fitted."""
    without = blocks_without_costs(record)
    blocks = [block for block in record.blocks if key_of(block) not in without]
    record = record.model_copy(update={"blocks": blocks})
    return record, _summarise(run, record, without)


def _summarise(run: Path, record: RunRecord, without: Sequence[BlockKey] = ()) -> Summary:
    """Compute the results of a record, whose logs also have rows `without` which they are computed."""
    if record.accounting is None or not record.blocks:
        reason = record.error or "no reason recorded"
        raise AnalysisError(f"{run}: the run ended before its report ({reason})")
    is_included = is_outside(without)
    rpc, operations = (_read_log(run, log).filter(is_included) for log in ("rpc", "operations"))
    empty_rpcs = open_log(run, "rpc").filter(pl.col("op") == "empty").collect()
    account = record.accounting
    if not account.combination.trains:
        record = record.without_losses()
    first_attempts = record.first_attempts()
    last_round = max(block.round for block in first_attempts)
    lead = lead_arm(reference_of(record.capacity).design)
    loads = {
        load_name(load): _summarise_load(load, rpc, operations, record) for load in _loads_in_order(record)
    }
    return Summary(
        target=record.target,
        offered_rate=record.offered_rate,
        capacity=record.capacity,
        rate=record.config.get("rate"),
        hot_update_share=_hot_update_share(rpc, lead),
        hot_part=_hot_part(record, lead),
        updates=Updates.model_validate(account.model_dump(include=set(Updates.model_fields))),
        overflows=account.overflows,
        dropped_rows=account.dropped_rows,
        **({} if record.simulation is None else record.simulation.model_dump(exclude={"events", "arms"})),
        durable=record.config.get("recovery", {}).get("journal_sync"),
        restarts=account.restarts,
        worker_changes=record.worker_changes,
        changed_arms=account.changed_arms,
        empty_rpc_latency_us=_to_distribution(empty_rpcs.select(**latencies()).row(0, named=True)),
        last_loss=mean_loss(block for block in first_attempts if block.round == last_round),
        chance_loss=record.workload.get("chance_loss"),
        vector=record.workload.get("vector"),
        dims=_dims(record),
        registers=record.registers,
        **(_script_fields(run, record) if record.config.get("script") else _training_fields(record)),
        program_share=_program_share(record.blocks),
        cpus=None if record.simulation else record.machine.get("cpus"),
        has_separate_cpus=record.has_separate_cpus,
        ended_by=record.ended_by,
        alpha=record.alpha,
        budget_s=record.config.get("budget_s"),
        widest=find_widest(width for name, load in loads.items() for width in widths(name, load.differences)),
        repeated=_repeat_reasons(record.repeated_blocks),
        capacity_checks=record.capacity_checks,
        undisturbed_capacities=undisturbed_capacities(record),
        staleness=None if lead is None else record.staleness.get(lead.name),
        agents=record.agents,
        virtual=record.virtual,
        arms=_summarise_arms(rpc, operations, record.blocks, first_attempts),
        loads=loads,
    )


def _read_log(run: Path, log: str) -> pl.DataFrame:
    file = run / f"{log}.parquet"
    with reading(file):
        rows = scan_log(run, log).collect()
    if message := unknown_arm_message(rows["arm"].unique().drop_nulls().cast(pl.String)):
        raise AnalysisError(f"{file}: {message}")
    return rows


def read_summary(run: Path) -> Summary:
    file = run / "summary.json"
    try:
        summary = Summary.model_validate_json(file.read_bytes())
    except OSError as error:
        raise AnalysisError(f"{run}: has no summary.json, `./hotline report` makes it") from error
    except ValidationError as error:
        raise AnalysisError(f"{file}: {first_error(error)}") from error
    if message := unknown_arm_message(summary.capacity):
        raise AnalysisError(f"{file}: capacity: {message}")
    return summary


def _training_fields(record: RunRecord) -> dict[str, Any]:  # fields of `Summary`, as from `_script_fields`
    # In simulated runs, repeated arms are equal to the bit, so they show no spread.
    return {
        "learning": learning(record.first_attempts(), record.alpha, with_interval=record.simulation is None)
    }


def _dims(record: RunRecord) -> tuple[int, ...]:
    dim: int = record.config.get("dim", 1)
    # Rows of the setting `dim` are without padding.
    return (dim,) if dim > 1 else tuple(record.workload.get("dims", [1]))


def _script_fields(run: Path, record: RunRecord) -> dict[str, Any]:
    curves = read_curves(run)
    reports = common_reports(curves)
    steps = defaultdict[str, int](int)
    for block in record.blocks:
        steps[block.arm] += block.steps
    seconds = _seconds_of_steps(run, record)
    return {
        "learning": compare_mean_losses(mean_log_losses(curves)),
        "reports": reports,
        "last_reported": {arm: losses[reports - 1] for arm, losses in curves.items()} if reports else {},
        "steps_per_s": {
            arm.name: steps[arm.name] / seconds[arm.name] for arm in arms_in_order(steps) if seconds[arm.name]
        },
    }


def _seconds_of_steps(run: Path, record: RunRecord) -> dict[str, float]:
    """Return the time of each arm's blocks in s, where the last block ends with its last step."""
    # If the script ends in a block, the block goes on until all processes of the script have exited, which
    # may take arbitrarily long.
    seconds, last_block = defaultdict[str, float](float), dict[str, Block]()
    for block in record.blocks:
        seconds[block.arm] += block.duration_ms / 1e3
        last_block[block.arm] = block
    steps = open_log(run, "operations").filter(pl.col("op").cast(pl.String) == "step")
    end_times = steps.group_by(pl.col("arm").cast(pl.String)).agg(pl.col("end_us").max()).collect()
    for arm, end_us in end_times.rows():
        if arm in last_block and last_block[arm].begun_us < end_us < last_block[arm].ended_us:
            seconds[arm] -= (last_block[arm].ended_us - end_us) / 1e6
    return seconds


def _loads_in_order(record: RunRecord) -> list[float]:
    """Return the loads with blocks, in their configured order; the report's answer is for the first."""
    order = list(record.offered_rate)
    return sorted(
        {block.load for block in record.blocks},
        key=lambda load: (order.index(name) if (name := load_name(load)) in order else len(order), load),
    )


def _hot_update_share(rpc: pl.DataFrame, lead: Arm | None) -> float | None:
    if lead is None:
        return None
    pushes = rpc.filter((pl.col("arm") == lead.name) & (pl.col("op") == "push") & pl.col("measured"))
    lanes = int(pushes["lanes"].cast(pl.Int64).sum())
    return float(pushes["served"].cast(pl.Int64).sum()) / lanes if lanes else None


def _hot_part(record: RunRecord, lead: Arm | None) -> float | None:
    top_k, parameters = record.config.get("top_k"), record.workload.get("parameters")
    holds_part = lead is not None and has_hot_set(lead.design)
    return min(top_k / parameters, 1.0) if holds_part and top_k and parameters else None


def _summarise_load(
    load: float, rpc: pl.DataFrame, operations: pl.DataFrame, record: RunRecord
) -> LoadSummary:
    blocks = [block for block in record.blocks if block.load == load]
    rpc, operations = rpc.filter(has_load(load)), operations.filter(has_load(load))
    first_attempts = [block for block in record.first_attempts() if block.load == load]
    # Only the first load decides when the run ends (`analysis.stopping`), which takes a smaller error rate.
    alpha = record.alpha if load == _loads_in_order(record)[0] else ALPHA
    differences = differences_of(estimates(rpc, operations, blocks), alpha)
    if record.simulation is not None:
        # Repetitions measure noise, which simulated runs do not have.
        differences = {
            name: comparisons for name, comparisons in differences.items() if not arm_of(name).is_repetition
        }
    disturbed = disturbed_blocks(blocks)
    invalidated = _invalidated_by_arm(blocks, differences)
    if (withheld := withheld_by(_sources_of_simulation(record))) is not None:
        # Costs change how long something takes, and hardly how many packets are sent.
        invalidated = {arm: {"time": withheld, "cpu": withheld} for arm in differences}
    return LoadSummary(
        offered_rate=record.offered_rate.get(load_name(load)),
        alpha=alpha,
        rounds=len({block.round for block in blocks}),
        rounds_fallen_behind=len({block.round for block in blocks if block.fell_behind}),
        arms=_summarise_arms(rpc, operations, blocks, first_attempts),
        differences=differences,
        block_steps=_block_steps(operations),
        blocks_repeated=sum(block.load == load for block in record.repeated_blocks),
        blocks_disturbed=disturbed.disturbed,
        busy=disturbed if disturbed.are_too_many else None,
        invalidated_by=invalidated,
    )


def _sources_of_simulation(record: RunRecord) -> CostSources:
    sources = record.config.get("hosts", {}).get("sources", ()) if record.simulation else ()
    return tuple(map(DisturbedBlocks.model_validate, sources))


def _invalidated_by_arm(
    blocks: Sequence[Block], arms: Iterable[str]
) -> dict[str, dict[Kind, DisturbedBlocks]]:
    disturbed_by_arm = {}
    for name in arms:
        compared = [block for block in blocks if block.arm in (name, arm_of(name).reference)]
        if disturbed_by_kind := invalidated_kinds(compared):
            disturbed_by_arm[name] = disturbed_by_kind
    return disturbed_by_arm


def _block_steps(operations: pl.DataFrame) -> int:
    steps = operations.filter(pl.col("measured") & (pl.col("op") == "step")).group_by("arm", "round").len()
    return min(steps["len"].to_list(), default=0)


def _repeat_reasons(blocks: Iterable[Block]) -> dict[str, dict[str, int]]:
    counts_by_arm = defaultdict[str, Counter[str]](Counter)
    for block in blocks:
        counts_by_arm[block.arm].update(block.disturbed)
    return {arm: dict(counts) for arm, counts in counts_by_arm.items()}


def _summarise_arms(
    rpc: pl.DataFrame, operations: pl.DataFrame, blocks: list[Block], first_attempts: list[Block]
) -> dict[str, ArmSummary]:
    summary_metrics = [metric for metric in METRICS.values() if metric.summary_path is not None]
    logs: dict[Log, pl.DataFrame] = {"operations": operations, "rpc": rpc}
    log_values = [
        measured_rows(log, rows)
        .group_by("arm")
        .agg(log_expressions(log, summary_metrics))
        .rows_by_key("arm", named=True, unique=True)
        for log, rows in logs.items()
    ]
    classes = measured_rows("rpc", rpc).group_by("arm", "class").agg(pl.len().alias("rpcs"), **latencies())
    class_values = classes.rows_by_key(["arm", "class"], named=True, unique=True)
    summaries = {}
    for arm in measured_arms(reference_of(block.arm for block in blocks).design):
        arm_blocks = [block for block in blocks if block.arm == arm.name]
        values = block_metrics(arm_blocks, summary_metrics)
        for values_of_log in log_values:
            values |= values_of_log.get(arm.name, {})
        loss = mean_loss(block for block in first_attempts if block.arm == arm.name)
        values_by_class = {name: class_values.get((arm.name, name), {}) for name in CLASSES}
        summaries[arm.name] = _summarise_arm(arm_blocks, values, values_by_class, loss)
    return summaries


def _summarise_arm(
    blocks: Sequence[Block],
    values: Mapping[str, float | None],
    values_by_class: Mapping[str, Mapping[str, float]],
    loss: float | None,
) -> ArmSummary:
    use, rpcs_per_step = total_use(blocks), values.get(RPCS.name) or 0.0
    rpcs = sum(values_of_class.get("rpcs", 0) for values_of_class in values_by_class.values())
    fields: dict[str, Any] = {  # fields of `ArmSummary`
        "steps": sum(block.steps for block in blocks),
        "rpc_latency_by_class_us": {
            name: _to_distribution(values_of_class) for name, values_of_class in values_by_class.items()
        },
        "rpcs_per_step_by_class": {
            name: rpcs_per_step * values_of_class.get("rpcs", 0) / max(rpcs, 1)
            for name, values_of_class in values_by_class.items()
        },
        "ps_cpu_s": use.cpu_s,
        "step_us": values.get("step_mean"),
        "loss": loss,
    }
    for metric in METRICS.values():
        if metric.summary_path is not None:
            *path, name = path_of(metric)
            parent = fields
            for key in path:
                parent = parent.setdefault(key, {})
            value = values.get(metric.name)
            parent[name] = 0.0 if value is None and metric.kind == "count" else value
    if not use.commits:
        fields["durability"] = None
    return ArmSummary.model_validate(fields)


def path_of(metric: Metric) -> list[str]:
    assert metric.summary_path is not None, metric.name
    return (metric.summary_path or metric.name).split(".")


def total_use(blocks: Iterable[Block]) -> ServerUse:
    blocks = list(blocks)
    return ServerUse(
        **{field: sum(getattr(block.servers, field) for block in blocks) for field in ServerUse.model_fields}
    )


def _program_share(blocks: list[Block]) -> ProgramShare | None:
    programs = [block.program_s for block in blocks if block.program_s is not None]
    worker_s, server_s = sum(block.worker_cpu_s for block in blocks), total_use(blocks).cpu_s
    if len(programs) < len(blocks) or not worker_s or not server_s:
        return None
    used_s = {name: sum(getattr(program, name) for program in programs) for name in ProgramUse.model_fields}
    duration_s = sum(block.duration_ms for block in blocks) / 1e3
    return ProgramShare(
        workers=used_s["workers"] / worker_s,
        servers=used_s["servers"] / server_s,
        cores=ProgramUse(**{name: s / duration_s if duration_s else 0.0 for name, s in used_s.items()}),
    )


def _to_distribution(values: Mapping[str, float]) -> LatencyStatistics:
    return LatencyStatistics.model_validate(
        {name: values.get(name) for name in LatencyStatistics.model_fields}
    )
