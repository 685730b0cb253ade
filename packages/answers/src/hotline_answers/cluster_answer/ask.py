"""Predict a cluster's capacity with the hot set in the switch and without, and by size of the hot set."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.record import Staleness
from experiment.phases.workload import lanes_per_step
from experiment.progress import Reporter
from foundation.designs.arms import baseline_and_lead
from foundation.designs.collect import NAME as COLLECT
from foundation.designs.interface import Arm
from foundation.errors import DataError
from foundation.settings import Strict
from hotline_answers.cluster_answer.arm_results import OffloadComparison, compare_arms
from hotline_answers.cluster_answer.capacity import (
    CalculationCheck,
    CapacityModel,
    UplinkGain,
    next_size_to_check,
    smallest_sufficient_size,
    uplink_gains,
)
from hotline_answers.cluster_answer.cluster import (
    MAX_RPCS,
    Cluster,
    PartCheck,
    check_fits,
    config_for,
    max_workers,
    part_of,
    read_data,
    with_dims_of_log,
)
from hotline_answers.cluster_answer.dims import DimEffect, dim_effects
from hotline_answers.cluster_answer.hotset import (
    ReadLog,
    ScoredWorkload,
    hot_set_file,
    short_log_warning,
    simulated_part,
    split_log,
    workload_for,
)
from hotline_answers.cluster_answer.sensitivity import InputEffect, input_effects
from hotline_answers.cluster_answer.sentences import headline, rows_sentence, sentences
from hotline_answers.cluster_answer.sizes import PackingCounter, PackingCounts, Size, sizes_for
from simulator.config import SimulationConfig
from simulator.devices import DEVICES
from simulator.experiment import simulated_capacities, temporary_run

_MAX_CHECKS = 3  # further sizes that are simulated


class ClusterAnswer(Strict):
    cluster: Cluster
    simulated_workers: int
    keys_per_step: float
    notes: tuple[str, ...]
    headline: str
    sentences: tuple[str, ...]
    sides: OffloadComparison
    sizes: tuple[Size, ...]
    stops_at: int
    """Size beyond which a larger hot set adds less than 3 % to the capacity."""
    checks: tuple[CalculationCheck, ...]
    """Comparisons of a size's calculated and simulated capacity, in order; if the last check has failed,
    calculated capacities are estimates."""
    part_check: PartCheck | None
    uplinks: tuple[UplinkGain, ...]
    effects: tuple[InputEffect, ...]
    """Gains with other values of an input, those of the input that changes it most first."""
    ages: Staleness | None = None
    other_dims: tuple[DimEffect, ...] = ()
    """Results with rows of other dims, if the cluster has none; () for a switch that has no such rows."""
    rows: str = ""
    """Sentence on the dim that was assumed and what others would make of it; "" if it was given."""


def answer(cluster: Cluster, reporter: Reporter, max_rpcs: float = MAX_RPCS) -> ClusterAnswer:
    limit = max_workers(cluster, cluster.keys_per_step, max_rpcs)
    config = config_for(cluster, part_of(cluster, limit))
    notes = list[str]()
    data, log = read_data(cluster, config, reporter, notes.append), None
    if data is not None:
        cluster = with_dims_of_log(cluster, config, data)
        limit = max_workers(cluster, lanes_per_step(data), max_rpcs)
        config = config_for(cluster, part_of(cluster, limit))
        log = split_log(data)
    workload = workload_for(config, log, reporter)
    counter = PackingCounter(config, workload)
    if not counter.keys_with_updates:
        raise DataError(
            f"{cluster.data}: expected keys in the first half of the mini-batches, which the hot set is "
            "chosen from, got none"
        )
    if cluster.top_k is not None:
        check_fits(cluster, cluster.top_k, counter.max_rows)
    top_k = min(cluster.requested_top_k, counter.keys_with_updates, counter.max_rows)
    config = config.model_copy(update={"top_k": top_k})
    part = simulated_part(workload, top_k)
    with (
        hot_set_file(part, top_k) as hot_set,
        temporary_run(config, part.trace, reporter, hot_set=hot_set) as simulated,
    ):
        comparison = compare_arms(config, simulated.record, simulated.summary)
        staleness = simulated.record.staleness.get(COLLECT)
        # A short simulation may end before a copy is replaced.
        ages = staleness if staleness is not None and staleness.copies else None
    counts_by_size = _count_packets(
        counter,
        sizes_for(top_k, counter.keys_with_updates, counter.max_rows),
        reporter,
    )
    model = CapacityModel(
        config, comparison.baseline, counts_by_size[0], comparison.offload, counts_by_size[top_k]
    )
    uplinks = uplink_gains(model, counts_by_size[0], counts_by_size[top_k], cluster)
    simulated_capacities = {0: comparison.baseline.capacity, top_k: comparison.offload.capacity}
    sizes, checks = _check_capacities(config, workload, model, counts_by_size, simulated_capacities, reporter)
    part_check = (
        None if config.workers == cluster.workers else _check_part(cluster, config, log, comparison, reporter)
    )
    sufficient_size = smallest_sufficient_size(sizes[1:])  # without size 0, which is no hot set
    keys = lanes_per_step(workload.trace)
    other_dims = _other_dims(cluster, workload, keys, comparison, reporter)
    return ClusterAnswer(
        cluster=cluster,
        simulated_workers=config.workers,
        keys_per_step=keys,
        notes=tuple(notes),
        headline=headline(comparison, sufficient_size, short_log_warning(log, config.workers)),
        sentences=tuple(
            sentences(
                cluster,
                config,
                keys,
                comparison,
                sizes,
                sufficient_size,
                checks,
                part_check,
                uplinks,
                ages,
                log,
            )
        ),
        sides=comparison,
        sizes=tuple(sizes),
        stops_at=sufficient_size.top_k,
        checks=checks,
        part_check=part_check,
        uplinks=uplinks,
        effects=_effects(cluster, log, keys, comparison, counter, model, reporter),
        ages=ages,
        other_dims=other_dims,
        rows="" if cluster.has_dims else rows_sentence(other_dims, cluster.switch),
    )


def _other_dims(
    cluster: Cluster, workload: ScoredWorkload, keys_per_step: float, comparison: OffloadComparison,
    reporter: Reporter,
) -> tuple[DimEffect, ...]:  # fmt: skip
    if cluster.has_dims or not DEVICES[cluster.switch].has_rows:
        return ()

    def simulate(config: SimulationConfig, workload: ScoredWorkload) -> tuple[float, float]:
        return capacities(config, workload, config.top_k, reporter)

    with reporter.phase("other dims", 1.0):
        return dim_effects(cluster, workload, keys_per_step, comparison, simulate)


def _effects(
    cluster: Cluster, log: ReadLog | None, keys_per_step: float, comparison: OffloadComparison,
    counter: PackingCounter, model: CapacityModel, reporter: Reporter,
) -> tuple[InputEffect, ...]:  # fmt: skip
    max_size = min(counter.keys_with_updates, counter.max_rows)
    sizes = (max(comparison.top_k // 2, 1), min(2 * comparison.top_k, max_size))
    memory = [
        (size, model.capacity(counter.count(size)) / comparison.baseline.capacity)
        for size in dict.fromkeys(sizes)
        if size != comparison.top_k
    ]

    def simulate(config: SimulationConfig, log: ReadLog | None) -> float:
        workload = workload_for(config, log, reporter)
        baseline, offload = capacities(config, workload, config.top_k, reporter)
        return offload / baseline

    with reporter.phase("other inputs", 1.0):
        return input_effects(cluster, log, keys_per_step, comparison.gain, comparison.top_k, memory, simulate)


def _count_packets(
    counter: PackingCounter, sizes: Sequence[int], reporter: Reporter
) -> dict[int, PackingCounts]:
    counts_by_size = dict[int, PackingCounts]()
    with reporter.phase("sizes", 1.0) as phase:
        for top_k in sizes:
            counts_by_size[top_k] = counter.count(top_k)
            phase.update(len(counts_by_size) / len(sizes))
    return counts_by_size


def _check_capacities(
    config: SimulationConfig, workload: ScoredWorkload, model: CapacityModel,
    counts_by_size: dict[int, PackingCounts], simulated_capacities: dict[int, float], reporter: Reporter,
) -> tuple[list[Size], tuple[CalculationCheck, ...]]:  # fmt: skip
    checks = list[CalculationCheck]()

    def sizes() -> list[Size]:
        return [
            model.size(top_k, counts, simulated_capacities.get(top_k))
            for top_k, counts in counts_by_size.items()
        ]

    def simulate(top_k: int) -> None:
        calculated = model.capacity(counts_by_size[top_k])
        simulated_capacities[top_k] = capacity_with(config, workload, top_k, reporter)
        checks.append(CalculationCheck(top_k, calculated, simulated_capacities[top_k]))
        model.calibrate(counts_by_size[top_k], simulated_capacities[top_k])

    def sufficient_top_k() -> int:
        return smallest_sufficient_size(size for size in sizes() if size.top_k).top_k

    while len(checks) < _MAX_CHECKS and (not checks or checks[-1].has_failed):
        top_k = next_size_to_check(
            list(simulated_capacities), sufficient_top_k(), [size for size in counts_by_size if size]
        )
        if top_k is None:
            break
        simulate(top_k)
    # The headline has the capacity of this size.
    if sufficient_top_k() not in simulated_capacities:
        simulate(sufficient_top_k())
    return sizes(), tuple(checks)


def _check_part(
    cluster: Cluster,
    config: SimulationConfig,
    log: ReadLog | None,
    comparison: OffloadComparison,
    reporter: Reporter,
) -> PartCheck:
    """Simulate half of the part's workers, with half of its share of each server, and compare capacities."""
    smaller_config = config_for(cluster, part_of(cluster, config.workers // 2))
    workload = workload_for(smaller_config, log, reporter)
    baseline, offload = capacities(smaller_config, workload, comparison.top_k, reporter)
    errors = comparison.baseline.capacity / baseline - 1, comparison.offload.capacity / offload - 1
    return PartCheck(
        workers=smaller_config.workers, baseline=baseline, offload=offload, error=max(errors, key=abs)
    )


def capacities(
    config: SimulationConfig, workload: ScoredWorkload, top_k: int, reporter: Reporter
) -> tuple[float, float]:
    """Return the simulated capacities of the whole cluster without and with offload, in steps/s."""
    baseline, lead = _capacities(config, workload, top_k, reporter, baseline_and_lead(config.design))
    return baseline, lead


def capacity_with(
    config: SimulationConfig, workload: ScoredWorkload, top_k: int, reporter: Reporter
) -> float:
    """Return the simulated capacity of the whole cluster with offload, in steps/s."""
    _, lead = baseline_and_lead(config.design)
    [capacity] = _capacities(config, workload, top_k, reporter, [lead])
    return capacity


def _capacities(
    config: SimulationConfig, workload: ScoredWorkload, top_k: int, reporter: Reporter, arms: Sequence[Arm]
) -> list[float]:
    names = tuple(arm.name for arm in arms)
    config = config.model_copy(update={"rounds": 1, "top_k": top_k, "arms": names})
    workload = simulated_part(workload, top_k)
    with hot_set_file(workload, top_k) as hot_set:
        capacity = simulated_capacities(config, workload.trace, reporter, hot_set)
    return [capacity[name] / config.hosts.server_share for name in names]
