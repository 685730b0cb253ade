"""Small simulated runs of designs whose workers push together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.harness.cli import json_of

SMALL = """
design = "{design}"
workers = 3
servers = 1
top_k = 500
rounds = 2
block_ms = 2
discard_ms = 1
block_steps = 6
trace_steps = 60
calibration_s = 0.005
runs = "{runs}"

[workload]
parameters = 20000
hot_parameters = 400
hot_share = 0.5
keys_per_step = 200
"""


def simulate(design: str, folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder of a simulated run, and its summary."""
    config = folder / "run.toml"
    config.write_text(SMALL.format(design=design, runs=folder / "runs"))
    summary: dict[str, Any] = json_of("simulate", config)
    return folder / "runs" / "latest", summary
