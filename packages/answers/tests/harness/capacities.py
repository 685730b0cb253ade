"""Simulated capacities of clusters, without the rest of an answer."""

from __future__ import annotations

from collections.abc import Iterable

from hotline_answers.cluster_answer.ask import capacities, capacity_with
from hotline_answers.cluster_answer.cluster import Cluster, config_for, part_of, read_data
from hotline_answers.cluster_answer.hotset import split_log, workload_for
from simulator.experiment import quiet_reporter


def capacities_of(cluster: Cluster, limit: int | None = None) -> tuple[float, float]:
    """Return the steps/s without a hot set and with one; at most `limit` of the workers are simulated."""
    limit = limit or cluster.workers
    config = config_for(cluster, part_of(cluster, limit))
    assert config.workers <= limit
    workload = workload_for(config, None, quiet_reporter())
    return capacities(config, workload, config.top_k, quiet_reporter())


def capacities_with(cluster: Cluster, sizes: Iterable[int]) -> dict[int, float]:
    """Return the steps/s of a cluster that trains on a log, by the size of its hot set."""
    config, reporter = config_for(cluster), quiet_reporter()
    data = read_data(cluster, config, reporter, print)
    assert data is not None
    workload = workload_for(config, split_log(data), reporter)
    return {top_k: capacity_with(config, workload, top_k, reporter) for top_k in sizes}
