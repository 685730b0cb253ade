"""A map of regimes: what a hot set changes by computing, cost of an RPC, rows, optimiser and kind of switch.

`python -m hotline_answers.regimes` simulates all of them and prints JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import NamedTuple

from foundation.optimisers import Adagrad
from hosts.agent_config import CollectionSettings
from hotline_answers.cluster_answer.arm_results import ArmCapacity
from hotline_answers.cluster_answer.ask import cluster_results
from hotline_answers.cluster_answer.cluster import Cluster
from hotline_simulator.costs import HostCosts
from hotline_simulator.devices import DeviceName

WORKERS, SERVERS = 8, 2
COMPUTE_MS = (0.0, 1.0, 2.0, 5.0, 15.0)
SERVE_US = (0.0, 10.0, 50.0)
"""Times that are added to what an RPC costs a server of Hotline's."""
DIMS: dict[DeviceName, tuple[int, ...]] = {"ideal": (1, 16, 64, 128), "softswitch": (1,), "tofino": (1,)}
COLLECTIONS = tuple(
    CollectionSettings(staleness_ms=ms, share_of_server=share) for ms, share in ((20, 0.5), (200, 0.1))
)
"""How servers with Adagrad collect from the ideal switch."""
COLLECTED_DIMS = (1, 16)


class Regime(NamedTuple):
    switch: DeviceName
    dim: int
    serve_us: float
    compute_ms: float
    collection: CollectionSettings | None = None
    """How servers with Adagrad collect what the switch adds; None without an optimiser."""

    @property
    def name(self) -> str:
        if self.collection is None:
            return self.switch
        return f"{self.switch}, Adagrad within {self.collection.staleness_ms:g} ms"


class RegimeChange(NamedTuple):
    """The changes by a hot set, measured while the cluster carries as many steps/s as it can."""

    gain: float
    """Steps/s with the hot set as a multiple of those without."""
    servers_cpu: float
    """Change of the servers' CPU time of a step, as a share."""
    servers_busy: float
    """Share of their CPU time for which servers are busy without the hot set."""
    workers_cpu: float


def regimes() -> Iterator[Regime]:
    for switch, dims in DIMS.items():
        for dim in dims:
            for serve_us in SERVE_US:
                for compute_ms in COMPUTE_MS:
                    yield Regime(switch, dim, serve_us, compute_ms)
    for collection in COLLECTIONS:
        for dim in COLLECTED_DIMS:
            for serve_us in SERVE_US:
                for compute_ms in COMPUTE_MS:
                    yield Regime("ideal", dim, serve_us, compute_ms, collection)


def change_in(regime: Regime) -> RegimeChange:
    cluster = Cluster(
        workers=WORKERS,
        servers=SERVERS,
        switch=regime.switch,
        dim=regime.dim,
        compute_ms=regime.compute_ms,
        hosts=HostCosts(serve_ns=HostCosts().serve_ns + round(1e3 * regime.serve_us)),
        optimiser=None if regime.collection is None else Adagrad(),
    )
    changes = {} if regime.collection is None else {"collection": regime.collection, "learning_rate": 0.1}
    baseline, offload, _ = cluster_results(cluster, changes)
    return RegimeChange(
        gain=offload.capacity / baseline.capacity,
        servers_cpu=_servers_cpu(offload) / _servers_cpu(baseline) - 1,
        servers_busy=baseline.at_capacity.servers,
        workers_cpu=_workers_cpu(offload) / _workers_cpu(baseline) - 1,
    )


def _servers_cpu(result: ArmCapacity) -> float:
    return result.at_capacity.servers / result.capacity


def _workers_cpu(result: ArmCapacity) -> float:
    return result.at_capacity.workers / result.capacity


def main() -> None:
    found = []
    wanted = list(regimes())
    for number, regime in enumerate(wanted, 1):
        print(f"regime {number} of {len(wanted)}", file=sys.stderr, flush=True)
        settings = {**regime._asdict(), "switch": regime.name}
        del settings["collection"]
        found.append({**settings, **change_in(regime)._asdict()})
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
