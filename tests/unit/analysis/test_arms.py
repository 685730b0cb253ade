"""An arm that a design declares appears in logs, tables and pages without further code."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from analysis.claims import Recommendation, answer
from analysis.figures.figure_data import curves, source_of_run
from analysis.metrics import differences
from analysis.report import difference_tables
from analysis.summary import Summary
from foundation.designs import arms, hotset
from foundation.designs.hotset import HotSet
from foundation.designs.interface import Arm
from foundation.errors import HotlineError
from foundation.logs.check import check
from switch_harness.wording import mentions
from tests.harness.summaries import terminal
from tests.unit.analysis import synthetic
from tests.unit.analysis.synthetic import make_run

COLOUR = "#9467bd"


def with_a_sixth(patch: pytest.MonkeyPatch, baseline: str) -> Arm:
    """Add an arm whose pulls take a quarter of the time that *baseline*'s do."""
    settings = HotSet(aggregates=True)
    sixth = Arm("small", 90, hotset.NAME, settings, COLOUR, about="with a small hot set", reference=baseline)
    patch.setattr(hotset, "DESIGN", replace(hotset.DESIGN, arms=(*hotset.DESIGN.arms, sixth)))
    patch.setitem(synthetic.PULL_US, "small", 250.0)
    return sixth


def measured(folder: Path, design: str) -> tuple[Path, Summary, str]:
    """Return the folder, the summary and the page of a run of all arms of a design."""
    run = make_run(folder / "run", [arm.name for arm in arms.measured_arms(design)])
    return run.folder, run.summary(), run.page()


def heads(text: str) -> list[list[str]]:
    """Return the terminal's tables: one or more for each load and baseline, and one for all loads."""
    known = arms.all_arms()
    words = [line.split() for line in text.splitlines()]
    return [each for each in words if each and set(each) <= set(known)]


def test_a_sixth_arm_is_one_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_a_sixth(monkeypatch, "baseline")
    folder, summary, page = measured(tmp_path, hotset.NAME)
    rows = pl.read_parquet(folder / "rpc.parquet").filter(pl.col("op") != "empty")
    log = tmp_path / "rpc.parquet"
    rows.write_parquet(log)
    assert check(log) == {log.name: rows.height}
    # Of 1,000 µs and 250.
    pull = summary.loads["0.5"].differences["small"]["pull_mean"]
    assert pull.ratio == pytest.approx(-0.75, abs=0.01)
    assert summary.arms["small"].steps == summary.arms["offload"].steps
    # A line of the terminal has room for five.
    of_a_load = [["baseline", "repeat", "proxy", "offload", "offload-proxy"], ["baseline", "small"]]
    assert heads(terminal(summary)) == [*of_a_load, *of_a_load, [*of_a_load[0], "small"]]
    [table] = difference_tables(summary, "0.5")
    assert list(table.columns) == ["", "baseline", "repeat", "proxy", "offload", "offload-proxy", "small"]
    assert "<dt>small</dt><dd>" in page
    assert {curve.name: curve.colour for curve in curves([source_of_run(folder)])}["small"] == COLOUR
    assert f'--colour: {COLOUR}"><input type="checkbox" checked data-series="small">' in page


def test_an_arm_is_compared_with_its_own_baseline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with_a_sixth(monkeypatch, "offload")
    _, summary, _ = measured(tmp_path, hotset.NAME)
    # Of 600 µs and 250.
    pull = summary.loads["0.5"].differences["small"]["pull_mean"]
    assert pull.ratio == pytest.approx(250 / 600 - 1, abs=0.01)
    of_a_load = [["baseline", "repeat", "proxy", "offload", "offload-proxy"], ["offload", "small"]]
    assert heads(terminal(summary)) == [*of_a_load, *of_a_load, [*of_a_load[0], "small"]]
    columns = [list(table.columns) for table in difference_tables(summary, "0.5")]
    assert columns == [["", *arms] for arms in of_a_load]


def test_a_design_without_anything_to_judge_has_a_report(tmp_path: Path) -> None:
    """A design with servers only has a baseline and its repetition."""
    _, summary, page = measured(tmp_path, "none")
    assert list(summary.arms) == ["none", "none-repeat"]
    assert heads(terminal(summary)) == [["none", "none-repeat"]] * 3
    found = answer(summary)
    assert (found.recommendation, found.claims, found.other_arms) == (Recommendation.NO_LEAD, {}, ())
    assert "<dt>none-repeat</dt><dd>" in page
    assert "baseline</dt>" not in page and "<h2>Differences to none</h2>" in page


def test_an_unknown_arm_is_refused_with_the_known_names() -> None:
    expected = (
        r"^expected an arm \(profile, baseline, repeat, proxy, offload, offload-proxy, .*\), got 'other'$"
    )
    with pytest.raises(HotlineError, match=expected):
        arms.arm("other")
    with pytest.raises(HotlineError, match=mentions("other", "design")):
        arms.arms_of("other")
    with pytest.raises(HotlineError, match=mentions("reference", "measured")):
        arms.reference_of(["offload"])


def test_no_two_arms_share_a_name_or_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    sixth = with_a_sixth(monkeypatch, "baseline")
    monkeypatch.setattr(hotset, "DESIGN", replace(hotset.DESIGN, arms=(*hotset.DESIGN.arms, sixth)))
    with pytest.raises(ValueError, match=mentions("share", "name")):
        arms.all_arms()


def test_settings_belong_to_their_design() -> None:
    class Others:
        aggregates = proxies = False

    other = Arm("other", 11, "others", Others(), COLOUR, about="of another design")
    with pytest.raises(TypeError, match=mentions("design", "others")):
        hotset.settings_of(other)


def test_an_arm_without_its_baseline_is_not_compared() -> None:
    assert differences({"offload": {}, "repeat": {}, "baseline": {}}) == {"repeat": {}, "offload": {}}
    assert differences({"offload": {}}) == {}
