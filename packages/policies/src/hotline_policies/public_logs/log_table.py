"""A table from public logs, as a page shows it."""

from __future__ import annotations

from typing import TypeAlias

from foundation.settings import Strict

Cell: TypeAlias = str | int | float | None


class LogTable(Strict):
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def markdown(self) -> str:
        first = self.rows[0] if self.rows else self.columns
        rule = ["---:" if isinstance(cell, int | float) or cell is None else "---" for cell in first]
        lines = [self.columns, rule, *(map(cell_text, row) for row in self.rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell_text(cell: Cell) -> str:
    return "–" if cell is None else f"{cell:,}" if isinstance(cell, int | float) else cell
