"""The golden run's figures: what is drawn of it, read from the figures before they become SVG."""

from __future__ import annotations

import re
from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.container import BarContainer
from matplotlib.figure import Figure

from analysis import figures
from analysis.figures import COLOURS, METRIC_COLOURS
from tests.unit.golden.run import GoldenRun

COMPLETION = "Completion of pull and push, from the scheduled start"
BY_OP = "Latency of RPCs"
BY_CLASS = "Latency of RPCs by class"
BREAKDOWN = "Where an RPC's time goes"
ARMS = ["neither", "proxy", "hot", "both"]


@pytest.fixture(scope="module")
def drawn(golden: GoldenRun) -> Iterator[dict[str, Figure]]:
    kept: list[Figure] = []

    def keep(figure: Figure) -> str:
        kept.append(figure)
        return "<svg/>"

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "svg", keep)
        titles = list(figures.figures(golden.folder, golden.summary))
    yield dict(zip(titles, kept, strict=True))
    for figure in kept:
        plt.close(figure)


def curve(axis: Axes, arm: str) -> tuple[np.ndarray, np.ndarray]:
    [line] = [line for line in axis.lines if line.get_label() == arm]
    assert to_hex(line.get_color()) == COLOURS[arm]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def median(axis: Axes, arm: str) -> float:
    """Between two points of the curve."""
    x, y = curve(axis, arm)
    return float(np.interp(0.5, y, x))


def test_there_are_four(drawn: dict[str, Figure]) -> None:
    assert list(drawn) == [COMPLETION, BY_OP, BY_CLASS, BREAKDOWN]


@pytest.mark.parametrize("title", [COMPLETION, BY_OP, BY_CLASS])
def test_distributions_are_of_milliseconds_on_a_logarithmic_axis(
    drawn: dict[str, Figure], title: str
) -> None:
    first, *others = drawn[title].axes
    assert (first.get_xlabel(), first.get_ylabel()) == ("latency, ms", "CDF")
    # Only the outer axes are labelled: they share their scales.
    assert all(axis.get_ylabel() == "" for axis in others)
    for axis in drawn[title].axes:
        assert axis.get_xscale() == "log"
        assert axis.get_ylim() == (0, 1)
        assert axis.get_xlim() == first.get_xlim()
        # Behind the curves, and paler than they are.
        assert {line.get_alpha() for line in axis.get_ygridlines()} == {0.25}
        legend = axis.get_legend()
        assert legend is not None
        assert [text.get_text() for text in legend.get_texts()] == [line.get_label() for line in axis.lines]
        ticks = [tick.get_text() for tick in axis.get_xticklabels(which="both")]
        assert not any("10^" in tick for tick in ticks)
        for line in axis.lines:
            x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
            assert (y[0], y[-1], len(y)) == (0, 1, 400)
            assert (np.diff(x) >= 0).all() and (np.diff(y) > 0).all()


def test_completion_of_operations_by_arm(drawn: dict[str, Figure]) -> None:
    """Measured steps alone, from when they were due: at least 500 µs, the longest 310 more."""
    pull, push = drawn[COMPLETION].axes
    assert (pull.get_title(), push.get_title()) == ("pull, load 0.5", "push, load 0.5")
    for axis in (pull, push):
        assert [line.get_label() for line in axis.lines] == ARMS
    x, _ = curve(pull, "neither")
    assert (x[0], x[-1]) == pytest.approx((0.5, 0.81))
    assert median(pull, "neither") == pytest.approx(0.51)
    assert median(push, "neither") == pytest.approx(0.71)
    x, _ = curve(push, "hot")
    # 450 µs, and the longest in round 7.
    assert (x[0], x[-1]) == pytest.approx((0.45, 0.45 + 0.37))


def test_latency_of_rpcs_by_op_and_by_class(drawn: dict[str, Figure]) -> None:
    """Empty RPCs are not among them: the shortest of those takes 100 µs."""
    assert [axis.get_title() for axis in drawn[BY_OP].axes] == ["pull", "push"]
    for axis in drawn[BY_OP].axes:
        assert [line.get_label() for line in axis.lines] == ARMS
        x, _ = curve(axis, "neither")
        assert (x[0], x[-1]) == pytest.approx((0.2, 0.51))
    all_hit, mixed, cold = drawn[BY_CLASS].axes
    assert [axis.get_title() for axis in (all_hit, mixed, cold)] == ["all-hit", "mixed", "cold"]
    assert [line.get_label() for line in all_hit.lines] == ["hot", "both"]
    assert [line.get_label() for line in cold.lines] == ARMS
    assert curve(cold, "neither")[0][0] == pytest.approx(0.2)
    assert [median(axis, "hot") for axis in (all_hit, mixed, cold)] == pytest.approx([0.08, 0.3, 0.21])


def test_where_an_rpcs_time_goes(drawn: dict[str, Figure]) -> None:
    """The five metrics, end to end, for each arm; the first arm on top."""
    [axis] = drawn[BREAKDOWN].axes
    assert axis.get_xlabel() == "mean, µs"
    assert [label.get_text() for label in axis.get_yticklabels()] == ARMS
    bottom, top = axis.get_ylim()
    assert bottom > top
    bars = {str(each.get_label()): each for each in axis.containers if isinstance(each, BarContainer)}
    hot = ARMS.index("hot")
    widths = {metric: bar.patches[hot].get_width() for metric, bar in bars.items()}
    expected = {"w_proc": 3, "w_queue": 5, "ps_proc": 25, "ps_queue": 11, "n_tx": 131.2}
    assert widths == pytest.approx(expected)
    starts = [bar.patches[hot].get_x() for bar in bars.values()]
    assert starts == pytest.approx([0, 3, 8, 33, 44])
    colours = {metric: to_hex(bar.patches[hot].get_facecolor()) for metric, bar in bars.items()}
    assert colours == METRIC_COLOURS
    legend = axis.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == list(expected)


def test_arms_and_metrics_can_be_told_apart() -> None:
    assert len(set(COLOURS.values())) == len(COLOURS) == 4
    assert len(set(METRIC_COLOURS.values())) == len(METRIC_COLOURS) == 5


def test_a_figure_is_an_svg_element_and_is_closed(golden: GoldenRun) -> None:
    before = plt.get_fignums()
    made = figures.figures(golden.folder, golden.summary)
    assert plt.get_fignums() == before
    for text in made.values():
        assert text.startswith("<svg") and text.rstrip().endswith("</svg>")
        assert "<dc:date>" not in text


def test_what_juts_out_of_a_figure_is_not_cut() -> None:
    """From one inch left of a figure of one inch to one inch right of it: three inches of 72 points."""
    figure = plt.figure(figsize=(1, 1))
    figure.text(-1, 0.5, "left", ha="left")
    figure.text(2, 0.5, "right", ha="right")
    size = re.search(r'viewBox="0 0 ([0-9.]+) ', figures.svg(figure))
    assert size is not None and 3 * 72 <= float(size[1]) < 4 * 72
