"""What came of many schedules, and a command that prints it as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import click
from rich.console import Console
from rich.progress import track

from simulator.dense.player import Cell, play
from simulator.dense.schedule import FAULTS, draw
from simulator.dense.subject import Subject

SHOWN = (Cell.EQUAL, Cell.STALLED, Cell.WRONG)


@dataclass
class Tally:
    """Of a fault with a subject: how many schedules came to what, and the seed of the first of each."""

    fault: str
    subject: Subject
    counts: dict[Cell, int] = field(default_factory=lambda: dict.fromkeys(Cell, 0))
    first: dict[Cell, int] = field(default_factory=dict)

    @property
    def arm(self) -> str:
        """Its name."""
        return self.subject.arm.name

    def add(self, seed: int) -> None:
        """Play another."""
        cell = play(self.subject, draw(self.subject.range, self.fault, seed)).cell
        self.counts[cell] += 1
        self.first.setdefault(cell, seed)

    def to_dict(self) -> dict[str, object]:
        """As JSON has it."""
        counts = {cell.value: count for cell, count in self.counts.items()}
        first = {cell.value: seed for cell, seed in self.first.items()}
        return {"fault": self.fault, "arm": self.arm, "schedules": counts, "first_seed": first}


def tally(fault: str, subject: Subject, first_seed: int, schedules: int) -> Tally:
    """Play the schedules of some seeds."""
    found = Tally(fault, subject)
    for seed in range(first_seed, first_seed + schedules):
        found.add(seed)
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


def table_of(subjects: Sequence[Subject]) -> click.Command:
    """A command for these."""

    @click.command()
    @click.option(
        "--schedules", type=click.IntRange(min=1), default=100, show_default=True,
        help="Of each fault in each arm.",
    )  # fmt: skip
    @click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the first.")
    @click.option("--json", "as_json", is_flag=True, help="Rows instead of a table.")
    def main(schedules: int, seed: int, as_json: bool) -> None:
        """Play schedules of all faults in all arms; ends with 1 if somebody stalls and does not say so.

        With --json each row has the seed of the first schedule of every kind, for `draw` and `play`."""
        rows = [Tally(fault, subject) for fault in FAULTS for subject in subjects]
        steps = [(row, seed + k) for k in range(schedules) for row in rows]
        for row, number in track(steps, "schedules", console=Console(stderr=True), transient=True):
            row.add(number)
        click.echo(json.dumps([row.to_dict() for row in rows]) if as_json else "\n".join(lines(rows)))
        raise SystemExit(any(row.counts[Cell.SILENT] for row in rows))

    return main
