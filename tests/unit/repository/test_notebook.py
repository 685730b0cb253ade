"""Results as notebooks show them, and the example notebook."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from shutil import copy
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import polars as pl
import pytest

import hotline
from switch_harness.wording import mentions
from tests.unit.repository.test_rooms import ROOT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NOTEBOOK = ROOT / "examples" / "answers.ipynb"
PATIENCE_S = 600


class Shown(Protocol):
    def plot(self) -> Figure: ...
    def _repr_html_(self) -> str: ...


class Tables(HTMLParser):
    """The cells of a page's tables, by row, and its open elements."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"th", "td"} & set(self.open):
            self.rows[-1][-1] += data


def rows_of(shown: Shown) -> list[list[str]]:
    tables = Tables()
    tables.feed(shown._repr_html_())
    assert tables.open == []
    return tables.rows


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 100 mini-batches, each with keys 0 to 9, and one of 100 other keys."""
    step = np.repeat(np.arange(100), 11)
    keys = np.where(np.arange(1_100) % 11 < 10, np.arange(1_100) % 11, 1_000 + step)
    path = tmp_path / "<log>.csv"
    pl.DataFrame({"iteration": step, "worker": 1, "key": keys}).write_csv(path)
    return path


def test_a_notebook_shows_a_curve_as_table_and_figure(log: Path) -> None:
    found = hotline.curve(str(log), top_k=10)
    rows = rows_of(found)
    assert rows[0] == ["top-k", "share", ""]
    # Chosen from the first 50 mini-batches, and scored on the others, whose rare keys no choice knows.
    assert ["10", "90.9%", "knee, chosen"] in rows and ["60", "90.9%", "table limit"] in rows
    assert "&lt;log&gt;.csv: 1,100 updates of 110 keys" in found._repr_html_()
    (axis,) = found.plot().axes
    assert np.asarray(axis.lines[0].get_ydata())[-1] == pytest.approx(10 / 11)


def test_a_notebook_shows_miss_ratios_as_table_and_figure(log: Path) -> None:
    found = hotline.miss_ratio([log])
    assert rows_of(found)[1][:3] == ["all", "1,100", "110"]
    # Each of the 110 keys has one first access.
    assert rows_of(found)[1][-1] == "10.0%"
    (axis,) = found.plot().axes
    assert np.asarray(axis.lines[0].get_ydata())[-1] == pytest.approx(10)


def test_a_notebook_shows_policies_as_table_and_figure(log: Path, tmp_path: Path) -> None:
    found = hotline.study(log, sizes=(10, 20), policies=("top-k",), into=tmp_path / "policies")
    rows = rows_of(found)
    assert rows[1][:2] == ["top-k", "90.9%"] and rows[-1] == ["top-k", "90.9%", "90.9%"]
    (axis,) = found.plot().axes
    assert np.asarray(axis.lines[0].get_xdata()).tolist() == [10, 20]


def test_a_notebook_shows_an_answer_as_table_and_figure(log: Path) -> None:
    found = hotline.answer(workers=2, servers=1, data=log, top_k=10, dim=1)
    first_cells = [row[0] for row in rows_of(found)]
    sizes = ["hot keys", *(f"{size.top_k:,}" for size in found.sizes)]
    assert first_cells[:5] == ["", "steps/s without", "steps/s with", "gain", "servers busy without"]
    assert first_cells[5] == "input" and first_cells[-len(sizes) :] == sizes
    assert found.headline in found._repr_html_()
    (axis,) = found.plot().axes
    drawn = {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in axis.lines}
    assert drawn["with the hot set"] == [size.capacity for size in found.sizes[1:]]
    assert set(drawn["without offload"]) == {found.sizes[0].capacity} and axis.get_ylim()[0] == 0


@pytest.mark.parametrize("sources", [{}, {"files": ["log.csv"], "built_in": "r1"}])
def test_a_study_without_a_log_or_with_two_sources_is_refused(
    sources: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(hotline.HotlineError, match=mentions("built_in", "files")):
        hotline.study(**sources, into=tmp_path)


def test_a_wrong_setting_of_a_study_is_named(tmp_path: Path) -> None:
    with pytest.raises(hotline.HotlineError, match=r"^rate = 'fast': "):
        hotline.study(built_in="r1", rate="fast", into=tmp_path)


def test_each_cell_of_the_example_notebook_shows_its_table_and_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each cell with a result shows its table and its figure."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    copied = Path(copy(NOTEBOOK, tmp_path))
    # In another process, because nbclient leaves its sockets to the garbage collector.
    call = "from nbclient.cli import main; main()"
    command = [sys.executable, "-c", call, "--inplace", f"--timeout={PATIENCE_S}", str(copied)]
    subprocess.run(command, check=True, cwd=tmp_path)
    cells = json.loads(copied.read_text())["cells"]
    log, *results = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    assert len(results) == 4 and "text/html" in log[-1]["data"]
    for outputs in results:
        table, figure = [output["data"] for output in outputs if output["output_type"] == "display_data"]
        assert "<table" in "".join(table["text/html"]) and "image/png" in figure
