"""The fair tables of the package's README: `python -m hotline_allreduce.study.fair_docs` renews them.

The command simulates their rows, and writes the results into docs/fair.json and the tables into README.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from pydantic import TypeAdapter

from foundation.logs.parts import write_text
from hotline_allreduce.study.fair import fair_tables
from hotline_allreduce.study.numbers import FairGoodput, fair_goodputs
from hotline_allreduce.study.plan import FULL, fair_points
from simulator.study import Results

PACKAGE = Path(__file__).parents[3]
README, RESULTS = PACKAGE / "README.md", PACKAGE / "docs" / "fair.json"
ROWS = TypeAdapter(list[FairGoodput])


def marks_of(table: str) -> tuple[str, str]:
    """Return the lines of README.md between which a table is."""
    return f"<!-- {table}, made by `python -m hotline_allreduce.study.fair_docs` -->", "<!-- end -->"


def table_lines(rows: Sequence[FairGoodput]) -> list[str]:
    speeds = [f"{gbit:g} Gbit/s" for gbit in rows[0].goodput]
    lines = [f"| | values a packet | packets in flight | {' | '.join(speeds)} |", "|---" + "|---:" * 4 + "|"]
    for row in rows:
        rates = [f"{1e-6 * rate:,.0f}" for rate in row.goodput.values()]
        name = row.scheme.partition(",")[0]
        lines.append(f"| `{name}` | {row.chunk_size} | {row.window} | {' | '.join(rates)} |")
    return lines


def with_tables(text: str, rows: Sequence[FairGoodput]) -> str:
    """Return README's text with the tables of these rows."""
    for table in fair_tables():
        begin, end = marks_of(table)
        before, found, rest = text.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found and found_end):
            raise click.ClickException(f"{README}: expected a table between the lines {begin} and {end}")
        lines = table_lines([row for row in rows if row.table == table])
        text = f"{before}{begin}\n\n" + "\n".join(lines) + f"\n\n{end}{after}"
    return text


@click.command()
def main() -> None:
    """Simulate the rows of the fair tables, and write them into README.md and docs/fair.json."""
    points = {
        point.name: point
        for rows in fair_tables().values()
        for row in rows
        for point in fair_points(FULL, row).values()
    }
    rows = fair_goodputs(FULL, Results({name: point.run() for name, point in points.items()}))
    text = with_tables(README.read_text(), rows)
    write_text(RESULTS, ROWS.dump_json(rows, indent=1).decode() + "\n")
    write_text(README, text)


if __name__ == "__main__":
    main()
