"""Real runs as steps of stages: their commands, settings and summaries."""

from __future__ import annotations

from pathlib import Path

from analysis.statistics import Comparison
from analysis.summary import Summary, read_summary
from tools.evidence.result import Cell, Measured
from tools.evidence.stage import Step

PROGRAM_FILES = ("p4src/**/*.p4", "p4src/**/*.json")
"""Patterns of the switch's programs, with which real runs are made."""


def run_step(name: str, *variables: str, settings: str = "", shown: str | None = None) -> Step:
    """Return a step with a run: `settings` are lines of TOML, and `variables` as in `make run-topo`."""
    text = f'runs = "{{folder}}/runs"\n{settings}'
    command = ("./hotline", "run", *variables, "CONFIG={folder}/run.toml")
    return Step(name, command, shown or f"make run-topo {' '.join(variables)}", files=(("run.toml", text),))


def summary_of_step(folder: Path, step: str) -> Summary:
    """Return the summary of a step's run; `folder` is the stage's."""
    return read_summary(folder / step / "runs" / "latest")


def difference_of(summary: Summary, arm: str, metric: str) -> Comparison:
    """Return the difference of an arm to its reference at the run's first load."""
    return next(iter(summary.loads.values())).differences[arm][metric]


def change_in_percent(change: Comparison) -> Cell:
    """Return a change with its interval; None without a ratio."""
    ratio, low, high = change.ratio, change.ratio_low, change.ratio_high
    if ratio is None:
        return None
    if low is None or high is None:
        return 100 * ratio
    return Measured(value=100 * ratio, low=100 * low, high=100 * high)
