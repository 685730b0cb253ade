"""A simulated run with known costs, whose record says that it was real."""

from __future__ import annotations

import json
from pathlib import Path

from experiment.config import Config
from simulator.config import SimulationConfig
from tests.harness.cli import invoke

RUN = """
workers = 2
servers = 1
arms = ["baseline", "offload"]
top_k = 40
rounds = {rounds}
seed = {seed}
loads = [0.3, 0.6]
block_ms = 40
discard_ms = 5
block_steps = 1
trace_steps = 100
profile_lanes = 2000
runs = "{runs}"

[workload]
parameters = 2000
hot_parameters = 40
hot_share = 0.5
keys_per_step = 50

[network]
rate_mbit = 0.0
delay_us = 0.0

[hosts]
worker_cores = 1
server_cores = 1
idle_ns = 5000
wake_ns = 1000
begin_ns = 700000
finish_ns = 20000
end_ns = 400000
push_ns = 60000
send_ns = 9000
program_ns = 1500
lookup_ns = {lookup_ns}
hit_ns = {hit_ns}
"""


def as_if_real(folder: Path, seed: int, hit_ns: int = 3_000, lookup_ns: int = 0) -> Path:
    """Simulate a run with known costs, and let its record say that it was real."""
    config = folder / f"{seed}.toml"
    values = {"runs": folder / f"runs-{seed}", "seed": seed, "rounds": 6}
    config.write_text(RUN.format(**values, hit_ns=hit_ns, lookup_ns=lookup_ns))
    ran = invoke("simulate", config)
    assert ran.exit_code == 0, ran.output
    run = (folder / f"runs-{seed}" / "latest").resolve()
    record = json.loads((run / "run.json").read_text())
    known = SimulationConfig.model_validate(record["config"])
    stored = {name: value for name, value in record["config"].items() if name in Config.model_fields}
    reported = {"config": stored, "simulation": None, "datapath": "kernel", "target": "softswitch"}
    placed = {"workers": known.hosts.worker_cores, "servers": known.hosts.server_cores}
    (run / "run.json").write_text(json.dumps({**record, **reported, "placement": placed}))
    return run
