"""A simulated run with known costs, whose record says that it was real."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl

from experiment.run_config import Config
from hotline_simulator.config import SimulationConfig
from tests.harness.cli import invoke

PROGRAM_NS, LOOKUP_NS, ANSWER_NS, IDLE_NS, TAKE_NS = 1_500, 3_000, 800, 5_000, 1_000
_WAITING_SHARE = 0.04  # of a block
RUN = """
workers = 2
servers = 1
arms = ["baseline", "offload"]
top_k = 40
rounds = {rounds}
seed = {seed}
loads = [0.3, 0.6]
block_ms = {block_ms}
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


def as_if_real(
    folder: Path, seed: int, hit_ns: int = 3_000, lookup_ns: int = 0, rounds: int = 6, block_ms: int = 40
) -> Path:
    """Simulate a run with known costs, and let its record say that it was real."""
    config = folder / f"{seed}.toml"
    values = {"runs": folder / f"runs-{seed}", "seed": seed, "rounds": rounds, "block_ms": block_ms}
    config.write_text(RUN.format(**values, hit_ns=hit_ns, lookup_ns=lookup_ns))
    ran = invoke("simulate", config)
    assert ran.exit_code == 0, ran.output
    run = (folder / f"runs-{seed}" / "latest").resolve()
    record = json.loads((run / "run.json").read_text())
    for block in record["blocks"]:
        # Two workers wait for each other by chance; more workers, as in real runs, wait alike in all blocks.
        wait_ms = _WAITING_SHARE * block["duration_ms"]
        block.update(run_queue_ms=dict.fromkeys(block["run_queue_ms"], wait_ms), disturbed=[])
    known = SimulationConfig.model_validate(record["config"])
    stored = {name: value for name, value in record["config"].items() if name in Config.model_fields}
    reported = {"config": stored, "simulation": None, "datapath": "kernel", "target": "softswitch"}
    worker_cores, server_cores = known.hosts.worker_cores or 1, known.hosts.server_cores or 1
    placed = {
        "workers": list(range(worker_cores)),
        "servers": list(range(worker_cores, worker_cores + server_cores)),
    }
    (run / "run.json").write_text(json.dumps({**record, **reported, "placement": placed}))
    return run


def as_if_measured(folder: Path, seed: int, rounds: int = 6, block_ms: int = 40) -> Path:
    """Return such a run that also has empty RPCs, and the CPU time of the kernel's program."""
    run = as_if_real(folder, seed, hit_ns=0, lookup_ns=LOOKUP_NS, rounds=rounds, block_ms=block_ms)
    rows = pl.read_parquet(run / "rpc.parquet")
    waits = pl.lit((IDLE_NS + TAKE_NS) / 1e3, pl.Float32)
    alone = rows.head(9).with_columns(
        pl.lit("empty").cast(rows.schema["op"]).alias("op"),
        pl.lit(-1, pl.Int32).alias("round"),
        pl.lit(False).alias("measured"),
        waits.alias("w_queue_us"),
        waits.alias("ps_queue_us"),
    )
    pl.concat([rows, alone]).write_parquet(run / "rpc.parquet")
    record = json.loads((run / "run.json").read_text())
    sent = rows.group_by("round", "arm", pl.col("load").cast(pl.Float64).round(6)).len()
    frames = {(row["round"], row["arm"], row["load"]): row["len"] for row in sent.iter_rows(named=True)}
    for block in record["blocks"]:
        rpcs, packets = frames[block["round"], block["arm"], block["load"]], block["servers"]["packets"]
        lookup_ns, answer_ns = (LOOKUP_NS, ANSWER_NS) if block["arm"].startswith("offload") else (0, 0)
        workers_ns, servers_ns = (PROGRAM_NS + lookup_ns) * rpcs, (PROGRAM_NS + answer_ns) * packets
        block["program_s"] = {"workers": workers_ns / 1e9, "servers": servers_ns / 1e9}
    record["capacity_checks"] = [{"when": when, "capacity": record["capacity"]} for when in ("middle", "end")]
    (run / "run.json").write_text(json.dumps(record))
    return run
