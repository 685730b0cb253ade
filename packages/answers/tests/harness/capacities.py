"""Simulated capacities of clusters, without the rest of an answer."""

from __future__ import annotations

from hotline_answers.cluster_answer.ask import capacities
from hotline_answers.cluster_answer.cluster import Cluster, config_for, part_of
from hotline_answers.cluster_answer.hotset import workload_for
from hotline_simulator.experiment import quiet_reporter


def capacities_of(cluster: Cluster, limit: int | None = None) -> tuple[float, float]:
    """Return the steps/s without a hot set and with one; at most `limit` of the workers are simulated."""
    limit = limit or cluster.workers
    config = config_for(cluster, part_of(cluster, limit))
    assert config.workers <= limit
    workload = workload_for(config, None, quiet_reporter())
    return capacities(config, workload, config.top_k, quiet_reporter())
