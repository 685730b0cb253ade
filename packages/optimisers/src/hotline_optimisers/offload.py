"""Simulation of the effect of a hot set on Adagrad, by the share of hits and the budget of collections."""

from __future__ import annotations

from experiment.run_config import WorkloadShape
from foundation.designs.collect import BASELINE, COLLECT
from foundation.optimisers import Adagrad
from foundation.settings import Strict
from hosts.agent_config import CollectionSettings
from hotline_optimisers.training import SERVERS, WORKERS
from hotline_simulator.config import SimulationConfig
from hotline_simulator.experiment import quiet_reporter, temporary_run

_LOAD, _ROUNDS, _LEARNING_RATE = 0.5, 2, 0.1
_PROFILED_STEPS_DIVISOR = 4  # the hot set is chosen from the first quarter of the trace
_DIFFERENCES = {  # metrics of `analysis.metrics` by field of `OffloadChanges`
    "servers": "ps_cpu_us_per_step",
    "packets": "ps_packets_per_step",
    "pull": "pull_mean",
    "push": "push_mean",
}


class Offload(Strict):
    """A run to simulate, at half of the capacity of its baseline: Adagrad at the servers."""

    hit_share: float
    """Share of the updates that hit keys in the switch."""
    budget: CollectionSettings
    steps: int
    """Steps of each worker in the trace."""
    shape: WorkloadShape = WorkloadShape()
    """Shape of the workload; `hit_share` replaces its `hot_share`."""
    block_ms: int
    calibration_s: float
    """Duration of each arm's closed loop, in simulated s."""


class OffloadChanges(Strict):
    """Changes against Adagrad at the servers, as fractions; negative is a gain."""

    servers: float
    """CPU time of servers for a step."""
    packets: float
    pull: float
    push: float
    step: float
    """Time of a step in a closed loop, the reciprocal of the capacity."""
    p50_ms: float
    """Median age of published values."""
    p99_ms: float
    late: float
    """Share of values that were older than the bound."""

    @property
    def capacity(self) -> float:
        return 1 / (1 + self.step) - 1


def simulate_changes(job: Offload) -> OffloadChanges:
    shape = job.shape.model_copy(update={"hot_share": job.hit_share})
    settings = {
        "design": COLLECT.design, "workers": WORKERS, "servers": SERVERS, "rounds": _ROUNDS,
        "trace_steps": job.steps, "loads": (_LOAD,), "optimiser": Adagrad(lr=_LEARNING_RATE),
        "workload": shape, "top_k": shape.hot_parameters,
        "profile_lanes": job.steps * WORKERS * shape.keys_per_step // _PROFILED_STEPS_DIVISOR,
        "collection": job.budget,
        "calibration_s": job.calibration_s, "block_ms": job.block_ms,
    }  # fmt: skip
    config = SimulationConfig.model_validate(settings)
    with temporary_run(config, None, quiet_reporter()) as (_, record, summary):
        differences = summary.loads[str(_LOAD)].differences[COLLECT.name]
        staleness = record.staleness[COLLECT.name]
    return OffloadChanges(
        # A ratio is None if the baseline has the value 0, which counts as no change.
        **{name: differences[metric].ratio or 0.0 for name, metric in _DIFFERENCES.items()},
        step=record.capacity[BASELINE.name] / record.capacity[COLLECT.name] - 1,
        p50_ms=staleness.p50_ms,
        p99_ms=staleness.p99_ms,
        late=staleness.late / max(staleness.copies, 1),
    )
