"""The gain of a hot set from three numbers, without a simulator, and its trial on clusters that were drawn.

`python -m hotline_answers.gain_formula` simulates the clusters of `SEEDS` and prints JSON. Seeds and bound
were written down before the first trial.
"""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

import numpy as np

from hotline_answers.cluster_answer.ask import cluster_results
from hotline_answers.cluster_answer.cluster import Cluster
from hotline_simulator.costs import HostCosts

SEEDS = range(1, 31)
BOUND, MIN_WITHIN = 0.15, 27
"""The formula holds if at least `MIN_WITHIN` of the gains have a relative error of at most `BOUND`."""
_SERVE_NS = (0, 5_000, 20_000, 50_000)  # added to the cost of an RPC at a server
_COMPUTE_MS = (0.0, 0.5, 1.0, 2.0, 5.0, 15.0)
_DIMS = (1, 1, 16, 64)
_TOP_K = {1: (2_000, 20_000), 16: (2_000, 20_000), 64: (2_000, 7_000)}
_PRECISION = 1e-12


def estimated_gain(workers: int, utilization: float, spared: float) -> float:
    """Return the steps/s with a hot set as a multiple of those without.

    Without it and with all workers as fast as they can be, the servers are busy for the share `utilization`
    of their time, below 1; the hot set spares the share `spared` of that work in a step. The workers are the
    customers of a closed queue, and all that a step takes outside of the servers stays as it is (mean value
    analysis: Reiser and Lavenberg, *Mean-value analysis of closed multichain queuing networks*, 1980).
    """
    if not 0 < utilization < 1 or not 0 <= spared <= 1:
        raise ValueError(
            "expected a utilization above 0 and below 1, and a spared share from 0 to 1, "
            f"got {utilization} and {spared}"
        )
    # Of the time in steps outside of the servers, in units of a step's work at them.
    shortest, longest = 0.0, workers / utilization
    while longest - shortest > _PRECISION * longest:
        outside = (shortest + longest) / 2
        if _throughput(workers, outside, work=1.0) > utilization:
            shortest = outside
        else:
            longest = outside
    return _throughput(workers, longest, work=1.0 - spared) / _throughput(workers, longest, work=1.0)


def _throughput(workers: int, outside: float, work: float) -> float:
    """Return the steps in a unit of time."""
    waiting = throughput = 0.0
    for customers in range(1, workers + 1):
        at_servers = work * (1 + waiting)
        throughput = customers / (outside + at_servers)
        waiting = throughput * at_servers
    return throughput


class Trial(NamedTuple):
    """A cluster whose gain was simulated, and what the formula says of it."""

    seed: int
    workers: int
    servers: int
    compute_ms: float
    serve_us: float
    dim: int
    utilization: float
    spared: float
    """Share of the packets to the servers, by counting."""
    simulated: float
    estimated: float

    @property
    def error(self) -> float:
        return self.estimated / self.simulated - 1


def drawn_cluster(seed: int) -> Cluster:
    rng = np.random.default_rng(seed)
    dim = int(rng.choice(_DIMS))
    return Cluster(
        workers=int(rng.integers(2, 17)),
        servers=int(rng.choice([1, 2, 4])),
        keys_per_step=int(np.exp(rng.uniform(np.log(200), np.log(3_000)))),
        skew=float(rng.uniform(0.3, 0.8)),
        compute_ms=float(rng.choice(_COMPUTE_MS)),
        dim=dim,
        top_k=int(rng.choice(_TOP_K[dim])),
        hosts=HostCosts(serve_ns=HostCosts().serve_ns + int(rng.choice(_SERVE_NS))),
    )


def trial(seed: int) -> Trial:
    cluster = drawn_cluster(seed)
    baseline, offload, spared = cluster_results(cluster)
    assert cluster.hosts is not None and cluster.dim is not None and cluster.compute_ms is not None
    utilization = min(baseline.at_capacity.servers, 1 - 1e-6)
    return Trial(
        seed=seed,
        workers=cluster.workers,
        servers=cluster.servers,
        compute_ms=cluster.compute_ms,
        serve_us=cluster.hosts.serve_ns / 1e3,
        dim=cluster.dim,
        utilization=utilization,
        spared=spared,
        simulated=offload.capacity / baseline.capacity,
        estimated=estimated_gain(cluster.workers, utilization, spared),
    )


def main() -> None:
    found = []
    for seed in SEEDS:
        print(f"cluster {seed} of {len(SEEDS)}", file=sys.stderr, flush=True)
        found.append(trial(seed))
    json.dump([{**each._asdict(), "error": each.error} for each in found], sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
