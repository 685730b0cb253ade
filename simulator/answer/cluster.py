"""A cluster that is asked about, and the simulated run that answers for it."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from experiment.config import MAX_TOP_K, config_of
from experiment.phases.workload import generate_trace
from experiment.progress import Reporter
from foundation.designs.arms import judged
from foundation.designs.registry import DEFAULT
from foundation.protocol.addressing import PORTS
from foundation.settings import Strict
from hosts.workload import files
from hosts.workload.generator import R1
from hosts.workload.trace import Trace
from simulator.config import SimulationConfig
from simulator.costs import Hosts
from simulator.errors import SimulationError

SWITCH = {"switch_us": 1.0, "switch_mpps": 1_000.0}
"""A device of its own, as [network] has it: about what one pipe of a switch ASIC does."""
MOST_LOAD = 0.8
"""Part of what the arm that carries least does; beyond, operations wait for as long as they are watched."""
_HALF_LOAD = 0.5


class Cluster(Strict):
    """What somebody wants to know the answer for."""

    workers: int = Field(ge=1)
    servers: int = Field(ge=1)
    keys_per_step: int = Field(default=R1.keys_per_step, ge=1)
    """Of the built-in data; `data` have their own."""
    skew: float = Field(default=R1.hot_share, gt=0, lt=1)
    """Share of all updates that the hottest 20,000 of 900,000 parameters take, in the built-in data."""
    data: Path | None = None
    """An update log or a libsvm training set."""
    rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Steps/s that all workers together want; None is half of what they get without the switch or with it."""
    top_k: int = Field(default=20_000, ge=1)
    """Hot keys in the switch."""
    hosts: Hosts | None = None
    """What agents take; None is what ours do."""


def on_cores_of_their_own(hosts: Hosts) -> Hosts:
    """The same costs of agents that share no core, neither with each other nor with the switch."""
    alone: dict[str, object] = {"worker_cores": None, "server_cores": None, "program_ns": None, "hit_ns": 0}
    return hosts.model_copy(update=alone)


def config_for(cluster: Cluster) -> SimulationConfig:
    """With the hot set in the switch and without, at the rate that is asked for.

    Every agent has a core of its own, and the switch is `SWITCH`. Raises `SimulationError` or `ConfigError`
    for what cannot be.
    """
    hosts = cluster.workers + cluster.servers
    if hosts > PORTS:
        raise SimulationError(
            f"{cluster.workers:,} workers and {cluster.servers:,} servers are {hosts:,} hosts, "
            f"and the switch has {PORTS} ports"
        )
    if cluster.top_k > MAX_TOP_K:
        raise SimulationError(
            f"a hot set of {cluster.top_k:,} keys is too large: the switch's tables hold {MAX_TOP_K:,}"
        )
    values: dict[str, object] = {
        "workers": cluster.workers,
        "servers": cluster.servers,
        "top_k": cluster.top_k,
        "arms": tuple(arm.name for arm in judged(DEFAULT)),
        "loads": (_HALF_LOAD,) if cluster.rate is None else (1.0,),
        "rate": cluster.rate,
        "max_load": MOST_LOAD,
        "data": cluster.data,
        "workload": {"keys_per_step": cluster.keys_per_step, "hot_share": cluster.skew},
        "network": SWITCH,
        "hosts": on_cores_of_their_own(cluster.hosts or Hosts()).model_dump(),
    }
    return config_of(SimulationConfig, values)


def trace_for(config: SimulationConfig, reporter: Reporter) -> Trace:
    """Its mini-batches; raises `DataError`."""
    with reporter.phase("data", 1.0) as phase:
        if config.data is not None:
            return files.load(config.data, config.workers, config.samples_per_step)
        return generate_trace(config, phase.update)
