"""A table that a page shows, as a file of `results/` has it (docs/architecture.md)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeAlias

from experiment.machine import describe_machine
from foundation.checkout import ROOT
from foundation.logs.parts import write_into_folder
from foundation.protocol.header import VERSION
from foundation.settings import Strict

Cell: TypeAlias = float | str | None
PERCENT, NUMBER = "{:.1f}", "{:,.0f}"
"""How the numbers of a column are written."""


class PublishedColumn(Strict):
    name: str
    form: str


class PublishedRow(Strict):
    names: tuple[str, ...]
    cells: tuple[Cell, ...]


class PublishedTable(Strict):
    quantity: str
    statistic: str
    headings: tuple[str, ...]
    columns: tuple[PublishedColumn, ...]
    rows: tuple[PublishedRow, ...]

    def texts(self) -> list[list[str]]:
        """Return the names and cells of each row as text."""
        return [
            [*row.names, *map(_text, row.cells, (column.form for column in self.columns))]
            for row in self.rows
        ]


def _text(cell: Cell, form: str) -> str:
    return "–" if cell is None else cell if isinstance(cell, str) else form.format(cell)


def published_table(
    quantity: str, headings: Sequence[str], columns: Mapping[str, str], rows: Iterable[tuple[Cell, ...]]
) -> PublishedTable:
    """Return a table; the first cells of a row are its names, one for each heading."""
    return PublishedTable(
        quantity=quantity,
        statistic="one replay of each log; its second half is scored",
        headings=tuple(headings),
        columns=tuple(PublishedColumn(name=name, form=form) for name, form in columns.items()),
        rows=tuple(
            PublishedRow(names=tuple(map(str, row[: len(headings)])), cells=row[len(headings) :])
            for row in rows
        ),
    )


class PublishedResult(Strict):
    stage: str
    table: PublishedTable
    origin: dict[str, object]

    def write(self, path: Path) -> None:
        write_into_folder(path, self.model_dump_json(indent=1) + "\n")


def origin_of(command: str, seeds: Sequence[int], recipe: str) -> dict[str, object]:
    """Return where and when a table is made that needs more than the repository."""
    machine = describe_machine()
    return {
        "commands": [command],
        "commit": _commit(),
        "code": "",
        "wire": VERSION,
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": {"cpu": machine["cpu"], "cores": machine["cpus"], "kernel": machine["kernel"]},
        "seeds": list(seeds),
        "recipe": recipe,
    }


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no checkout"
