"""Hot sets in a network of leaves and spines, simulated: by placement, oversubscription, computing and rows.

`python -m hotline_answers.networks` simulates all of them and prints JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Literal, NamedTuple

from experiment.run_config import SERVER_ROWS, config_of, max_top_k
from foundation.designs.arms import baseline_and_lead
from foundation.designs.collect import NAME as COLLECT
from foundation.designs.hotset import NAME as HOTSET
from foundation.designs.none import NAME as NO_HOT_SET
from foundation.protocol.leaf_spine import SPINE_SHARE, HotSetPlace
from hotline_answers.cluster_answer.hotset import hot_set_file, simulated_part, workload_for
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import HostCosts
from hotline_simulator.devices import DEVICES, with_dedicated_cores
from hotline_simulator.experiment import ClosedLoopOfArm, quiet_reporter, simulate_closed_loops

WORKERS, SERVERS, LEAVES = 80, 20, 8
NUMBERS_OF_LEAVES = (2, 4, 8, 16)
"""Numbers of leaves that are compared in one network, `COMPARED`."""
NUMBERS_OF_SPINES = (1, 2, 4)
"""Likewise, of spines; the uplinks of a leaf have the same bandwidth together."""
OVERSUBSCRIPTIONS = (1, 2, 4, 8)
COMPUTE_MS = (0.0, 1.0, 5.0, 15.0)
CABLES_GBIT = (1.0, 10.0)
DIMS = (1, 64)
TOP_K = 20_000
MORE_ROWS = 100_000
"""Rows of one value that leaves have together, if each has somewhat fewer than `TOP_K`; or leaves and a spine
with `TOP_K` of them."""
Placement = Literal["none", "spine", "leaves", "both", "worker-leaves", "sums at the spine"]
"""No hot set; one at a place (`HotSetPlace`); or at the spine, which sums as the workers' leaves do."""
PLACEMENTS: tuple[tuple[Placement, int], ...] = (
    ("none", TOP_K), ("spine", TOP_K), ("leaves", TOP_K), ("leaves", MORE_ROWS), ("worker-leaves", TOP_K)
)  # fmt: skip
COST_GBIT, COST_OVERSUBSCRIPTION, COST_MS = 1.0, 8, 5.0
"""The network in which also the costs of the last placement, sums at the spine, are simulated."""


_SYSTEMS: Mapping[Placement, tuple[str, HotSetPlace | None]] = {
    "none": (NO_HOT_SET, None),
    "spine": (HOTSET, "spine"),
    "leaves": (HOTSET, "leaves"),
    "both": (HOTSET, "both"),
    "worker-leaves": (COLLECT, "worker-leaves"),
    "sums at the spine": (COLLECT, "spine"),
}
"""The design and the place of the hot sets."""


class PlacementPoint(NamedTuple):
    dim: int
    cables_gbit: float
    oversubscription: int
    compute_ms: float
    placement: Placement
    top_k: int
    leaves: int = LEAVES
    spines: int = 1


COMPARED = PlacementPoint(1, 1.0, 8, 5.0, "none", TOP_K)


class NetworkResult(NamedTuple):
    """Values while the cluster carries as many steps/s as it can; a step is one of a worker."""

    capacity: float
    servers_cpu_us: float
    """CPU time of all servers for a step."""
    server_packets: float
    uplink_kb: float
    """Thousands of bytes that leaves send to the spine and get from it, for a step."""
    pull_us: float
    age_ms: float | None
    """Median age of copies in switches when newer ones replace them; None without copies."""


def points() -> Iterator[PlacementPoint]:
    """Yield all points; those of one network are in the order of `PLACEMENTS`."""
    for dim, cables_gbit, oversubscription, compute_ms in product(
        DIMS, CABLES_GBIT, OVERSUBSCRIPTIONS, COMPUTE_MS
    ):
        for placement, top_k in PLACEMENTS:
            rows = min(top_k, max_top_k(1, dim))
            if top_k == TOP_K or rows == top_k:
                yield PlacementPoint(dim, cables_gbit, oversubscription, compute_ms, placement, rows)
    for dim in DIMS:
        rows = min(TOP_K, max_top_k(1, dim))
        yield PlacementPoint(dim, COST_GBIT, COST_OVERSUBSCRIPTION, COST_MS, "sums at the spine", rows)
    for network in (*by_leaves(), *by_spines()):
        if network != COMPARED:
            for place, top_k in PLACEMENTS:
                # Switches have no room for 16 homes of 20 servers.
                if top_k == TOP_K and (place != "worker-leaves" or network.leaves * SERVERS <= SERVER_ROWS):
                    yield network._replace(placement=place)


def by_leaves() -> list[PlacementPoint]:
    return [COMPARED._replace(leaves=leaves) for leaves in NUMBERS_OF_LEAVES]


def by_spines() -> list[PlacementPoint]:
    return [COMPARED._replace(spines=spines) for spines in NUMBERS_OF_SPINES]


def config_at(point: PlacementPoint) -> SimulationConfig:
    design, place = _SYSTEMS[point.placement]
    arm = NO_HOT_SET if place is None else baseline_and_lead(design)[1].name
    values: dict[str, object] = {
        "workers": WORKERS,
        "servers": SERVERS,
        "topology": "leaf-spine",
        "leaves": point.leaves,
        "spines": point.spines,
        "oversubscription": point.oversubscription,
        "dim": point.dim,
        "design": design,
        "rounds": 1,
        "top_k": point.top_k,
        "worker": {"compute_ns": round(1e6 * point.compute_ms)},
        "network": {**DEVICES["ideal"].network, "rate_mbit": 1e3 * point.cables_gbit},
        "hosts": with_dedicated_cores(HostCosts()).model_dump(),
    }
    if place is not None:
        values["hot_sets"] = place
        values["spine_share"] = min(SPINE_SHARE, TOP_K / point.top_k)
    config = config_of(SimulationConfig, values)
    return config.model_copy(update={"arms": (arm,)})


def result_at(point: PlacementPoint) -> NetworkResult:
    config, reporter = config_at(point), quiet_reporter()
    # Without a hot set workers train on the same mini-batches.
    profiled = config_at(point._replace(placement="spine"))
    workload = simulated_part(workload_for(profiled, None, reporter), config.top_k)
    with hot_set_file(workload, config.top_k) as hot_set:
        chosen = None if point.placement == "none" else hot_set
        [found] = simulate_closed_loops(config, workload.trace, reporter, chosen).values()
    return _result_of(found)


def _result_of(found: ClosedLoopOfArm) -> NetworkResult:
    return NetworkResult(
        capacity=found.capacity,
        servers_cpu_us=1e6 * SERVERS * found.arm.servers_busy / found.capacity,
        server_packets=found.arm.server_packets,
        uplink_kb=found.arm.uplink_bytes / 1e3,
        pull_us=found.arm.pull_us,
        age_ms=None if found.staleness is None else found.staleness.p50_ms,
    )


def main() -> None:
    print_results(list(points()))


def print_results(wanted: Sequence[PlacementPoint]) -> None:
    """Simulate points, and print them and their results as JSON."""
    found = []
    for number, point in enumerate(wanted, 1):
        print(f"point {number} of {len(wanted)}", file=sys.stderr, flush=True)
        found.append({**point._asdict(), **result_at(point)._asdict()})
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
