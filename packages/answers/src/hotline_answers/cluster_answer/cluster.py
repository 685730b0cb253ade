"""The cluster that `hotline answer` asks about, and the configuration and trace of its simulation.

Of a large cluster a part is simulated: whole racks of workers, with their share of each server.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from experiment.defaults import TOP_K
from experiment.progress import Reporter
from experiment.run_config import MAX_LEAVES, config_of
from foundation.designs.arms import baseline_and_lead
from foundation.designs.collect import NAME as COLLECT
from foundation.designs.registry import DEFAULT
from foundation.logs.access.access_settings import LogBatch
from foundation.logs.access.block import SAMPLES_PER_STEP
from foundation.logs.access.dims import RowLogSettings, RowSettings
from foundation.logs.columns import TRANSFERS
from foundation.optimisers import Optimiser
from foundation.protocol.addressing import MAX_HOSTS
from foundation.protocol.header import LANES, lanes_of_dim, padded_dim
from foundation.protocol.leaf_spine import MAX_SPINES, HotSetPlace, LeafSpine
from foundation.settings import Strict
from hosts.workload import data_files
from hosts.workload.generator import R1
from hosts.workload.trace import Trace
from hotline_simulator.config import SimulationConfig, SimulationError
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.devices import DEVICES, Device, DeviceName, with_dedicated_cores

MAX_LOAD = 0.8
"""Maximum load, as a fraction of the lowest capacity; beyond it queues grow as long as the run lasts."""
_HALF_LOAD = 0.5
MAX_COMPUTE_MS = 60_000.0
PART_WORKERS = 8
"""Workers of the part that is simulated to compare inputs of an answer."""
MAX_RPCS = 90_000
"""Maximum number of RPCs in a step of all simulated workers; simulating 90,000 takes about a minute."""


class Cluster(RowLogSettings):
    workers: int = Field(ge=1)
    """Number of workers."""
    servers: int = Field(ge=1)
    """Number of parameter servers."""
    keys_per_step: int = Field(default=R1.keys_per_step, ge=1)
    """Distinct keys of a worker's step, in the built-in data."""
    skew: float = Field(default=R1.hot_share, gt=0, lt=1)
    """Share of the updates that the hottest 20,000 of 900,000 parameters take, in the built-in data."""
    data: Path | None = None
    """Your access log (docs/logs.md) or libsvm training set: a file, folder or pattern; None means built-in
    data."""
    batch: LogBatch = SAMPLES_PER_STEP
    rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Steps/s of all workers together; None means half of the cluster's capacity."""
    compute_ms: float | None = Field(default=None, ge=0, le=MAX_COMPUTE_MS)
    """Time in ms for which a worker computes in each step, between pull and push; None means 0, and the
    result has other times beside it."""
    top_k: int | None = Field(default=None, ge=1)
    """Hot keys in the switch; None means 20,000, or as many as fit with rows of the dim."""
    hosts: HostCosts | None = None
    """Costs of the agents; None means those of our agents."""
    switch: DeviceName = "ideal"
    """Kind of the dedicated switch; packages/tofino/README.md has the limits of chips."""
    racks: int | None = Field(default=None, ge=1)
    """Racks of workers, whose switches only forward; servers are at the switch with the hot set; None means
    a port of the switch for each worker."""
    oversubscription: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """With racks or leaves: total bandwidth of the hosts there divided by that of the uplinks."""
    leaves: int | None = Field(default=None, ge=2, le=MAX_LEAVES)
    """Leaves with workers and servers, which spines connect; all run the program. None means one switch."""
    spines: int = Field(default=1, ge=1, le=MAX_SPINES)
    """With leaves: number of spines, each with an uplink of every leaf."""
    placement: HotSetPlace = "spine"
    """With leaves: where hot sets are, at spines, at the leaves of the servers, at both, or at the leaves of
    the workers, which then sum for all servers."""
    optimiser: Optimiser | None = None
    """Optimiser of the servers, such as adagrad; they collect gradients from the switch; None means none:
    servers add what workers push."""

    @property
    def requested_top_k(self) -> int:
        """The requested number of hot keys, or the default for rows of `min_dim` values."""
        return self.top_k or min(TOP_K, DEVICES[self.switch].hot_rows(self.min_dim))

    @property
    def design(self) -> str:
        return DEFAULT if self.optimiser is None and self.placement != "worker-leaves" else COLLECT

    @property
    def is_indivisible(self) -> bool:
        """Whether no part of it is simulated: collections take time by the second, and leaves are few."""
        return self.optimiser is not None or self.leaves is not None

    @property
    def network_of_leaves(self) -> LeafSpine | None:
        if self.leaves is None:
            return None
        return LeafSpine(
            self.workers, self.servers, self.leaves, self.placement, self.spines,
            oversubscription=self.oversubscription,
        )  # fmt: skip

    @property
    def rack(self) -> int | None:
        """Workers per rack; the last rack may have fewer."""
        return None if self.racks is None else -(-self.workers // self.racks)


class Part(NamedTuple):
    workers: int
    rack: int | None
    share: float  # number of these workers as a share of the cluster's

    @property
    def is_whole(self) -> bool:
        return self.share == 1


def whole_cluster(cluster: Cluster) -> Part:
    return Part(cluster.workers, cluster.rack, 1.0)


def config_for(cluster: Cluster, part: Part | None = None) -> SimulationConfig:
    part = part or whole_cluster(cluster)
    _check_switch(cluster)
    if cluster.is_indivisible and not part.is_whole:
        reason = (
            "with leaves"
            if cluster.optimiser is None
            else "with an optimiser, where collections would take too much of servers' time"
        )
        raise SimulationError(
            f"expected at most {part.workers:,} workers, got {cluster.workers:,}: larger clusters are "
            f"simulated in part, which is not possible {reason}"
        )
    values: dict[str, object] = {
        "workers": part.workers,
        "servers": cluster.servers,
        # A size that does not fit has been refused, unless the log has to be read first.
        "top_k": min(cluster.requested_top_k, DEVICES[cluster.switch].hot_rows(cluster.min_dim)),
        "dim": cluster.min_dim,
        "design": cluster.design,
        "optimiser": cluster.optimiser,
        "arms": tuple(arm.name for arm in baseline_and_lead(cluster.design)),
        # With a rate, load 1 is this rate.
        "loads": (_HALF_LOAD,) if cluster.rate is None else (1.0,),
        "rate": None if cluster.rate is None else part.share * cluster.rate,
        "max_load": MAX_LOAD,
        "data": cluster.data,
        "columns": cluster.all_columns,
        "skip_bad": cluster.skip_bad,
        "max_bad": cluster.max_bad,
        "format": cluster.format,
        "separator": cluster.separator,
        "samples_per_step": cluster.batch,
        # As many parameters at each dim: simulations allocate only the rows that a trace has.
        "workload": {
            "parameters": R1.parameters,
            "keys_per_step": cluster.keys_per_step,
            "hot_share": cluster.skew,
        },
        "worker": {"compute_ns": round(1e6 * (cluster.compute_ms or 0.0))},
        "network": _network(cluster, part),
        **_topology(cluster),
        "hosts": {
            **with_dedicated_cores(cluster.hosts or HostCosts()).model_dump(),
            "server_share": part.share,
        },
    }
    return config_of(SimulationConfig, values)


def _topology(cluster: Cluster) -> dict[str, object]:
    if cluster.leaves is None:
        return {}
    return {
        "topology": "leaf-spine",
        "leaves": cluster.leaves,
        "spines": cluster.spines,
        "oversubscription": cluster.oversubscription,
        "hot_sets": cluster.placement,
    }


def _check_switch(cluster: Cluster) -> None:
    switch = DEVICES[cluster.switch]
    if cluster.leaves is not None and cluster.racks is not None:
        raise SimulationError(f"--leaves {cluster.leaves} and --racks {cluster.racks}: expected one of both")
    if cluster.leaves is not None and switch.lanes < LANES:
        raise SimulationError(
            f"expected the ideal switch or softswitch with leaves, got {cluster.switch}: the program that "
            "was compiled for this chip passes nothing on to other switches"
        )
    if cluster.dims and cluster.data is None:
        raise SimulationError(
            f"--dims {','.join(cluster.dims)}: expected --data with such tables, got none; the built-in data "
            "have one table (--dim)"
        )
    if cluster.all_columns is not None and cluster.data is None:
        raise SimulationError(
            f"--columns {cluster.all_columns}: expected --data with such columns, got none; the built-in "
            "data have no columns"
        )
    if not switch.has_rows and cluster.max_dim > 1:
        raise SimulationError(
            f"expected the ideal switch with rows of {cluster.max_dim} values, got {cluster.switch}: the "
            "program that was compiled for this chip serves rows of one value"
        )
    if cluster.are_dims_known:
        check_fits(cluster, cluster.requested_top_k, switch.hot_rows(cluster.min_dim))
    if switch.lanes < LANES and cluster.optimiser is not None:
        raise SimulationError(
            f"expected the ideal switch with an optimiser, got {cluster.switch}: the program with which "
            "servers collect gradients was not compiled for this chip"
        )
    if (callers := cluster.workers + cluster.servers + 1) > switch.callers:
        raise SimulationError(
            f"{cluster.workers:,} workers, {cluster.servers:,} servers and the controller are {callers:,} "
            f"callers; expected at most {switch.callers:,}, those of {switch.description}"
        )
    _check_ports(cluster, switch)


def check_fits(cluster: Cluster, top_k: int, max_rows: int) -> None:
    if top_k > max_rows:
        dims = cluster.describe_dims(cluster.min_dim, cluster.max_dim)
        rows = "" if cluster.max_dim == 1 else f" of {dims}"
        raise SimulationError(
            f"a hot set of {top_k:,} keys is too large: the switch's tables hold {max_rows:,} rows{rows}"
        )


def _check_ports(cluster: Cluster, switch: Device) -> None:
    hosts = f"{cluster.workers:,} workers and {cluster.servers:,} servers"
    if cluster.rack is None:
        if cluster.workers + cluster.servers > switch.ports:
            raise SimulationError(
                f"{hosts} are {cluster.workers + cluster.servers:,} hosts, and the switch has {switch.ports} "
                "ports; expected at most as many hosts, or workers in racks (--racks)"
            )
        return
    if cluster.rack == 1:
        raise SimulationError(
            f"{cluster.racks:,} racks of {cluster.workers:,} workers: expected at least 2 workers a rack"
        )
    ports_per_rack = switch.count_ports(_uplink_mbit(cluster, cluster.rack))
    if (ports := -(-cluster.workers // cluster.rack) * ports_per_rack + cluster.servers) > switch.ports:
        raise SimulationError(
            f"{hosts} in {cluster.racks:,} racks need {ports:,} ports, and the switch has {switch.ports}; "
            "expected fewer racks (--racks) or slower uplinks (--oversubscription)"
        )


def _uplink_mbit(cluster: Cluster, hosts: int) -> float:
    return hosts * Network().rate_mbit / cluster.oversubscription


def _network(cluster: Cluster, part: Part) -> dict[str, object]:
    network: dict[str, object] = {**DEVICES[cluster.switch].network}
    if not part.is_whole:
        network["switch_mpps"] = part.share * DEVICES[cluster.switch].network["switch_mpps"]
    if part.rack is not None:
        network["rack"] = part.rack
        network["uplink_mbit"] = _uplink_mbit(cluster, part.rack)
    return network


def read_data(
    cluster: Cluster, config: SimulationConfig, reporter: Reporter, note: data_files.Note
) -> Trace | None:
    if config.data is None:
        return None
    with reporter.phase("data"):
        # All data goes to one worker; `workload_for` deals it to the workers of a configuration.
        rows = RowSettings(dim=cluster.dim, dims=cluster.dims)
        return data_files.load(config.data, workers=1, options=config.read_options, note=note, rows=rows)


def with_dims_of_log(cluster: Cluster, config: SimulationConfig, data: Trace) -> Cluster:
    """Return the cluster with the dims of its log's rows, if a column or --dims says them."""
    if config.read_options.columns.dim is None and not cluster.dims:
        return cluster
    return cluster.with_dims_of_log(data.space.dims)


MAX_ERROR = 0.1
"""Largest error of a part's check, above which capacities are called estimates."""


class PartCheck(Strict):
    workers: int
    baseline: float  # capacity of the whole cluster, steps/s
    offload: float
    error: float
    """Larger of the relative deviations of the answer's capacities from `baseline` and `offload`."""


def max_workers(cluster: Cluster, keys_per_step: float, max_rpcs: float = MAX_RPCS) -> int:
    """Return the maximum number of workers that send `max_rpcs` RPCs in a step and have routes."""
    keys_per_server = keys_per_step / cluster.servers
    lanes = lanes_of_dim(padded_dim(cluster.max_dim)) * DEVICES[cluster.switch].rpc_lanes / LANES
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
