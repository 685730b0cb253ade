"""What virtual time says of a run, which the simulator adds to its `run.json`.

It is asked in a process of its own: the simulator knows of this room, and not the other way round; and it may
be stopped at any time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from analysis.record import RunRecord
from analysis.statistics import MIN_ROUNDS
from foundation.designs.arms import leading
from hosts.config import ServerCost
from topologies.signals import STOP, Stage

_ROOT = Path(__file__).parents[1]


def can_be_simulated(record: RunRecord) -> bool:
    """Whether a run is one that virtual time has a model of, with enough rounds to be held against it."""
    if record.target != "softswitch" or record.error is not None:
        return False
    if len({block.round for block in record.blocks}) < MIN_ROUNDS:
        return False
    config = record.config
    if not config["virtual_time"]:
        return False
    is_plain = config["codec"] == "fast" and not any(config["faults"].values())
    is_quick = config["recovery"]["durable"] is None and config["server"] == ServerCost().model_dump()
    lead = leading(record.design)
    has_both = lead is not None and {lead.name, lead.baseline} <= set(config["arms"])
    return is_plain and is_quick and has_both and config["empty_rpcs"] > 0


def add_simulation(run: Path, words: Callable[[], str], module: str) -> bool:
    """Have a run's record get what virtual time says of it; False where that failed, which has been told.

    `module` is run with the folder of the run. `words` say what is there when a signal comes meanwhile.
    """
    paths = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
    process = subprocess.Popen(
        [sys.executable, "-m", module, str(run)], env={**os.environ, "PYTHONPATH": paths}
    )
    try:
        with STOP.stage(Stage(words, cancel=process.terminate, clear=process.kill)):
            return process.wait() == 0
    finally:
        process.kill()
        process.wait()
