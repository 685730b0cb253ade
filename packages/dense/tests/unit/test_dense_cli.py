"""`hotline dense whatif` and `overlap`: their output, files, refusals, and pages in a browser."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import click
import polars as pl
import pytest

from foundation.errors import DataError
from hotline_dense.answers import requirements_of
from hotline_dense.catalogue import open_model
from hotline_dense.cli.overlap import overlap
from hotline_dense.cli.whatif import whatif
from hotline_dense.fusion import PRESETS
from hotline_dense.network import DenseNetwork
from hotline_dense.schedulers import SCHEDULERS
from hotline_dense.whatif import PAPER_FUSION
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says
from tests.harness.browser import StartedBrowser, browser, opened
from tests.harness.cli import invoke

TABLE = "layer,bytes,backward_us,forward_us\nin,4000000,20000,10000\nout,8000000,10000,5000\n"
FINITE = {
    "whatif": "--gbit --compression --startup-us --target --step-ms --cycle-ms --buffer-mib",
    "overlap": "--alpha-ms --beta-ns --sharing --step-ms",
}
WFBP = ("dense", "overlap", "vgg16", "--scheduler", "wfbp")


def json_of(*arguments: object) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture
def first(tmp_path: Path) -> Path:
    path = tmp_path / "mine.csv"
    path.write_text(TABLE)
    return path


def test_command_and_api_ask_for_the_bandwidth_of_the_paper() -> None:
    (asked,) = json_of("dense", "whatif", "resnet50")["models"]
    (answered,) = requirements_of([open_model("resnet50")], DenseNetwork(), PAPER_FUSION)
    assert asked["factor"] == answered.factor == pytest.approx(0.540, abs=5e-4)


def test_the_options_offer_the_fusion_presets_and_schedulers_that_exist() -> None:
    def choices(verb: click.Command, option: str) -> set[str]:
        (found,) = (each for each in verb.params if option in each.opts)
        assert isinstance(found.type, click.Choice)
        return set(found.type.choices)

    assert choices(whatif, "--fusion") == set(PRESETS)
    assert choices(overlap, "--scheduler") == set(SCHEDULERS)


def test_whatif_without_arguments_prints_the_table_of_the_paper() -> None:
    result = invoke("dense", "whatif")
    assert result.exit_code == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines() if re.match(r"\S+ +\d+ +\d", line)]
    assert {name: " ".join(cells) for name, *cells in rows} == {
        "ResNet-50": "102 12 0.995 0.994 0.910 0.540 0.076 0.817 0.994 0.995 0.572",
        "ResNet-101": "178 20 0.997 0.997 0.890 0.500 0.066 0.787 0.997 0.997 0.531",
        "VGG-16": "553 15 0.993 0.622 0.439 0.201 0.022 0.367 0.723 0.993 0.212",
    }
    assert says(result.stdout, "ResNet-50", "2.44×", "ResNet-101", "2.56×", "VGG-16", "7.18×")
    table = json_of("dense", "whatif")["table"]
    assert table["vgg16"]["10G, 5×"] == pytest.approx(0.723, abs=5e-4)
    assert table["resnet50"]["10G, 16 workers"] == pytest.approx(0.572, abs=5e-4)
    assert table["vgg16"]["10G, compression needed"] == pytest.approx(7.18, abs=5e-3)


def test_whatif_computes_the_factor_bandwidth_and_compression_of_a_users_table(first: Path) -> None:
    """Send all at the end: 12 MB through a switch at 8 Gbit/s take 12 ms, none of it hidden by backward."""
    asked = ("dense", "whatif", first, "--gbit", 8, "--fusion", "whole", "--aggregation", "switch")
    (found,) = json_of(*asked)["models"]
    assert found["factor"] == pytest.approx(45 / 57)
    assert found["gbit"] == pytest.approx(8 * 12 / 5, rel=1e-6)
    assert found["compression"] == pytest.approx(12 / 5, rel=1e-6)
    (half,) = json_of(*asked, "--utilisation", 0.5)["models"]
    assert half["factor"] == pytest.approx(45 / 69)
    (started,) = json_of(*asked, "--startup-us", 3000)["models"]
    assert started["factor"] == pytest.approx(45 / 60)
    (more,) = json_of(*asked, "--compression", 4)["models"]
    assert more["factor"] == pytest.approx(45 / 48)
    own_rule = ("dense", "whatif", first, "--gbit", 8, "--cycle-ms", 5, "--aggregation", "switch")
    (own,) = json_of(*own_rule)["models"]
    # The buffer of 8 MB goes after 10 ms, and has 8 of 20 ms to go; the other goes at the end.
    assert own["factor"] == pytest.approx(45 / 49)
    (longer,) = json_of(*asked, "--step-ms", 100)["models"]
    assert longer["factor"] == pytest.approx(100 / 112)
    (easy,) = json_of(*asked, "--target", 0.5)["models"]
    assert easy["compression"] == 1.0


def test_output_begins_with_the_settings(first: Path) -> None:
    options = ("--gbit", 8, "--workers", 12, "--compression", 1.2, "--fusion", "dear")
    output = invoke("dense", "whatif", first, *options).stdout
    for message in ("workers: 12", "8 Gbit/s", "compression: 1.2×", "ring", "buffers: sent at 25 MiB"):
        assert message in output
    output = invoke("dense", "overlap", first, "--alpha-ms", 2, "--max-concurrent", 3).stdout
    assert "α, start-up: 2 ms" in output and "at once, at most: 3" in output


def test_with_a_switch_no_compression_may_be_needed(first: Path) -> None:
    """12 MB in a ring of many at 16 Gbit/s take 12 ms, and 6 with a switch; 5 leave 0.9."""
    asked = ("dense", "whatif", first, "--fusion", "whole", "--workers", 1000, "--gbit", 20)
    assert invoke(*asked).stdout.splitlines()[-1].endswith("no compression.")
    assert says(invoke(*asked[:-1], 16).stdout.splitlines()[-1], "1.2×", "compression")


def test_a_curve_of_utilisation_lowers_the_scaling_factor(first: Path, tmp_path: Path) -> None:
    curve = tmp_path / "curve.csv"
    curve.write_text("gbit,utilisation\n8,0.5\n100,0.1\n")
    asked = ("dense", "whatif", first, "--gbit", 8, "--fusion", "whole", "--aggregation", "switch")
    (found,) = json_of(*asked, "--utilisation", curve)["models"]
    assert found["factor"] == pytest.approx(45 / 69)


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (1, ("dense", "whatif", "resnet51"), "resnet51: neither a table"),
        (1, ("dense", "whatif", "none.csv"), "none.csv: cannot be read: No such file"),
        (1, ("dense", "overlap", "none.csv"), "none.csv: cannot be read: No such file"),
        (
            2,
            ("dense", "whatif", "--utilisation", "1.5"),
            "expected a share above 0 and up to 1, or a file, got 1.5",
        ),
        (1, ("dense", "whatif", "--utilisation", "curve.csv"), "curve.csv: cannot be read"),
        (1, ("dense", "whatif", "--servers", "4"), "--servers 4: expected --aggregation servers, got ring"),
        (1, ("dense", "whatif", "--step-ms", "400"), "--step-ms 400: expected one model, got 3"),
        (
            1,
            ("dense", "whatif", "vgg16", "--packets", "--gbit", "10000"),
            "links of 0.001 to 1000 Gbit/s, got 10000",
        ),
        (1, (*WFBP, "--packets", "--beta-ns", "0.001"), "links of 0.001 to 1000 Gbit/s, got 1"),
        (1, ("dense", "overlap", "vgg16", "vgg16"), "vgg16: vgg16 was given before"),
        (1, ("dense", "whatif", "vgg16", "--into", "/proc/none"), "/proc/none: cannot be written"),
        (1, (*WFBP, "--into", "/proc/none"), "/proc/none: cannot be written"),
        *(
            (2, ("dense", command, option, "nan"), f"'{option}': 'nan' is not a finite number")
            for command, options in FINITE.items()
            for option in options.split()
        ),
        (2, ("dense", "whatif", "--workers", "0"), "0 is not in the range"),
        (2, ("dense", "whatif", "--gbit", "0"), "0.0 is not in the range"),
        (2, ("dense", "whatif", "--gbit", "-1"), "-1.0 is not in the range"),
        (2, ("dense", "whatif", "--buffer-mib", "inf"), "inf is not in the range"),
        (2, ("dense", "whatif", "--fusion", "horovod"), "'horovod' is not one of 'horovod-0.20'"),
        (2, ("dense", "whatif", "--fusion", "dear", "--cycle-ms", "1"), "--fusion: leave it out"),
        (2, ("dense", "whatif", "--packets", "--aggregation", "switch"), "leave out --aggregation switch"),
        (2, ("dense", "whatif", "--packets", "--utilisation", "0.5"), "leave out --utilisation"),
        (2, ("dense", "overlap", "--scheduler", "asc"), "'asc' is not one of 'wfbp'"),
        (2, ("dense", "overlap", "--max-concurrent", "0"), "0 is not in the range"),
        (2, ("dense", "overlap", "--gaps", "vgg16"), "--gaps uses random models"),
        (2, ("dense", "overlap", "--gaps", "--into", "here"), "--gaps uses random models"),
        (2, ("dense", "whatif", "--packets", "--per-machine", "4"), "leave out --per-machine 4"),
        (2, ("dense", "whatif", "--sums-locally"), "needs --per-machine"),
        (2, ("dense", "whatif", "--first-buffer-mib", "1"), "needs --buffer-mib"),
        (2, ("dense", "whatif", "--per-machine", "0"), "0 is not in the range"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    lines = result.stderr.splitlines()
    assert (result.exit_code, result.stdout) == (code, "") and message in lines[-1]
    assert code == 2 or len(lines) == 1
    assert list(tmp_path.iterdir()) == []


def test_output_marks_estimated_models_as_estimates() -> None:
    for command in ("whatif", "overlap"):
        assert says(invoke("dense", command, "bert-base").stdout, "estimate")
        assert "(estimate)" not in invoke("dense", command, "resnet50").stdout


def test_overlap_gives_step_times_and_buffers_of_each_scheduler_for_a_users_table(first: Path) -> None:
    """Two all-reduces of 1 ms and a byte a ns: 8 MB at 10 ms, 4 MB at 30 ms; 15 ms before."""
    asked = ("dense", "overlap", first, "--alpha-ms", 1, "--beta-ns", 1)
    (found,) = json_of(*asked)
    assert found["step_ms"]["WFBP"] == pytest.approx(15 + 30 + 5)
    assert found["buffers"] == {"WFBP": 2, "fixed buffers": 2, "MG-WFBP": 2, "ASC-WFBP": 2, "best": 2}
    assert found["compute_ms"] == 45
    (only,) = json_of(*asked, "--scheduler", "best", "--scheduler", "wfbp")
    assert list(only["step_ms"]) == ["best", "WFBP"]
    result = invoke(*asked)
    assert result.exit_code == 0 and "50.0" in result.stdout


def test_a_modules_tensors_are_merged_unless_separate() -> None:
    (together,) = json_of("dense", "overlap", "resnet50", "--scheduler", "wfbp")
    (separate,) = json_of("dense", "overlap", "resnet50", "--scheduler", "wfbp", "--tensors")
    assert (together["buffers"]["WFBP"], separate["buffers"]["WFBP"]) == (107, 161)


def test_the_gaps_of_schedulers_over_random_models_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hotline_dense.gaps.MODELS", 5)
    monkeypatch.setattr("hotline_dense.gaps.gaps.__defaults__", (5, 1, lambda done, total: None))
    found = json_of("dense", "overlap", "--gaps")
    assert list(found) == ["wfbp", "fixed", "mg-wfbp", "asc-wfbp", "best"] and found["best"]["mean"] <= 0.01
    assert says(invoke("dense", "overlap", "--gaps").stdout, 5, "random")


# -- pages


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "mine.csv").write_text(TABLE)
    for command in ("whatif", "overlap"):
        result = invoke("dense", command, folder / "mine.csv", "resnet50", "--into", folder / command)
        assert result.exit_code == 0 and f"report: {folder / command / 'report.html'}" in result.stdout
    return [folder / command / "report.html" for command in ("whatif", "overlap")]


@pytest.fixture(scope="module")
def started() -> Iterator[StartedBrowser]:
    with browser() as found:
        yield found


def test_each_figure_is_written_as_csv_pdf_and_png(pages: list[Path]) -> None:
    names = [{path.name for path in (page.parent / "figures").iterdir()} for page in pages]
    kinds = ("csv", "pdf", "png")
    assert names[0] == {f"{name}.{kind}" for name in ("scaling-map", "scaling-by-workers") for kind in kinds}
    assert names[1] == {f"timeline-{name}.{kind}" for name in ("mine", "resnet50") for kind in kinds}
    heights = pl.read_csv(pages[0].parent / "figures" / "scaling-map.csv")
    assert heights.height == 2 * 2 * 41 * 41 and heights["z"].is_between(0, 1).all()
    spans = pl.read_csv(pages[1].parent / "figures" / "timeline-mine.csv")
    wfbp = spans.filter(pl.col("panel").str.starts_with("WFBP") & (pl.col("x") == "all-reduce 1")).sort("low")
    assert wfbp["low"].to_list() == [10.0, 30.0]
    assert wfbp["y"].to_list() == pytest.approx([1.37 + 8 * 1.66, 1.37 + 4 * 1.66])


def test_the_page_has_the_settings(first: Path, tmp_path: Path) -> None:
    options = ("--aggregation", "tree", "--target", 0.8, "--cycle-ms", 3, "--gbit", 5)
    assert invoke("dense", "whatif", first, *options, "--into", tmp_path).exit_code == 0
    page = (tmp_path / "report.html").read_text()
    assert "For a scaling factor of 0.8" in page and "scaling factor of 0.9" not in page
    assert "sent at 3 ms of backward" in page and "5 Gbit/s" in page
    panels = pl.read_csv(tmp_path / "figures" / "scaling-map.csv")["panel"].unique().sort().to_list()
    assert panels == ["mine, switch that sums", "mine, tree"]


def test_a_page_is_written_whole_or_not_at_all(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise DataError(f"{path}: cannot be written: No space left on device")

    here = tmp_path / "here"
    assert invoke("dense", "overlap", first, "--into", here).exit_code == 0
    before = {path: path.stat().st_mtime_ns for path in here.rglob("*") if path.is_file()}
    assert {path.name for path in here.iterdir()} == {"figures", "report.html"}
    monkeypatch.setattr("analysis.page.study.write_text", full)
    result = invoke("dense", "overlap", first, "--into", here)
    assert (result.exit_code, result.stdout) == (1, "") and "No space left" in result.stderr
    assert {path: path.stat().st_mtime_ns for path in here.rglob("*") if path.is_file()} == before


@pytest.mark.soak
def test_ctrl_c_while_figures_are_drawn(tmp_path: Path) -> None:
    """The command ends at once, and leaves no part of a page."""
    models = ("resnet50", "resnet101", "vgg16", "--into", str(tmp_path))
    process = subprocess.Popen(
        [sys.executable, "-m", "hotline.cli", "dense", "overlap", *models],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: process.poll() is not None or any(tmp_path.glob("partial-*/*")))
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert (process.returncode, output, errors) == (130, "", "hotline: interrupted\n")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


WHATIF, OVERLAP = 0, 1
SHOWN = ((OVERLAP, "light", 390),)


@pytest.mark.parametrize(
    ("which", "scheme", "width"),
    [
        pytest.param(*each, marks=[pytest.mark.soak] * (each not in SHOWN))
        for each in product((WHATIF, OVERLAP), ("light", "dark"), (390, 1280))
    ],
)
def test_pages_fit_and_no_script_fails(
    started: StartedBrowser, pages: list[Path], which: int, width: int, scheme: str
) -> None:
    with opened(started, pages[which], width, scheme) as (page, errors):
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.wait_for_function(
            "document.querySelectorAll('.panel').length > 0 && "
            "[...document.querySelectorAll('.panel')].every(panel => panel.querySelector('.main-svg'))"
        )
        assert errors == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.locator("section.plot details table").count() == page.locator("section.plot").count()


def test_the_map_has_the_line_of_the_target(started: StartedBrowser, pages: list[Path]) -> None:
    with opened(started, pages[0], 1280, "light") as (page, _):
        page.locator("#scaling-map").scroll_into_view_if_needed()
        page.wait_for_selector("#scaling-map .main-svg")
        kinds = page.evaluate("document.querySelector('#scaling-map .panel').data.map(trace => trace.type)")
        assert kinds == ["heatmap", "contour"]
        assert page.evaluate("document.querySelector('#scaling-map .panel').data[1].contours.start") == 0.9
        line = page.evaluate("document.querySelector('#scaling-map .panel').data[1].contours.showlabels")
        assert line is True


@pytest.mark.soak
def test_schedules_can_be_compared_by_eye(started: StartedBrowser, pages: list[Path]) -> None:
    """All panels have the same axis, and spans that follow each other in a row differ in colour."""
    with opened(started, pages[1], 390, "light") as (page, _):
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.wait_for_selector("#timeline-resnet50 .main-svg")
        ranges = page.evaluate(
            "[...document.querySelectorAll('#timeline-resnet50 .panel')]"
            ".map(panel => panel.layout.xaxis.range)"
        )
        assert len(ranges) == 5 and all(each == ranges[0] for each in ranges)
    spans = pl.read_csv(pages[1].parent / "figures" / "timeline-resnet50.csv")
    assert set(spans["x"]) == {"backward", "all-reduce 1", "all-reduce 2"}
    for _, row in spans.group_by("panel", "x"):
        colours = row.sort("low", "y")["series"].to_list()
        assert all(one != other for one, other in pairwise(colours))
