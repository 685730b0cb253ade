"""Run the simulator, which this package must not import, as a process that adds to `run.json`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from analysis.record import COMPILED_CODEC, RunRecord
from analysis.statistics import MIN_ROUNDS
from experiment.requirements import RunKind, lacks_anything
from foundation.checkout import environment_with_checkout
from foundation.designs.arms import lead_arm
from hosts.agent_config import ServerCost
from topologies.signals import STOP, SignalActions


def can_be_simulated(record: RunRecord) -> bool:
    if record.target != "softswitch" or record.error is not None:
        return False
    if record.machines:  # the simulation is checked with the cores of one machine
        return False
    if len({block.round for block in record.blocks}) < MIN_ROUNDS:
        return False
    config = record.config
    if not config["simulate_dedicated_switch"] or config.get("topology", "switch") != "switch":
        return False
    if lacks_anything(record.design, RunKind.SIMULATED):
        return False
    is_compiled_without_faults = config["codec"] == COMPILED_CODEC and not any(config["faults"].values())
    has_default_servers = (
        config["recovery"]["journal_sync"] is None and config["server"] == ServerCost().model_dump()
    )
    lead = lead_arm(record.design)
    has_both_arms = lead is not None and {lead.name, lead.reference} <= set(config["arms"])
    has_idle_costs = config["empty_rpcs"] > 0  # empty RPCs measure the costs of idle cores
    return is_compiled_without_faults and has_default_servers and has_both_arms and has_idle_costs


def add_simulation(run: Path, describe: Callable[[], str], module: str) -> bool:
    """Run `python -m MODULE RUN`, which adds to the record or prints an error; return False if it failed."""
    process = subprocess.Popen([sys.executable, "-m", module, str(run)], env=environment_with_checkout())
    try:
        with STOP.on_signal(SignalActions(describe, cancel=process.terminate, clean_up=process.kill)):
            return process.wait() == 0
    finally:
        process.kill()
        process.wait()
