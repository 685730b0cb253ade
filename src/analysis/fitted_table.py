"""Tables of a terminal that keep all their numbers when the terminal is narrow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_UNBOUNDED = 10_000  # columns, more than any table has


class FittedTable:
    """A table that becomes several, one below the other, where its columns do not fit side by side.

    Each of them has the columns `repeated`, of which the first has the rows' titles, and some of `others`.
    """

    def __init__(
        self, repeated: Sequence[str], others: Sequence[str], padding: tuple[int, int, int, int]
    ) -> None:
        self._repeated = repeated
        self._others = others
        self._padding = padding
        self._rows: list[tuple[str | Text, ...]] = []

    def add_row(self, *cells: str | Text) -> None:
        self._rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        begin = 0
        while not begin or begin < len(self._others):  # without others there are the repeated ones
            end = len(self._others)
            while end > begin + 1 and self._width(begin, end, console, options) > options.max_width:
                end -= 1
            yield self._table(begin, end)
            begin = max(end, 1)

    def _width(self, begin: int, end: int, console: Console, options: ConsoleOptions) -> int:
        return Measurement.get(console, options.update_width(_UNBOUNDED), self._table(begin, end)).maximum

    def _table(self, begin: int, end: int) -> Table:
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=self._padding)
        first = len(self._repeated)
        shown = [*range(first), *range(first + begin, first + end)]
        titles = [*self._repeated, *self._others]
        for number in shown:
            table.add_column(titles[number], justify="right" if number else "left", no_wrap=True)
        for row in self._rows:
            table.add_row(*(row[number] for number in shown))
        return table
