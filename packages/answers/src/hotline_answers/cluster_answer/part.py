"""The part of a large cluster that is simulated: whole racks of workers, with their share of each server."""

from __future__ import annotations

import math

from foundation.logs.columns import TRANSFERS
from foundation.protocol.addressing import MAX_HOSTS
from foundation.settings import Strict
from hotline_answers.cluster_answer.cluster import Cluster, Part, whole_cluster
from simulator.devices import DEVICES

MAX_RPCS = 90_000
"""Maximum number of RPCs in a step of all simulated workers; simulating 90,000 takes about a minute."""


class PartCheck(Strict):
    workers: int
    baseline: float  # capacity of the whole cluster, steps/s
    offload: float
    error: float
    """Larger of the relative deviations of the answer's capacities from `baseline` and `offload`."""


def max_workers(cluster: Cluster, keys_per_step: float, max_rpcs: float = MAX_RPCS) -> int:
    """Return the maximum number of workers that send `max_rpcs` RPCs in a step and have routes."""
    keys_per_server, lanes = keys_per_step / cluster.servers, DEVICES[cluster.switch].lanes
    # Few keys: the probability that a server gets any. Many keys: full RPCs, and the last is half full.
    rpcs = (
        len(TRANSFERS) * cluster.servers * max(1 - math.exp(-keys_per_server), keys_per_server / lanes + 0.5)
    )
    # At least 2, so that half of them can be simulated, too.
    return max(2, min(int(max_rpcs / rpcs), MAX_HOSTS - cluster.servers))


def part_of(cluster: Cluster, limit: int) -> Part:
    """Return the largest part of at most `limit` workers, which is less than one rack if racks are larger."""
    if cluster.workers <= limit:
        return whole_cluster(cluster)
    if cluster.rack is None:
        return Part(limit, None, limit / cluster.workers)
    rack = min(cluster.rack, limit)
    workers = limit // rack * rack
    return Part(workers, rack, workers / cluster.workers)
