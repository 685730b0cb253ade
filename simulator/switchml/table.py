"""What came of many schedules: `python -m simulator.switchml.table` prints the table of docs/switchml.md.

With `--json` it is a list of rows; each has the seed of the first schedule of every kind, for
`play(draw(fault, seed), arm)`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import click
from rich.console import Console
from rich.progress import track

from foundation.designs.interface import Arm
from foundation.designs.switchml import DESIGN
from simulator.switchml.player import Cell, play
from simulator.switchml.schedule import FAULTS, draw

SHOWN = (Cell.EQUAL, Cell.STALLED, Cell.WRONG)


@dataclass
class Tally:
    """Of a fault in an arm: how many schedules came to what, and the seed of the first of each."""

    fault: str
    arm: str
    counts: dict[Cell, int] = field(default_factory=lambda: dict.fromkeys(Cell, 0))
    first: dict[Cell, int] = field(default_factory=dict)

    def add(self, arm: Arm, seed: int) -> None:
        """Play another."""
        cell = play(draw(self.fault, seed), arm).cell
        self.counts[cell] += 1
        self.first.setdefault(cell, seed)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        counts = {cell.value: count for cell, count in self.counts.items()}
        first = {cell.value: seed for cell, seed in self.first.items()}
        return {"fault": self.fault, "arm": self.arm, "schedules": counts, "first_seed": first}


def tally(fault: str, arm: Arm, first_seed: int, schedules: int) -> Tally:
    """Play the schedules of some seeds."""
    found = Tally(fault, arm.name)
    for seed in range(first_seed, first_seed + schedules):
        found.add(arm, seed)
    return found


def lines(rows: list[Tally]) -> list[str]:
    """The table: a row for each fault, and the cells of each arm."""
    arms = list(dict.fromkeys(row.arm for row in rows))
    heads = [f"{arm}: {cell.value}" for arm in arms for cell in SHOWN]
    found = [f"| fault | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    for fault in dict.fromkeys(row.fault for row in rows):
        of_fault = {row.arm: row for row in rows if row.fault == fault}
        numbers = [f"{of_fault[arm].counts[cell]:,}" for arm in arms for cell in SHOWN]
        found.append(f"| {FAULTS[fault]} | {' | '.join(numbers)} |")
    return found


@click.command()
@click.option("--schedules", default=100, show_default=True, help="Of each fault in each arm.")
@click.option("--seed", default=0, show_default=True, help="Of the first.")
@click.option("--json", "as_json", is_flag=True, help="Rows instead of a table.")
def main(schedules: int, seed: int, as_json: bool) -> None:
    """Play schedules of all faults in all arms; ends with 1 if somebody stalls and does not say so."""
    rows = [(Tally(fault, arm.name), arm) for fault in FAULTS for arm in DESIGN.arms]
    steps = [(row, arm, seed + k) for k in range(schedules) for row, arm in rows]
    for row, arm, number in track(steps, "schedules", console=Console(stderr=True), transient=True):
        row.add(arm, number)
    found = [row for row, _ in rows]
    click.echo(json.dumps([row.to_dict() for row in found]) if as_json else "\n".join(lines(found)))
    raise SystemExit(any(row.counts[Cell.SILENT] for row in found))


if __name__ == "__main__":
    main()
