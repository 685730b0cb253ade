"""A table that a page shows, as a file of numbers with what made it."""

from __future__ import annotations

import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeAlias

from experiment.machine import describe_machine
from foundation.checkout import ROOT
from foundation.logs.parts import write_into_folder
from foundation.settings import Strict

Cell: TypeAlias = str | int | float | None


class PublishedTable(Strict):
    title: str
    command: str
    """What makes the table anew."""
    commit: str
    date: str
    machine: dict[str, str | int]
    seeds: tuple[int, ...]
    sources: tuple[dict[str, object], ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def write(self, path: Path) -> None:
        write_into_folder(path, self.model_dump_json(indent=1) + "\n")

    def markdown(self) -> str:
        """Return the table as a page has it."""
        first = self.rows[0] if self.rows else self.columns
        rule = ["---:" if isinstance(cell, int | float) or cell is None else "---" for cell in first]
        lines = [self.columns, rule, *(map(cell_text, row) for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell_text(cell: Cell) -> str:
    return "–" if cell is None else f"{cell:,}" if isinstance(cell, int | float) else cell


def provenance() -> dict[str, object]:
    """Return commit, date and machine, for a table that is made now."""
    machine = describe_machine()
    return {
        "commit": _commit(),
        "date": datetime.now(timezone.utc).date().isoformat(),
        "machine": {"cpu": machine["cpu"], "cores": machine["cpus"], "kernel": machine["kernel"]},
    }


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no checkout"
