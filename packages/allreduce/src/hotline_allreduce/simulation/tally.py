"""Count the results of many schedules.

`python -m hotline_allreduce.simulation.tally` prints those of psdense and ring.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import click
from rich.console import Console
from rich.progress import track

from hotline_allreduce.simulation.player import AllReduceVerdict, play
from hotline_allreduce.simulation.schedule import FAULTS, draw_all_reduces
from hotline_allreduce.simulation.subject import PSDENSE, RING, Subject

TABLE_VERDICTS = (AllReduceVerdict.EQUAL, AllReduceVerdict.STALLED, AllReduceVerdict.WRONG)


@dataclass
class VerdictCounts:
    fault: str
    subject: Subject
    counts: dict[AllReduceVerdict, int] = field(default_factory=lambda: dict.fromkeys(AllReduceVerdict, 0))
    first_seeds: dict[AllReduceVerdict, int] = field(default_factory=dict)

    @property
    def arm(self) -> str:
        return self.subject.arm.name

    def play(self, seed: int) -> None:
        verdict = play(self.subject, draw_all_reduces(self.subject.range, self.fault, seed)).verdict
        self.counts[verdict] += 1
        self.first_seeds.setdefault(verdict, seed)

    def to_dict(self) -> dict[str, object]:
        counts = {verdict.value: count for verdict, count in self.counts.items()}
        first_seeds = {verdict.value: seed for verdict, seed in self.first_seeds.items()}
        return {"fault": self.fault, "arm": self.arm, "schedules": counts, "first_seed": first_seeds}


def table_lines(rows: list[VerdictCounts]) -> list[str]:
    arms = list(dict.fromkeys(row.arm for row in rows))
    headings = [f"{arm}: {verdict.value}" for arm in arms for verdict in TABLE_VERDICTS]
    lines = [f"| fault | {' | '.join(headings)} |", f"|---|{'---:|' * len(headings)}"]
    for fault in dict.fromkeys(row.fault for row in rows):
        row_by_arm = {row.arm: row for row in rows if row.fault == fault}
        numbers = [f"{row_by_arm[arm].counts[verdict]:,}" for arm in arms for verdict in TABLE_VERDICTS]
        lines.append(f"| {FAULTS[fault]} | {' | '.join(numbers)} |")
    return lines


def table_command(subjects: Sequence[Subject]) -> click.Command:
    @click.command()
    @click.option(
        "--schedules", type=click.IntRange(min=1), default=100, show_default=True,
        help="Schedules of each fault in each arm.",
    )  # fmt: skip
    @click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="First seed.")
    @click.option("--json", "as_json", is_flag=True, help="Print rows as JSON instead of a table.")
    def main(schedules: int, seed: int, as_json: bool) -> None:
        """Play schedules of all faults in all arms; exit with 1 if a worker stalls without reporting it.

        With --json each row has the first seed of every verdict, for `draw_all_reduces` and `play`.
        """
        faults = subjects[0].range.faults
        rows = [VerdictCounts(fault, subject) for fault in faults for subject in subjects]
        plays = [(row, seed + k) for k in range(schedules) for row in rows]
        for row, schedule_seed in track(plays, "schedules", console=Console(stderr=True), transient=True):
            row.play(schedule_seed)
        click.echo(json.dumps([row.to_dict() for row in rows]) if as_json else "\n".join(table_lines(rows)))
        raise SystemExit(any(row.counts[AllReduceVerdict.SILENT] for row in rows))

    return main


main = table_command([PSDENSE, RING])

if __name__ == "__main__":
    main()
