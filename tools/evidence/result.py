"""A published table as a file of `results/`: its numbers, and where, when and how they were made."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TypeAlias

from pydantic import ValidationError, field_validator, model_validator
from typing_extensions import Self

from foundation.checkout import ROOT
from foundation.errors import HotlineError
from foundation.logs.parts import read_text, write_text
from foundation.settings import Strict, first_error

RESULTS = ROOT / "results"
_PLACE = re.compile(r"\{:[^{}]*\}")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
NOTHING = "–"


class EvidenceError(HotlineError):
    pass


class Measured(Strict):
    """A number with its interval, all three in the unit of the cell's form."""

    value: float
    low: float
    high: float

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"expected low ≤ value ≤ high, found {self.low}, {self.value} and {self.high}")
        return self


Cell: TypeAlias = float | Measured | tuple[float, ...] | str | None
"""A number, one with its interval, several of which the column says what each is, a word, or nothing."""


class Row(Strict):
    names: tuple[str, ...]
    """A text for each of the table's headings; together they identify the row."""
    cells: tuple[Cell, ...]
    form: str | None = None
    """How the row's numbers are written, in the language of `str.format`; None means as the columns say."""

    @property
    def name(self) -> str:
        return ", ".join(filter(None, self.names))

    @field_validator("form")
    @classmethod
    def _check_form(cls, form: str | None) -> str | None:
        return None if form is None else _checked(form)


class Column(Strict):
    name: str
    form: str = "{:,.0f}"

    @field_validator("form")
    @classmethod
    def _check_form(cls, form: str) -> str:
        return _checked(form)


class Table(Strict):
    """The numbers of one table.

    `quantity` says what they are, as no other result does, together with the names of row and column.
    `statistic` says what a value and its interval are, the same for all cells. The columns of `headings` have
    the rows' names.
    """

    quantity: str
    statistic: str
    headings: tuple[str, ...] = ("",)
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @model_validator(mode="after")
    def _check_cells(self) -> Self:
        for names in ([row.name for row in self.rows], [column.name for column in self.columns]):
            if repeated := sorted(name for name, number in Counter(names).items() if number > 1):
                raise ValueError(f"expected each row and column once, found {repeated[0]!r} twice")
        expected = len(self.headings), len(self.columns)
        for row in self.rows:
            if (found := (len(row.names), len(row.cells))) != expected:
                raise ValueError(f"row {row.name!r}: expected (names, cells) as {expected}, found {found}")
        return self

    def claims(self) -> Iterator[tuple[str, str, str]]:
        """Yield what is claimed: quantity, row and column of each number."""
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                if isinstance(cell, float | Measured | tuple):
                    yield self.quantity, row.name, column.name

    def cell(self, row_name: str, column_name: str) -> Cell:
        """Return a cell; raises `EvidenceError` for a row or column that is not there."""
        row, number = self._place(row_name, column_name)
        return row.cells[number]

    def text_of(self, row_name: str, column_name: str) -> str:
        """Return a cell as pages show it; raises `EvidenceError` for a row or column that is not there."""
        row, number = self._place(row_name, column_name)
        return cell_text(row.cells[number], row.form or self.columns[number].form)

    def _place(self, row_name: str, column_name: str) -> tuple[Row, int]:
        row = next((each for each in self.rows if each.name == row_name), None)
        names = [column.name for column in self.columns]
        if row is None or column_name not in names:
            raise EvidenceError(f"{self.quantity}: no row {row_name!r} with a column {column_name!r}")
        return row, names.index(column_name)

    def markdown(self) -> list[str]:
        """Return the table's lines."""
        names = [*self.headings, *(column.name for column in self.columns)]
        lines = [
            [*row.names, *(self.text_of(row.name, column.name) for column in self.columns)]
            for row in self.rows
        ]
        rules = [
            *(
                "---:" if all(map(_is_number, texts)) else "---"
                for texts in zip(*(row.names for row in self.rows), strict=True)
            ),
            *(_rule(row.cells[number] for row in self.rows) for number in range(len(self.columns))),
        ]
        return [_line(names), f"|{'|'.join(rules)}|", *map(_line, lines)]


def make_table(
    quantity: str,
    statistic: str,
    headings: tuple[str, ...],
    columns: Mapping[str, str],
    rows: Mapping[tuple[str, ...], Sequence[Cell]],
) -> Table:
    """Return a table of columns, each with its form, and rows by their names."""
    return Table(
        quantity=quantity, statistic=statistic, headings=headings,
        columns=tuple(Column(name=name, form=form) for name, form in columns.items()),
        rows=tuple(Row(names=names, cells=tuple(cells)) for names, cells in rows.items()),
    )  # fmt: skip


class Machine(Strict):
    cpu: str
    cores: int
    kernel: str


class Origin(Strict):
    """Commands, code, time and machine that made a result."""

    commands: tuple[str, ...]
    commit: str
    code: str
    """Digest of the code that makes the numbers."""
    wire: int
    date: date
    machine: Machine
    seeds: tuple[int, ...] = ()
    recipe: str | None = None
    """How to make the numbers with what is not in the repository, in words."""
    sources: tuple[str, ...] = ()
    """Patterns of the files whose numbers the recipe makes; a stage knows its own."""

    @model_validator(mode="after")
    def _check_sources(self) -> Self:
        if (self.recipe is None) != (not self.sources):
            raise ValueError(f"expected sources with a recipe, and none without, found {self.sources}")
        return self


class Result(Strict):
    stage: str
    table: Table
    origin: Origin


def cell_text(cell: Cell, form: str) -> str:
    if cell is None:
        return NOTHING
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Measured):
        [place] = _PLACE.findall(form)
        return f"{form.format(cell.value)} [{place.format(cell.low)}, {place.format(cell.high)}]"
    if isinstance(cell, tuple):
        return ", ".join(map(form.format, cell))
    return form.format(cell)


def _line(texts: Iterable[str]) -> str:
    return "|" + "|".join(f" {text} " if text else " " for text in texts) + "|"


def _rule(cells: Iterable[Cell]) -> str:
    return "---" if all(isinstance(cell, str) for cell in cells) else "---:"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[\d,.]+", text) is not None


def _checked(form: str) -> str:
    if len(_PLACE.findall(form)) != 1:
        raise ValueError(f"expected one place for a number, as in '{{:.1f}} %', found {form!r}")
    form.format(0.0)
    return form


def result_path(name: str, folder: Path = RESULTS) -> Path:
    return folder / f"{name}.json"


def read_results(folder: Path = RESULTS) -> dict[str, Result]:
    """Return all results by name; raises `EvidenceError` for a file that is none."""
    return {path.stem: read_result(path) for path in sorted(folder.glob("*.json"))}


def read_result(path: Path) -> Result:
    if not _NAME.fullmatch(path.stem):
        raise EvidenceError(f"{path}: expected a name of small letters, digits and single hyphens")
    try:
        return Result.model_validate_json(read_text(path))
    except ValidationError as error:
        raise EvidenceError(f"{path}: {first_error(error)}") from None


def published_table(name: str) -> Table:
    """Return the table of a published result, by the name of its file."""
    return read_result(result_path(name)).table


def write_result(name: str, result: Result, folder: Path = RESULTS) -> None:
    write_text(result_path(name, folder), result.model_dump_json(indent=1, exclude_none=True) + "\n")
