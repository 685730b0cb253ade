"""Predict a cluster's capacity with the hot set in the switch and without, and by size of the hot set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.record import Staleness
from controller.hotset.choice import describe_fewer_keys
from experiment.phases.workload import lanes_per_step
from experiment.progress import Reporter
from foundation.designs.arms import baseline_and_lead
from foundation.designs.collect import NAME as COLLECT
from foundation.designs.interface import Arm
from foundation.errors import DataError
from foundation.settings import Strict
from hotline_answers.cluster_answer.arm_results import (
    ArmCapacity,
    OffloadComparison,
    arm_capacity,
    compare_arms,
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
from hotline_answers.cluster_answer.computing import ComputingEffect, bottleneck_sentences, computing_effects
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
from hotline_answers.cluster_answer.sensitivity import (
    GainAtValue,
    InputEffect,
    input_effects,
    input_part,
)
from hotline_answers.cluster_answer.sentences import headline, rows_sentence, sentences
from hotline_answers.cluster_answer.sizes import (
    ComparedSizes,
    PackingCounter,
    PackingCounts,
    Size,
    size_of,
    sizes_for,
)
from hotline_answers.cluster_answer.uplinks import UplinkGain, uplink_gains
from hotline_simulator.config import SimulationConfig
from hotline_simulator.devices import DEVICES
from hotline_simulator.experiment import quiet_reporter, simulate_closed_loops, temporary_run


class ClusterAnswer(Strict):
    cluster: Cluster
    simulated_workers: int
    keys_per_step: float
    notes: tuple[str, ...]
    headline: str
    sentences: tuple[str, ...]
    sides: OffloadComparison
    sizes: tuple[Size, ...]
    """No hot set, and the sizes that were compared, each simulated with the same settings."""
    best: int
    """Size of the hot set that carries most of these."""
    stops_at: int
    """Size beyond which a larger one of them adds less than 3 % to the capacity."""
    part_check: PartCheck | None
    uplinks: tuple[UplinkGain, ...]
    computing: tuple[ComputingEffect, ...] = ()
    """Results with other computing times of a step, or the cluster's own one if it has one."""
    bottleneck: tuple[str, ...] = ()
    """Sentences on how full the servers are, and from where on there is a gain."""
    effects: tuple[InputEffect, ...]
    """Gains with other values of an input, those of the input that changes it most first."""
    ages: Staleness | None = None
    other_dims: tuple[DimEffect, ...] = ()
    """Results with rows of other dims, if the cluster has none; () for a switch that has no such rows."""
    rows: str = ""
    """Sentence on the dim that was assumed and what others would make of it; "" if it was given."""


def answer_cluster(cluster: Cluster, reporter: Reporter, max_rpcs: float = MAX_RPCS) -> ClusterAnswer:
    limit = max_workers(cluster, cluster.keys_per_step, max_rpcs)
    config = config_for(cluster, part_of(cluster, limit))
    notes = list[str]()
    data, log = read_data(cluster, config, reporter, notes.append), None
    if data is not None:
        cluster = with_dims_of_log(cluster, config, data)
        limit = max_workers(cluster, lanes_per_step(data), max_rpcs)
        config = config_for(cluster, part_of(cluster, limit))
        log = split_log(data)
    # Only here: further workloads of the same log, for other clusters, leave out others.
    workload = workload_for(config, log, reporter, notes.append)
    counter = PackingCounter(config, workload)
    if not counter.keys_with_updates:
        raise DataError(
            f"{cluster.data}: expected keys in the first half of the mini-batches, which the hot set is "
            "chosen from, got none"
        )
    if cluster.top_k is not None:
        check_fits(cluster, cluster.top_k, counter.max_rows)
        if counter.keys_with_updates < cluster.top_k:
            notes.append(describe_fewer_keys(counter.keys_with_updates, cluster.top_k))
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
    results = {0: comparison.baseline, top_k: comparison.offload}
    sizes, counts = _simulate_sizes(config, workload, counter, results, reporter)
    uplinks = uplink_gains(cluster, config, comparison, counts[0], counts[top_k])
    part_check = (
        None if config.workers == cluster.workers else _check_part(cluster, config, log, comparison, reporter)
    )
    keys = lanes_per_step(workload.trace)
    computing = _computing(cluster, log, comparison, reporter)
    other_dims = _other_dims(cluster, workload, keys, comparison, reporter)
    return ClusterAnswer(
        cluster=cluster,
        simulated_workers=config.workers,
        keys_per_step=keys,
        notes=tuple(notes),
        headline=headline(
            comparison,
            sizes.recommended,
            cluster.compute_ms or 0.0,
            short_log_warning(log, config.workers),
        ),
        sentences=tuple(
            sentences(
                cluster,
                config,
                keys,
                comparison,
                sizes,
                part_check,
                uplinks,
                ages,
                log,
            )
        ),
        sides=comparison,
        sizes=(sizes.none, *sizes.hot),
        best=sizes.best.top_k,
        stops_at=sizes.sufficient.top_k,
        part_check=part_check,
        uplinks=uplinks,
        computing=computing,
        bottleneck=tuple(bottleneck_sentences(computing)),
        effects=_effects(cluster, log, keys, comparison, sizes, other_dims, reporter),
        ages=ages,
        other_dims=other_dims,
        rows="" if cluster.has_dims else rows_sentence(other_dims, cluster.switch),
    )


def _computing(
    cluster: Cluster, log: ReadLog | None, comparison: OffloadComparison, reporter: Reporter
) -> tuple[ComputingEffect, ...]:
    part, short_log = input_part(cluster, log)

    def simulate(config: SimulationConfig) -> tuple[ArmCapacity, ArmCapacity]:
        workload = workload_for(config, short_log, reporter)
        arms = baseline_and_lead(config.design)
        baseline, offload = _closed_loops(config, workload, config.top_k, reporter, arms)
        return baseline, offload

    with reporter.phase("computing times", 1.0):
        return computing_effects(cluster, part, comparison, simulate)


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
    sizes: ComparedSizes, other_dims: Sequence[DimEffect], reporter: Reporter,
) -> tuple[InputEffect, ...]:  # fmt: skip
    known = {
        ("hot keys", f"{comparison.top_k:,}"): [
            GainAtValue(value=f"{size.top_k:,}", gain=size.capacity / sizes.none.capacity)
            for size in sizes.neighbours(comparison.top_k)
        ]
    }
    if other_dims:
        known["values of a row", "1"] = [
            GainAtValue(value=f"{each.dim}", gain=each.gain) for each in (other_dims[0], other_dims[-1])
        ]

    def simulate(config: SimulationConfig, log: ReadLog | None) -> float:
        workload = workload_for(config, log, reporter)
        baseline, offload = capacities(config, workload, config.top_k, reporter)
        return offload / baseline

    with reporter.phase("other inputs", 1.0):
        return input_effects(cluster, log, keys_per_step, comparison, known, simulate)


def _simulate_sizes(
    config: SimulationConfig, workload: ScoredWorkload, counter: PackingCounter,
    known: Mapping[int, ArmCapacity], reporter: Reporter,
) -> tuple[ComparedSizes, dict[int, PackingCounts]]:  # fmt: skip
    """Return the sizes to compare and the packets of each; `known` are the simulated ones, none and asked."""
    [_, asked] = known
    sizes, counts = dict[int, Size](), dict[int, PackingCounts]()
    tried = [0, *sizes_for(asked, counter.keys_with_updates, counter.max_rows)]
    with reporter.phase("sizes", 1.0) as phase:
        for top_k in tried:
            counts[top_k] = counter.count(top_k)
            result = known.get(top_k) or simulate_size(config, workload, top_k, reporter)
            sizes[top_k] = size_of(config, top_k, counts[top_k], result)
            phase.update(len(sizes) / len(tried))
    none = sizes.pop(0)
    return ComparedSizes(none=none, hot=tuple(sizes.values()), asked=asked), counts


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


def cluster_results(
    cluster: Cluster, changes: Mapping[str, object] | None = None
) -> tuple[ArmCapacity, ArmCapacity, float]:
    """Return the results of a whole cluster without and with its hot set, and the share of packets spared.

    `changes` are settings of its configuration.
    """
    reporter = quiet_reporter()
    config = config_for(cluster).model_copy(update=changes)
    workload = workload_for(config, None, reporter)
    counter = PackingCounter(config, workload)
    packets = [counter.count(top_k).server_packets for top_k in (0, config.top_k)]
    arms = baseline_and_lead(config.design)
    baseline, offload = _closed_loops(config, workload, config.top_k, reporter, arms)
    return baseline, offload, 1 - packets[1] / packets[0]


def capacities(
    config: SimulationConfig, workload: ScoredWorkload, top_k: int, reporter: Reporter
) -> tuple[float, float]:
    """Return the simulated capacities of the whole cluster without and with offload, in steps/s."""
    results = _closed_loops(config, workload, top_k, reporter, baseline_and_lead(config.design))
    baseline, lead = (result.capacity for result in results)
    return baseline, lead


def simulate_size(
    config: SimulationConfig, workload: ScoredWorkload, top_k: int, reporter: Reporter
) -> ArmCapacity:
    """Return the result of the whole cluster with a hot set of this size."""
    _, lead = baseline_and_lead(config.design)
    [result] = _closed_loops(config, workload, top_k, reporter, [lead])
    return result


def _closed_loops(
    config: SimulationConfig, workload: ScoredWorkload, top_k: int, reporter: Reporter, arms: Sequence[Arm]
) -> list[ArmCapacity]:
    names = tuple(arm.name for arm in arms)
    config = config.model_copy(update={"rounds": 1, "top_k": top_k, "arms": names})
    workload = simulated_part(workload, top_k)
    with hot_set_file(workload, top_k) as hot_set:
        found = simulate_closed_loops(config, workload.trace, reporter, hot_set)
    return [arm_capacity(config, found[name].capacity, found[name].arm) for name in names]
