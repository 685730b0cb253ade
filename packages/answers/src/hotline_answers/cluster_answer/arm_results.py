"""Results of a simulated cluster with the hot set in the switch and without, and their comparison."""

from __future__ import annotations

from typing import Literal

from analysis.metrics import PS_CPU, WORKER_CPU, block_metrics, metrics_of_table
from analysis.record import RunRecord, SimulatedArm
from analysis.statistics import Comparison
from analysis.summary import Summary
from foundation.designs.arms import baseline_and_lead
from foundation.settings import Strict
from hotline_simulator.config import SimulationConfig

BOTTLENECK_UTILIZATION = 0.8
Limit = Literal["servers", "workers", "waiting"]


class Utilization(Strict):
    workers: float  # fraction of their CPU time, from 0 to 1
    servers: float

    @property
    def limits(self) -> tuple[Limit, ...]:
        shares: dict[Limit, float] = {"servers": self.servers, "workers": self.workers}
        return tuple(kind for kind, share in shares.items() if share >= BOTTLENECK_UTILIZATION) or (
            "waiting",
        )


class ArmCapacity(Strict):
    capacity: float
    """Steps/s of the whole cluster (as all rates here), even if only a part of it was simulated."""
    at_capacity: Utilization


class ArmResult(ArmCapacity):
    at_rate: Utilization
    rpcs_per_step: float
    ps_packets_per_step: float


class OffloadComparison(Strict):
    top_k: int
    rate: float
    rounds: int
    baseline: ArmResult
    offload: ArmResult
    differences: dict[str, Comparison]
    """Metric -> *offload* against *baseline*; CPU times are per step, summed over all agents of a kind."""

    @property
    def gain(self) -> float:
        return self.offload.capacity / self.baseline.capacity


def compare_arms(config: SimulationConfig, record: RunRecord, summary: Summary) -> OffloadComparison:
    load = next(iter(summary.loads.values()))
    rate = load.offered_rate
    assert rate is not None, "expected an open-loop load, which every simulation has"
    baseline, lead = baseline_and_lead(config.design)
    differences = load.differences[lead.name]
    cores, server_share = cores_of(config), config.hosts.server_share
    # In a simulated part servers are slower than in the cluster, so times of operations are left out.
    metric_names = [
        metric.name for metric in metrics_of_table("cluster") if server_share == 1 or metric.kind != "time"
    ]

    def result_of(arm: str) -> ArmResult:
        assert record.simulation is not None
        blocks = [block for block in record.blocks if block.arm == arm]
        cpu_us = block_metrics(blocks, (WORKER_CPU, PS_CPU))
        worker_s, server_s = cpu_us[WORKER_CPU.name] / 1e6, cpu_us[PS_CPU.name] / 1e6
        return ArmResult(
            **dict(arm_capacity(config, record.capacity[arm], record.simulation.arms[arm])),
            at_rate=Utilization(
                workers=min(1.0, worker_s * rate / cores["workers"]),
                servers=min(1.0, server_s * rate / cores["servers"]),
            ),
            rpcs_per_step=load.arms[arm].rpcs_per_step,
            ps_packets_per_step=load.arms[arm].ps_packets_per_step,
        )

    return OffloadComparison(
        top_k=config.top_k,
        rate=rate / server_share,
        rounds=load.rounds,
        baseline=result_of(baseline.name),
        offload=result_of(lead.name),
        differences={name: differences[name] for name in metric_names if name in differences},
    )


def arm_capacity(config: SimulationConfig, capacity: float, arm: SimulatedArm) -> ArmCapacity:
    """Return the result of a simulated cluster or part, whose capacity in steps/s is given."""
    cores = cores_of(config)
    return ArmCapacity(
        capacity=capacity / config.hosts.server_share,
        at_capacity=Utilization(
            workers=arm.workers_busy * config.workers / cores["workers"],
            servers=arm.servers_busy * config.servers / cores["servers"],
        ),
    )


def cores_of(config: SimulationConfig) -> dict[str, int]:
    return {
        "workers": config.hosts.worker_cores or config.workers,
        "servers": config.hosts.server_cores or config.servers,
    }
