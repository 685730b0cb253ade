"""How long commands of the pages take, and how much memory: a stage of such commands, and the core's."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.evidence.command_times import Usage
from tools.evidence.result import Cell, EvidenceError, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step, json_output


@dataclass(frozen=True, slots=True)
class Timed:
    """A step of commands that run one after another."""

    name: str
    commands: Mapping[str, str]
    """Command -> how the table has it."""
    is_fresh: bool = False
    """Whether they run in a new clone, in which nothing is installed or compiled."""

    def step(self) -> Step:
        where = ("--clone", "{folder}/clone") if self.is_fresh else ()
        words = (sys.executable, "-m", "tools.evidence.command_times", *where, *self.commands)
        return Step(self.name, words, "; ".join(self.commands) + "   # in a new clone" * self.is_fresh)


def times_table(quantity: str, timed: Sequence[Timed], folder: Path) -> Table:
    """Return the table of the commands' times; `folder` is the stage's."""
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for each in timed:
        found = json_output(folder, each.name)
        for command, title in each.commands.items():
            if command not in found:
                raise EvidenceError(f"{folder / each.name}: no usage of {command!r}")
            usage = Usage.model_validate(found[command])
            rows[title,] = [usage.seconds, usage.cpu_s, usage.peak_bytes / 1e9]
    return make_table(
        quantity,
        "one execution each, with pip's downloads in its cache; the memory is that of the largest process",
        ("command",),
        {"time": "{:,.0f} s", "CPU time": "{:,.0f} s", "memory": "{:.1f} GB"},
        rows,
    )


_TIMED = (
    Timed(
        "first-run", {"make setup": "`make setup`", "make run-topo": "`make run-topo` then"}, is_fresh=True
    ),
    Timed("simulate", {"make simulate": "`make simulate`"}),
)


def tables(folder: Path) -> dict[str, Table]:
    return {"command-times": times_table("time of commands on two idle cores", _TIMED, folder)}


COMMAND_TIMES = Stage(
    name="command-times",
    minutes=5,
    results=("command-times",),
    steps=tuple(each.step() for each in _TIMED),
    tables=tables,
    modules=REAL_RUN,
    files=("scripts/setup", "requirements.lock", "p4src/**/*.json"),
    needs="two quiet cores, root, and a package index",
)
