"""Each stage of `make evidence` reads its tables from recorded outputs of its commands, cut to what it reads.

`tests/unit/tools/evidence/STAGE` has a folder for each step, and `tables.md` with what the tables are then
(UPDATE_SNAPSHOTS=1 writes it; read the difference).
"""

from __future__ import annotations

import io
import os
import random
import re
import shutil
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from itertools import chain
from pathlib import Path

import polars as pl
import pytest

from tools.evidence.result import EvidenceError, Table
from tools.evidence.run import Done, as_results
from tools.evidence.stage import OUTPUT, Stage
from tools.evidence.stages import STAGES

RECORDED = Path(__file__).parent / "evidence"
NUMBERS: Mapping[str, re.Pattern[str]] = {
    OUTPUT: re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)(?![\w.])"),
    "summary.json": re.compile(r'"(?:ratio_high|offload|sent)": *(-?[\d.]+)'),
}
"""Name of a file -> its numbers that are changed; a run's summary has many that no table needs."""
CAPACITIES = re.compile(r'"(?:capacity|dropped)": *([\d.]+)')
"""Those of sweeps, whose points have many numbers, too."""
FIGURE = "fig-09.parquet"
DRAWS = 300

pytestmark = pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)


def markdown(tables: dict[str, Table]) -> str:
    return "\n".join(chain(*(([f"## {name}", "", *table.markdown(), ""]) for name, table in tables.items())))


@cache
def tables_of(stage: Stage) -> dict[str, Table]:
    return dict(stage.tables(RECORDED / stage.name))


def test_the_tables_of_a_stage_follow_from_its_recorded_outputs(stage: Stage) -> None:
    expected = RECORDED / stage.name / "tables.md"
    found = markdown(tables_of(stage))
    if os.environ.get("UPDATE_SNAPSHOTS"):
        expected.write_text(found)
    assert found == expected.read_text()


def test_the_stage_names_its_results(stage: Stage) -> None:
    done = Done(digest="", commit="", date=date(2026, 11, 27), seconds=1)
    assert {name for name, _ in as_results(stage, tables_of(stage), done)} == set(stage.results)


def test_each_table_changes_with_the_outputs(stage: Stage, tmp_path: Path) -> None:
    """Some of the numbers that are changed one at a time change each table."""
    outputs = tmp_path / "outputs"
    shutil.copytree(RECORDED / stage.name, outputs)
    unchanged, untouched = tables_of(stage), set(stage.results)
    for path, content in draws(outputs, stage.name):
        original = path.read_bytes()
        path.write_bytes(content)
        try:
            changed = stage.tables(outputs)
        except (EvidenceError, ValueError, KeyError):
            continue  # the number named something, or was a bound
        finally:
            path.write_bytes(original)
        untouched -= {name for name, table in changed.items() if table != unchanged[name]}
        if not untouched:
            break
    assert untouched == set()


def draws(folder: Path, seed: str) -> Iterator[tuple[Path, bytes]]:
    """Yield a file of the outputs, and its content with one number changed."""
    for figure in folder.rglob(FIGURE):
        rows = pl.read_parquet(figure)
        content = io.BytesIO()
        rows.with_columns(pl.col("mean_us") * pl.col("connections")).write_parquet(content)
        yield figure, content.getvalue()
    files = sorted(path for path in folder.rglob("*") if path.name in NUMBERS)
    places = [
        (path, match.span(1))
        for path in files
        for match in (CAPACITIES if seed == "sweeps" else NUMBERS[path.name]).finditer(path.read_text())
    ]
    random.Random(seed).shuffle(places)
    for path, (start, end) in places[:DRAWS]:
        text = path.read_text()
        yield path, f"{text[:start]}{2 * float(text[start:end]) + 1:g}{text[end:]}".encode()
