"""Configure the simulation of a real run: the same load, cores and workload; cables take no time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analysis.record import AnalysisError, RunRecord, read_record
from experiment.config import config_of
from foundation.designs.arms import arms_in_order
from simulator.config import SimulationConfig
from simulator.costs import Hosts

_REAL_RUN_SETTINGS = (
    "target", "datapath", "pcap", "cli", "p4runtime_port", "codec", "placement", "server", "faults",
)  # fmt: skip


def read_real_record(run: Path) -> RunRecord:
    record = read_record(run)
    if record.simulation is not None:
        raise AnalysisError(f"{run}: expected a real run to compare with, got a simulated one")
    return record


def config_like(record: RunRecord, hosts: Hosts, arms: Sequence[str], **changes: object) -> SimulationConfig:
    """Return a run's settings, with shared cores and no repeats; raise `AnalysisError` for simulated runs."""
    if record.simulation is not None:
        raise AnalysisError("expected a real run to compare with, got a simulated one")
    settings = {name: value for name, value in record.config.items() if name not in _REAL_RUN_SETTINGS}
    values = {
        **settings,
        "arms": tuple(arm.name for arm in arms_in_order(arms) if not arm.is_repetition),
        "network": {"rate_mbit": 0.0, "delay_us": 0.0},
        "hosts": hosts.model_dump(),
        "offered": record.offered_rate,
        **changes,
    }
    return config_of(SimulationConfig, values)


def shared_cores(record: RunRecord) -> dict[str, int]:
    return {
        "worker_cores": _core_count(record.placement.get("workers")),
        "server_cores": _core_count(record.placement.get("servers")),
    }


def _core_count(placement: object) -> int:
    return len(placement) if isinstance(placement, list) and placement else 1
