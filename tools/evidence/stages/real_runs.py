"""Real runs as steps of stages: their commands, settings and summaries."""

from __future__ import annotations

from pathlib import Path

from analysis.summary import Summary, read_summary
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
