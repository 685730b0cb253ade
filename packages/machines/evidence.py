"""Runs on several machines, which are namespaces here: the tables of packages/machines/README.md."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, median

from tools.evidence.result import Cell, EvidenceError, Measured, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step, text_output

ROUNDS = 5
_NAMESPACES = "packages/softswitch/tests/switch_harness/own-namespaces"
_DEATHS_FILE = "packages/machines/tests/netns/test_machines_deaths.py"
_COST = Step(
    "cost",
    (_NAMESPACES, sys.executable, "-m", "packages.machines.tests.beside_mininet", "--rounds", str(ROUNDS)),
    f"own-namespaces python -m packages.machines.tests.beside_mininet --rounds {ROUNDS}",
)
_DEATHS = Step(
    "deaths",
    (_NAMESPACES, sys.executable, "-m", "pytest", "-n", "0", "-s", "-m", "soak", _DEATHS_FILE),
    f"own-namespaces python -m pytest -n 0 -s -m soak {_DEATHS_FILE}",
)
_KINDS = ("mininet", "direct", "vxlan")
_FIGURES = {
    "worker's CPU": "CPU of an RPC at the worker",
    "server's CPU": "CPU of an RPC at the server",
    "RPC, median": "latency of an RPC",
    "empty RPC, median": "latency of an empty RPC",
}
"""Figure of the command -> name of its row."""
_ENDS = {
    "a machine with agents": (
        "`beta` is killed",
        "ends, and says that it is lost, and what is unknown of its pushes",
    ),
    "the switch's machine": ("`alpha` is killed", "ends, and says that it is lost"),
    "a machine that is cut off": (
        "`beta` is cut off",
        "ends; `beta` ends its agents by itself, before it is back",
    ),
    "the scheduler": ("the scheduler is killed", "ends, and says that it cannot be reached"),
    "a supervisor": (
        "the supervisor on `beta` is killed",
        "ends; its interfaces are removed by the next run or `hotline down MACHINES=…`",
    ),
    "dask's worker": ("the worker of dask on `beta` is killed", "ends, and says that it has ended"),
    "Ctrl-C": ("Ctrl-C", "ends"),
    "the runner": ("`hotline run` is killed", "all supervisors end by themselves"),
}
"""Name of the test's case -> what happens, and what the run does."""
_ELAPSED = re.compile(rf"({'|'.join(map(re.escape, _ENDS))}) ([\d.]+) s ")


def cost_tables(folder: Path) -> dict[str, Table]:
    runs: dict[str, list[Mapping[str, float]]] = {kind: [] for kind in _KINDS}
    for line in text_output(folder, _COST.name).splitlines():
        kind, _, numbers = line.partition(" ")
        if kind in runs and numbers.startswith("{"):
            runs[kind].append(ast.literal_eval(numbers))
    if {len(found) for found in runs.values()} != {ROUNDS}:
        counts = {kind: len(found) for kind, found in runs.items()}
        raise EvidenceError(f"{folder / _COST.name}: expected {ROUNDS} runs of each kind, found {counts}")
    return {
        "machines-cost": make_table(
            "cost of an RPC on machines that are namespaces, beside Mininet",
            f"median of {ROUNDS} runs on Mininet; geometric mean of the ratios to the Mininet run of the "
            "same turn, and their range",
            ("",),
            {"Mininet": "{:.0f} µs", "`direct`": "× {:.2f}", "`vxlan`": "× {:.2f}"},
            {(title,): list(_costs(runs, figure)) for figure, title in _FIGURES.items()},
        )
    }


def _costs(runs: Mapping[str, Sequence[Mapping[str, float]]], figure: str) -> list[Cell]:
    base = [run[figure] for run in runs["mininet"]]
    cells: list[Cell] = [median(base)]
    for kind in _KINDS[1:]:
        ratios = [run[figure] / of for run, of in zip(runs[kind], base, strict=True)]
        cells.append(Measured(value=geometric_mean(ratios), low=min(ratios), high=max(ratios)))
    return cells


def death_tables(folder: Path) -> dict[str, Table]:
    elapsed = dict(_ELAPSED.findall(text_output(folder, _DEATHS.name)))
    if set(elapsed) != set(_ENDS):
        raise EvidenceError(
            f"{folder / _DEATHS.name}: expected times of {sorted(_ENDS)}, found {sorted(elapsed)}"
        )
    rows: dict[tuple[str, ...], list[Cell]] = {row: [float(elapsed[name])] for name, row in _ENDS.items()}
    durable = "goes on: p1 restarts on `gamma`, no update is lost"
    rows["`beta` is killed, with durable servers and shared storage", durable] = [None]
    return {
        "machines-deaths": make_table(
            "what a run on machines does when something dies in its middle",
            "seconds until the run has ended, of one run each",
            ("what happens in the middle of a run", "the run"),
            {"after, s": "{:.1f}"},
            rows,
        )
    }


MACHINES = Stage(
    name="machines",
    minutes=15,
    results=("machines-cost",),
    steps=(_COST,),
    tables=cost_tables,
    modules=REAL_RUN,
    files=("packages/machines/src/**/*.py", "packages/machines/tests/beside_mininet.py"),
    needs="two quiet cores and root",
)
DEATHS = Stage(
    name="machines-deaths",
    minutes=8,
    results=("machines-deaths",),
    steps=(_DEATHS,),
    tables=death_tables,
    modules=REAL_RUN,
    files=("packages/machines/src/**/*.py", _DEATHS_FILE),
    needs="root",
)
STAGES = (DEATHS, MACHINES)
