"""Look-alikes of public logs, in each dialect: the accesses that were written are those that are read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from foundation.logs.access import log_files
from foundation.logs.access.dialect import BINARY_FORMATS, FORMATS
from foundation.logs.access.format_detection import BINARY, TEXT
from tests.harness.access_logs import read
from tests.harness.lookalikes import (
    LINE_ENDS,
    OTHERS,
    PACKINGS,
    SEPARATORS,
    TABLES,
    Lookalike,
    other,
    pulls_of,
    rows_of,
    signatures,
    table,
)

_SMALL_BLOCK = 200


def _tables() -> Iterator[tuple[str, str, bool]]:
    for kind, separator, has_header in product(TABLES, SEPARATORS, (True, False)):
        if separator not in TABLES[kind].excluded and (has_header or TABLES[kind].without_header):
            yield kind, separator, has_header


def _check(folder: Path, lookalike: Lookalike, packing: str, line_end: str, ends: bool) -> None:
    path = folder / "log"
    path.write_bytes(PACKINGS[packing](lookalike.data(line_end, ends)))
    found = read(folder, path, columns=lookalike.columns)
    rows = rows_of(found)
    assert [len(row) for row in rows] == [len(set(row)) for row in lookalike.accesses], found.notes
    assert signatures(rows) == signatures(lookalike.accesses), found.notes
    assert "left out" in found.notes[0] or ";" in found.notes[0]
    if lookalike.pulls is not None:
        assert pulls_of(found) == lookalike.pulls
    if found.tables == ():  # integers of one table stay as they are
        written = [{key for _, key in row} for row in lookalike.accesses]
        if all(isinstance(key, int) for row in written for key in row):
            assert [{key for _, key in row} for row in rows] == written


_VARIANTS = list(product(PACKINGS, LINE_ENDS, (True, False)))


@pytest.mark.parametrize(("kind", "separator", "has_header"), list(_tables()))
def test_a_table_in_each_dialect_is_read_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, separator: str, has_header: bool
) -> None:
    number = list(_tables()).index((kind, separator, has_header))
    monkeypatch.setattr(log_files, "BLOCK_BYTES", _SMALL_BLOCK if number % 2 else log_files.BLOCK_BYTES)
    # Each packing and line end is met with many kinds; all combinations are in
    # `test_all_variants_of_look_alikes_are_read_as_written`.
    _check(tmp_path, table(kind, separator, has_header), *_VARIANTS[7 * number % len(_VARIANTS)])


@pytest.mark.parametrize("line_end", LINE_ENDS, ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("kind", OTHERS)
def test_logs_that_are_no_tables_are_read_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, line_end: str
) -> None:
    number = 3 * list(OTHERS).index(kind) + LINE_ENDS.index(line_end)
    monkeypatch.setattr(log_files, "BLOCK_BYTES", _SMALL_BLOCK if number % 2 else log_files.BLOCK_BYTES)
    _check(tmp_path, other(kind), list(PACKINGS)[number % len(PACKINGS)], line_end, bool(number % 4))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_all_variants_of_look_alikes_are_read_as_written(tmp_path: Path, seed: int) -> None:
    for number, (of_table, variant) in enumerate(product(_tables(), _VARIANTS)):
        folder = tmp_path / str(number)
        folder.mkdir()
        _check(folder, table(*of_table, seed=seed), *variant)
    for number, (kind, variant) in enumerate(product(OTHERS, _VARIANTS)):
        folder = tmp_path / f"other-{number}"
        folder.mkdir()
        _check(folder, other(kind, seed), *variant)


def test_each_value_of_format_is_a_format() -> None:
    assert (*TEXT, *BINARY) == FORMATS
    assert tuple(BINARY) == BINARY_FORMATS
