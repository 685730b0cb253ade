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


def times_stage(
    name: str, minutes: float, quantity: str, timed: Sequence[Timed], modules: Sequence[str], needs: str
) -> Stage:
    """Return the stage of commands, whose only result has the stage's name; `quantity` is its table's."""
    return Stage(
        name=name,
        minutes=minutes,
        results=(name,),
        steps=tuple(each.step() for each in timed),
        tables=lambda folder: {name: _table(quantity, timed, folder)},
        modules=tuple(modules),
        files=("tools/scripts/setup", "requirements.lock", "p4src/**/*.json"),
        needs=needs,
    )


def _table(quantity: str, timed: Sequence[Timed], folder: Path) -> Table:
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


COMMAND_TIMES = times_stage(
    "command-times",
    5,
    "time of commands on two idle cores",
    (
        Timed(
            "first-run",
            {"make setup": "`make setup`", "make run-topo": "`make run-topo` then"},
            is_fresh=True,
        ),
        Timed("simulate", {"./hotline simulate": "`./hotline simulate`"}),
    ),
    REAL_RUN,
    "two quiet cores, root, and a package index",
)
