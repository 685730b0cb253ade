"""The stages of `make evidence`: the core's here, and those of each package that has an `evidence.py`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from foundation.checkout import ROOT
from tools.evidence.stage import Stage
from tools.evidence.stages.bench import BENCH, MANY_SWITCHES, NETWORKS
from tools.evidence.stages.command_times import COMMAND_TIMES
from tools.evidence.stages.datapaths import DATAPATH_RUNS
from tools.evidence.stages.deaths import DEATHS
from tools.evidence.stages.intervals import INTERVALS
from tools.evidence.stages.leaf_spine import LEAF_SPINE, NARROW_LEAF_SPINE
from tools.evidence.stages.placement import LOST_ANSWERS, PLACEMENT
from tools.evidence.stages.reliability import (
    FAULT_SCHEDULES,
    FAULT_SCHEDULES_OF_LEVELS,
    FAULT_SCHEDULES_OF_NETWORKS,
    FAULT_SCHEDULES_OF_WORKER_LEAVES,
    RECOVERY,
)
from tools.evidence.stages.runs import BMV2_RUNS, RUNS, SEPARATE_CORES
from tools.evidence.stages.validation import VALIDATION

_CORE = (
    INTERVALS, FAULT_SCHEDULES, FAULT_SCHEDULES_OF_NETWORKS, FAULT_SCHEDULES_OF_WORKER_LEAVES,
    FAULT_SCHEDULES_OF_LEVELS, RUNS, DATAPATH_RUNS, LEAF_SPINE, NARROW_LEAF_SPINE, SEPARATE_CORES, BMV2_RUNS,
    BENCH, MANY_SWITCHES, NETWORKS, PLACEMENT, LOST_ANSWERS, RECOVERY, DEATHS, VALIDATION, COMMAND_TIMES,
)  # fmt: skip


def _of_packages() -> Iterator[Stage]:
    """Yield the stages of each `packages/NAME/evidence.py`, its `STAGES`."""
    for file in sorted(ROOT.glob("packages/*/evidence.py")):
        yield from import_module(f"packages.{file.parent.name}.evidence").STAGES


STAGES: tuple[Stage, ...] = tuple(
    sorted((*_CORE, *_of_packages()), key=lambda stage: (bool(stage.needs), stage.minutes))
)
"""Stages without requirements on the machine come first, and short ones before long ones."""
