"""Write the table of docs/reliability.md, which is between two markers of the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from foundation.errors import DataError
from foundation.logs.parts import read_text, write_text
from simulator.faults.kinds import FAULTS

BEGIN, END = "<!-- made by `make faults`: do not edit -->", "<!-- end -->"

_COLUMNS = ("fault", "schedules", "lost, doubled or misread", "recovery p50, ms, by arm", "p99, ms")

RowCells = Mapping[str, Any]  # JSON: strings, numbers and a mapping


def renew_table(page: Path, rows: Sequence[RowCells], duration_s: float) -> None:
    text_before, text_after = split_at_table(page)
    table = "\n".join(table_of(rows, duration_s))
    write_text(page, f"{text_before}{BEGIN}\n\n{table}\n\n{END}{text_after}")


def split_at_table(page: Path) -> tuple[str, str]:
    text_before, begin, table_and_rest = read_text(page).partition(BEGIN)
    _, end, text_after = table_and_rest.partition(END)
    if not (begin and end):
        raise DataError(f"{page}: has no table to renew: it must have the lines {BEGIN} and {END}")
    return text_before, text_after


def table_of(rows: Sequence[RowCells], duration_s: float) -> Iterator[str]:
    schedules, sent = (sum(row[name] for row in rows) for name in ("schedules", "sent"))
    lost = sum(row["lost"] + row["doubled"] for row in rows)
    rpcs = sum(row["rpcs"] for row in rows)
    yield f"{schedules:,} schedules with {rpcs:,} RPCs, {sent:,} lanes acknowledged,"
    yield f"**{lost:,} lost or doubled**; {duration_s / 60:.1f} minutes."
    yield ""
    yield "| " + " | ".join(_COLUMNS) + " |"
    yield "|---|" + "---:|" * (len(_COLUMNS) - 1)
    for fault, rows_of_fault in groupby(rows, key=lambda row: row["fault"]):
        yield "| " + " | ".join(_cells(fault, list(rows_of_fault))) + " |"


def _cells(fault: str, rows: Sequence[RowCells]) -> Iterator[str]:
    yield FAULTS[fault]
    for names in (("schedules",), ("lost", "doubled", "misread")):
        yield f"{sum(row[name] for row in rows for name in names):,}"
    for quantile in ("p50", "p99"):
        yield ", ".join(f"{row['recovery_ms'][quantile]:,.2f}" for row in rows)
