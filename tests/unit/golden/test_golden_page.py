"""The golden run's page in a browser: on a phone and a laptop, light and dark, with its figures explored."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from analysis.figures.model import Axis, Figure, Panel, Series
from analysis.page.build import Page as ReportPage
from analysis.page.build import build
from analysis.page.plots import plot
from analysis.report import write_report
from tests.harness.browser import StartedBrowser, browser, opened
from tests.unit.golden.run import GoldenRun

if TYPE_CHECKING:
    from playwright.sync_api import Page

SHOWN = [
    (390, "light"),
    *(
        pytest.param(*other, marks=pytest.mark.soak)
        for other in ((390, "dark"), (768, "light"), (768, "dark"), (1280, "light"), (1280, "dark"))
    ),
]
CONTRASTS = """
() => {
  const channels = (text) => text.match(/[\\d.]+/g).map(Number);
  const luminance = (rgb) => rgb.slice(0, 3).map((each) => each / 255)
    .map((each) => each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
    .reduce((sum, each, index) => sum + [0.2126, 0.7152, 0.0722][index] * each, 0);
  const ground = (element) => {
    const colour = channels(getComputedStyle(element).backgroundColor);
    return colour[3] === 0 ? ground(element.parentElement) : colour;
  };
  const found = {};
  for (const element of document.querySelectorAll("body *:not(script, style, svg *)")) {
    const isText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!isText || !element.getClientRects().length) continue;
    const [one, other] = [channels(getComputedStyle(element).color), ground(element)].map(luminance);
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    const name = `${element.tagName}.${element.className}`;
    found[name] = Math.min(found[name] ?? 21, ratio);
  }
  return found;
}
"""
"""Return the minimum contrast of the text of each kind of element to its background."""
DRAWN = ".js-plotly-plot .main-svg"
NEARLY_CONSTANT_AXES = """
() => {
  const found = {};
  for (const panel of document.querySelectorAll(".panel")) {
    for (const side of ["x", "y"]) {
      const values = panel.data.filter((trace) => trace.type === "scatter")
        .flatMap((trace) => trace[side]).filter((each) => typeof each === "number");
      const [low, high] = [Math.min(...values), Math.max(...values)];
      if (!values.length || high - low > 0.05 * Math.max(Math.abs(low), Math.abs(high))) continue;
      const axis = panel._fullLayout[`${side}axis`];
      found[`${panel.getAttribute("aria-label")} ${side} ${axis.type}`] = axis.range;
    }
  }
  return found;
}
"""
"""Return the ranges of axes whose values are alike, as exponents where they are logarithmic."""


@pytest.fixture(scope="module")
def started() -> Iterator[StartedBrowser]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def report(golden: GoldenRun) -> Path:
    return write_report(golden.folder, golden.record, golden.summary)


@pytest.fixture(scope="module")
def drawn(started: StartedBrowser, report: Path) -> Iterator[Page]:
    """Open the page on a laptop and draw all figures, once for all tests that do not change it."""
    with opened(started, report, 1280, "light") as (shown, errors):
        draw_all(shown)
        yield shown
        assert errors == []


def draw_all(shown: Page) -> None:
    """Draw all figures as for printing; otherwise they are drawn when they scroll into view."""
    shown.evaluate("dispatchEvent(new Event('beforeprint'))")
    shown.wait_for_function(
        "document.querySelectorAll('.panel').length > 0 && "
        "[...document.querySelectorAll('.panel')].every(panel => panel.querySelector('.main-svg'))"
    )


def colour(shown: Page, selector: str, what: str) -> tuple[int, ...]:
    text = shown.locator(selector).first.evaluate(f"element => getComputedStyle(element)['{what}']")
    return tuple(int(part) for part in text.strip("rgba()").split(",")[:3])


def brightness(of: tuple[int, ...]) -> float:
    return sum(of) / 3


@pytest.mark.parametrize(("width", "scheme"), SHOWN)
def test_nothing_is_cut_off_and_no_script_fails(
    started: StartedBrowser, report: Path, width: int, scheme: str
) -> None:
    with opened(started, report, width, scheme) as (shown, errors):
        draw_all(shown)
        assert errors == []
        # Nothing is wider than the page, nor than the box that it would have to be scrolled in.
        wider = shown.evaluate(
            "[...document.querySelectorAll('body, body *:not(script)')].filter(element => "
            "element.getBoundingClientRect().right > innerWidth + 1 "
            "|| (element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0 "
            "&& ['auto', 'scroll'].includes(getComputedStyle(element).overflowX) "
            "&& element.tagName != 'PRE')"
            ").map(element => element.tagName + '.' + element.className)"
        )
        assert wider == []
        # Every panel fills its place, and none lies over another.
        off = shown.evaluate(
            "[...document.querySelectorAll('.panel')].map(panel => panel.querySelector('.main-svg')"
            ".getBoundingClientRect().width - panel.getBoundingClientRect().width)"
        )
        assert off and all(abs(each) <= 1 for each in off)
        ground, text = colour(shown, "body", "background-color"), colour(shown, "body", "color")
        assert (brightness(ground) < 128) == (scheme == "dark")
        assert abs(brightness(ground) - brightness(text)) > 150
        # Figures are of the same ground.
        assert colour(shown, DRAWN, "background-color") == ground


ALIKE = {"constant": [56.0, 56.0], "nearly": [55.0, 56.0], "below 0": [-3.0, -3.0], "zero": [0.0, 0.0]}


def page_of_constants(folder: Path) -> Path:
    """Write a page with a figure for each of `ALIKE`, on either axis, and on logarithmic axes."""
    shown = []
    for (name, values), side, is_log in product(ALIKE.items(), ("x", "y"), (False, True)):
        axes = {each: Axis(each, is_log=is_log and each == side) for each in ("x", "y")}
        points = {"x": np.array([1.0, 100]), "y": np.array([1.0, 100]), side: np.array(values)}
        panel = Panel("all", [Series(name, points["x"], points["y"], "#777777")])
        figure_name = f"{name.replace(' ', '-')}-{side}-{'log' if is_log else 'linear'}"
        if not is_log or min(values) > 0:
            shown.append(plot(Figure(figure_name, figure_name, axes["x"], axes["y"], [panel])))
    file = folder / "page.html"
    file.write_text(build(ReportPage(title="constants", plots=shown)))
    return file


def test_no_axis_magnifies_nearly_equal_values(started: StartedBrowser, report: Path, tmp_path: Path) -> None:
    for page, is_golden in ((report, True), (page_of_constants(tmp_path), False)):
        with opened(started, page, 1280, "light") as (shown, errors):
            draw_all(shown)
            found = shown.evaluate(NEARLY_CONSTANT_AXES)
            assert found if is_golden else len(found) == 2 * (len(ALIKE) + 2)
            for name, (low, high) in found.items():
                if name.endswith(" log"):
                    assert high - low == pytest.approx(1), name  # a decade
                else:
                    assert low <= 0 <= high and high - low > 0, name
            assert any(name.endswith(" log") for name in found) != is_golden
            # It is so, too, where the axis is changed.
            for box in shown.locator("input[data-log]").all():
                box.uncheck()
            linear = shown.evaluate(NEARLY_CONSTANT_AXES)
            assert len(linear) == len(found) and all(low <= 0 <= high for low, high in linear.values())
            assert errors == []


def test_the_plot_says_which_side_is_better(started: StartedBrowser, report: Path) -> None:
    with opened(started, report, 390, "light") as (shown, _):
        for width in (390, 1280):
            shown.set_viewport_size({"width": width, "height": 800})
            middle = shown.locator(".forest .zero").first.bounding_box()
            better, worse = (
                shown.locator(".forest").get_by_text(text, exact=True).bounding_box()
                for text in ("← better", "worse →")
            )
            assert middle is not None and better is not None and worse is not None
            assert better["x"] + better["width"] < middle["x"] < worse["x"]
            # Nothing but the table's head is between the words and the first row's track.
            assert 0 < middle["y"] - better["y"] < 100


def test_figures_are_drawn_when_scrolled_into_view(started: StartedBrowser, report: Path) -> None:
    with opened(started, report, 390, "light") as (shown, errors):
        shown.get_by_role("heading", name="Figures").locator("..").press("Enter")
        assert shown.locator("#sec-3-2 .panel").count() == 0
        shown.locator("#sec-3-2").scroll_into_view_if_needed()
        shown.wait_for_selector("#sec-3-2 .main-svg")
        assert errors == []


def test_the_result_comes_first_and_the_keyboard_unfolds_the_sections(
    started: StartedBrowser, report: Path
) -> None:
    with opened(started, report, 390, "light") as (shown, _):
        folded = shown.locator("main details.part")
        assert folded.count() > 5 and shown.locator("main details[open]").count() == 0
        # Only the pictures of the network are between the result and what is folded.
        assert shown.locator("main > :not(details, script)").all_inner_texts() == [
            shown.locator(".drawings").inner_text()
        ]
        bottom, top = (
            each.evaluate("of => of.getBoundingClientRect().y")
            for each in (shown.locator(".drawings"), folded.first)
        )
        assert shown.locator("header .forest").is_visible() and bottom < top
        glossary = shown.locator("details.part", has_text="Glossary")
        assert not glossary.locator("dl").is_visible()
        shown.locator("summary", has_text="run.json").focus()
        shown.keyboard.press("Shift+Tab")
        shown.keyboard.press("Enter")
        assert glossary.locator("dl").is_visible()


# Last, so that `drawn` takes the tab in which the tests before have had the page's scripts compiled.


def test_better_is_green_and_worse_is_red(drawn: Page) -> None:
    for scheme in ("dark", "light"):
        drawn.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert (brightness(colour(drawn, "body", "background-color")) < 128) == (scheme == "dark")
        red, green, _ = colour(drawn, "td .better", "color")
        assert green > red
        red, green, _ = colour(drawn, "td .worse", "color")
        assert red > green
        # All figures follow, though most were drawn as for printing, out of view.
        drawn.wait_for_function(
            "[...document.querySelectorAll('.panel .main-svg:first-child')].every(each => "
            "getComputedStyle(each).backgroundColor == getComputedStyle(document.body).backgroundColor)",
            timeout=60_000,
        )


def test_arms_can_be_hidden_and_axes_can_be_changed(drawn: Page) -> None:
    names = "() => document.querySelector('#fig-04 .panel').data.map(trace => trace.name)"
    kind = "() => document.querySelector('#fig-04 .panel').layout.xaxis.type"
    assert drawn.evaluate(names) == ["baseline", "proxy", "offload", "offload-proxy"]
    drawn.locator("#fig-04 input[data-series=offload]").uncheck()
    assert drawn.evaluate(names) == ["baseline", "proxy", "offload-proxy"]
    drawn.locator("#fig-04 input[data-series=offload]").check()
    assert drawn.evaluate(names) == ["baseline", "proxy", "offload", "offload-proxy"]
    assert drawn.evaluate(kind) == "log"
    drawn.locator("#fig-04 input[data-log=x]").uncheck()
    assert drawn.evaluate(kind) == "linear"
    # Other figures are as they were.
    assert drawn.evaluate(kind.replace("fig-04", "completion")) == "log"


def test_drawn_figures_have_the_data_of_the_logs(drawn: Page) -> None:
    first = drawn.evaluate("() => document.querySelector('#fig-06 .panel').data[0]")
    assert (first["name"], first["x"], first["y"]) == ("baseline", [87, 88, 184], [0, 0.33333, 1])
    bars = drawn.evaluate("() => document.querySelector('#fig-05 .panel').data.map(each => each.name)")
    assert bars == ["w_proc", "w_queue", "ps_proc", "ps_queue", "n_tx"]


def test_all_text_has_contrast(drawn: Page) -> None:
    """At least 4.5 to 1, as WCAG 2.2 wants it for text (1.4.3)."""
    for scheme in ("dark", "light"):
        drawn.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        assert (brightness(colour(drawn, "body", "background-color")) < 128) == (scheme == "dark")
        found: dict[str, float] = drawn.evaluate(CONTRASTS)
        assert len(found) > 10
        assert {name: ratio for name, ratio in found.items() if ratio < 4.5} == {}, scheme


def test_everything_drawn_has_a_name_and_its_numbers(drawn: Page) -> None:
    unnamed = "[...document.querySelectorAll('[role=img]')].filter(each => !each.ariaLabel).length"
    assert drawn.evaluate(unnamed) == 0
    assert drawn.locator("section.plot").count() == drawn.locator("section.plot details table").count() > 5
    # On a phone rows are blocks, and a table all the same.
    assert drawn.locator("table:not([role=table])").count() == 0
    # One title, and below it no level is left out.
    levels = drawn.evaluate("[...document.querySelectorAll('h1, h2, h3')].map(each => +each.tagName[1])")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
