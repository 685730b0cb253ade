"""Tables of the pages: each between markers that name its result, or marked as not measured.

<!-- result NAME -->                            <!-- not measured -->

| ... the table of results/NAME.json            | ... any other table

<!-- end -->
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from itertools import chain
from pathlib import Path

from foundation.checkout import ROOT
from tools.evidence.result import Cell, EvidenceError, Measured, Result, cell_text

_MARKED = re.compile(r"(?P<begin><!-- result (?P<name>[\w-]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)
_NOT_MEASURED = "<!-- not measured -->"
_RULE = re.compile(r"\|[-:| ]+\|")
_LINK = re.compile(
    r"(?<!`)\[(?P<text>[^\]]+)\]\((?P<path>[^)#\s]*results/(?P<name>[\w-]+)\.json)(?:#(?P<cells>[^)]*))?\)"
)
_INTERVAL = re.compile(r"(?:\s+[^\s\[\]]+)?\s+(?P<interval>\[[^\]]*\])(?!\()")


def pages(root: Path = ROOT) -> list[Path]:
    """Return the pages of today: those of the past have the numbers of their time."""
    folders = root, *sorted((root / "packages").iterdir())
    found = chain(*((*each.glob("*.md"), *sorted((each / "docs").rglob("*.md"))) for each in folders))
    return [page for page in found if page.name != "CHANGELOG.md" and "decisions" not in page.parts]


def with_tables(text: str, results: Mapping[str, Result], page: str, pending: Container[str] = ()) -> str:
    """Return a page's text with the tables of the results; raises `EvidenceError` for an unknown name.

    Tables of results that are `pending`, because their stage has not run, stay as they are.
    """

    def table(match: re.Match[str]) -> str:
        if match["name"] in pending and match["name"] not in results:
            return match[0]
        if (result := results.get(match["name"])) is None:
            raise EvidenceError(f"{page}: {match['name']}: expected the name of a file of results/")
        return "\n".join([match["begin"], *result.table.markdown(), "", match["end"]])

    return _MARKED.sub(table, text)


def names_of(text: str) -> set[str]:
    """Return the names of the results that a page shows or links."""
    return {match["name"] for match in chain(_MARKED.finditer(text), _LINK.finditer(text))}


def unmarked_tables(text: str) -> Iterator[int]:
    """Yield the line numbers of tables that are neither a result's nor marked as not measured."""
    lines = _MARKED.sub(lambda match: "\n" * match[0].count("\n"), text).split("\n")
    for number, line in enumerate(lines):
        if _RULE.fullmatch(line.strip()) and number and lines[number - 1].lstrip().startswith("|"):
            before = [each for each in lines[: number - 1] if each.strip()]
            if not before or before[-1] != _NOT_MEASURED:
                yield number


def wrong_links(text: str, results: Mapping[str, Result]) -> Iterator[str]:
    """Yield the links to results whose text lacks a number that they name, or its interval.

    A link `[2.9 times](results/NAME.json#ROW:COLUMN)` names cells, separated by commas and with `-` for each
    letter that is neither letter nor digit; its text has to have the value of each. Where a cell has an
    interval, it follows the link, as in `[-51 %](...) [-55, -48]` or, after a unit, `[2](...) µs [-1, 4]`.
    """
    for match in _LINK.finditer(text):
        if (result := results.get(match["name"])) is None:
            yield f"{match['path']}: expected the name of a file of results/"
            continue
        cells = _cells(result)
        for name in filter(None, (match["cells"] or "").split(",")):
            if name not in cells:
                yield f"{match['path']}: no cell {name}"
                continue
            value, interval = cells[name]
            if value not in match["text"]:
                yield f"{match['path']}#{name}: {value!r} is not in {match['text']!r}"
            shown = _INTERVAL.match(text, match.end())
            if interval and (shown is None or shown["interval"] != interval):
                yield f"{match['path']}#{name}: {interval!r} does not follow {match['text']!r}"


def _cells(result: Result) -> dict[str, tuple[str, str]]:
    """Return the text of each value and of its interval, by the name that links give it."""
    return {
        f"{_slug(row.name)}:{_slug(column.name)}": _value_and_interval(cell, row.form or column.form)
        for row in result.table.rows
        for column, cell in zip(result.table.columns, row.cells, strict=True)
    }


def _value_and_interval(cell: Cell, form: str) -> tuple[str, str]:
    if not isinstance(cell, Measured):
        return cell_text(cell, form), ""
    value = cell_text(cell.value, form)
    return value, cell_text(cell, form).removeprefix(value).lstrip()


def _slug(name: str) -> str:
    return re.sub(r"[^\w]+", "-", name.lower()).strip("-")
