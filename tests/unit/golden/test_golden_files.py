"""`hotline figures`: the files of each figure, for print, and the data behind it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from matplotlib import rc_context
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure as Drawing
from matplotlib.image import imread
from matplotlib.patches import Rectangle

from analysis.figures.figure_files import draw, write_figure
from analysis.figures.model import Axis, Figure, Kind, Panel, Series
from switch_harness.wording import says_in_one_line
from tests.harness.cli import invoke, json_of
from tests.unit.golden.run import GoldenRun

LATENCY = Axis("latency, µs", is_log=True)
X, Y = np.array([1.0, 10.0, 100.0]), np.array([0.0, 0.5, 1.0])


def figure(kind: Kind, *panels: Panel, x: Axis = LATENCY) -> Figure:
    return Figure("fig-99", "A figure", x, Axis("CDF", is_share=True), panels, kind=kind)


def test_each_figure_has_a_pdf_a_png_and_a_csv_file(golden: GoldenRun, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "figures"
    result = invoke("figures", golden.folder, "-o", folder)
    assert (result.exit_code, result.stdout) == (0, f"27 files in {folder}\n")
    names = {path.name for path in folder.iterdir()}
    assert {"fig-04.pdf", "fig-04.png", "fig-04.csv", "fig-07b.csv", "fig-10.pdf"} <= names
    assert (folder / "fig-04.pdf").read_bytes().startswith(b"%PDF")
    assert (folder / "fig-04.png").read_bytes().startswith(b"\x89PNG")
    rows = pl.read_csv(folder / "fig-04.csv")
    assert rows.columns == ["panel", "series", "x", "y"]
    of_baseline = rows.filter((pl.col("panel") == "pull") & (pl.col("series") == "baseline"))
    assert of_baseline["y"].to_list() == pytest.approx([0, 0.48, 0.92, 0.96, 1])


@pytest.mark.soak
def test_figures_of_two_runs_have_the_curves_of_each_run(golden: GoldenRun, tmp_path: Path) -> None:
    assert len(json_of("figures", golden.folder, golden.folder, "-o", tmp_path)["figures"]) == 27
    names = pl.read_csv(tmp_path / "fig-04.csv")["series"].unique().sort().to_list()
    assert names == ["R1, baseline", "R1, offload", "R1, offload-proxy", "R1, proxy"]


def test_the_same_data_are_the_same_pdf(tmp_path: Path) -> None:
    drawn = figure("lines", Panel("a", [Series("offload", X, Y, "#ff0000")]))
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_figure(drawn, tmp_path / name)
    assert (tmp_path / "one" / "fig-99.pdf").read_bytes() == (tmp_path / "two" / "fig-99.pdf").read_bytes()


def test_lines_have_their_colour_and_dash_and_axes_their_units() -> None:
    panels = [
        Panel(name, [Series("offload", X, Y, "#ff0000"), Series("R2, offload", X, Y, "#00ff00", 1)])
        for name in "ab"
    ]
    first, second = draw(figure("lines", *panels)).axes
    lines = [(line.get_color(), line.get_linestyle()) for line in first.lines]
    assert lines == [("#ff0000", "-"), ("#00ff00", "--")]
    assert (first.get_xlabel(), first.get_ylabel(), second.get_ylabel()) == ("latency, µs", "CDF", "")
    assert (first.get_xscale(), first.get_ylim()) == ("log", (0, 1))
    assert [text.get_text() for text in first.figure.legends[0].get_texts()] == ["offload", "R2, offload"]


def test_steps_do_not_rise_before_their_value() -> None:
    [axis] = draw(figure("steps", Panel("", [Series("offload", X, Y, "#ff0000")]))).axes
    assert axis.lines[0].get_drawstyle() == "steps-post"


def test_bars_of_shares_are_stacked() -> None:
    names = ["baseline", "offload"]
    shares = {"a": [0.2, 0.4], "b": [0.8, 0.6]}
    many = [Series(name, names, np.array(values), "#ff0000") for name, values in shares.items()]
    [axis] = draw(figure("bars", Panel("", many), x=Axis("share", is_share=True))).axes
    bars = [bar for bar in axis.patches if isinstance(bar, Rectangle)]
    assert [bar.get_x() for bar in bars] == pytest.approx([0, 0, 0.2, 0.4])
    assert [bar.get_width() for bar in bars] == pytest.approx([0.2, 0.4, 0.8, 0.6])


def test_intervals_are_drawn_and_written() -> None:
    series = Series("offload", X, Y, "#ff0000", low=Y - 0.1, high=Y + 0.2)
    found = figure("points", Panel("", [series]))
    [axis] = draw(found).axes
    assert len(axis.containers) == 1
    assert found.table().columns == ["panel", "series", "x", "y", "low", "high"]
    assert found.table()["high"].to_list() == pytest.approx([0.2, 0.7, 1.2])


def test_a_missing_run_and_an_unwritable_output_are_refused(golden: GoldenRun, tmp_path: Path) -> None:
    nowhere = invoke("figures", tmp_path, "-o", tmp_path / "out")
    assert says_in_one_line(nowhere.stderr, "run.json", tmp_path)
    (tmp_path / "file").touch()
    assert says_in_one_line(
        invoke("figures", golden.folder, "-o", tmp_path / "file").stderr, "--output", "made", tmp_path
    )
    assert invoke("figures", golden.folder, "-o", "/proc/self").exit_code == 1


def test_each_file_is_drawn_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes nearly all time of `hotline figures`."""
    drawn: list[Drawing] = []
    draw_once = Drawing.draw

    def draw_and_count(self: Drawing, renderer: RendererBase) -> None:
        drawn.append(self)
        draw_once(self, renderer)

    monkeypatch.setattr(Drawing, "draw", draw_and_count)
    with rc_context({"figure.autolayout": True}):
        write_figure(figure("lines", Panel("a", [Series("offload", X, Y, "#ff0000")])), tmp_path)
    assert len(drawn) == 2


def test_labels_are_inside_the_picture_which_the_panel_fills(tmp_path: Path) -> None:
    """The edges of the picture are white, so that no label is cut off."""
    drawn = figure("lines", Panel("a panel", [Series("offload", X, 1e6 * Y, "#ff0000")]))
    write_figure(drawn, tmp_path)
    dark = imread(tmp_path / "fig-99.png")[:, :, :3].min(axis=2) < 0.9
    assert not (dark[:3].any() or dark[-3:].any() or dark[:, :3].any() or dark[:, -3:].any())
    rows, columns = np.flatnonzero(dark.any(axis=1)), np.flatnonzero(dark.any(axis=0))
    assert np.ptp(rows) > 0.9 * len(dark) and np.ptp(columns) > 0.9 * dark.shape[1]
