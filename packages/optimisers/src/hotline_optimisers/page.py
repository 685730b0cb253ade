from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analysis.page.build import Page
from analysis.page.study import text_table, write_report
from analysis.wording import ReportTable
from foundation.text import signed
from hotline_optimisers.figures import figures_of
from hotline_optimisers.numbers import OptimiserNumbers
from hotline_optimisers.plan import TITLES
from hotline_optimisers.training import SERVERS, WORKERS, DataName

_HOW_TO_READ = (
    f"A simulation with the P4 programs and agents of real runs: {WORKERS} workers and {SERVERS} servers, "
    "each with a core of its own, and a dedicated switch.",
    "The learning rate and the hot set are chosen on half of each data set; losses are of the other half. "
    "Models begin with zeros, DLRM with seeded weights. The rate with the lowest loss in the last "
    "fifth of a training on the first half is used.",
    "With SGD, workers push steps, which servers or the switch (hotset) add; with Adagrad, they push "
    "gradients.",
    "Ratings from 4 on are clicks; a sample has its user, its item and a feature that all samples have. "
    "DLRM has 4 numeric and 8 categorical features. The switch holds all keys of the ratings, and the 20,000 "
    "most updated keys of the other data sets.",
)
_EDGE_MARK = " (lowest or highest tried)"


def write_page(numbers: OptimiserNumbers, provenance: Sequence[tuple[str, str]], folder: Path) -> Path:
    figures = figures_of(numbers)
    page = Page(
        title="Optimisers at servers, with the hot set in the switch",
        provenance=provenance,
        tables=tables_of(numbers),
        how_to_read=_HOW_TO_READ,
    )
    return write_report(page, figures, folder, numbers)


def tables_of(numbers: OptimiserNumbers) -> list[tuple[str, Sequence[ReportTable]]]:
    return [
        ("Losses", [loss_table(data, numbers) for data in numbers.data]),
        ("What offload is worth", [changes_table(numbers)]),
    ]


def loss_table(data: DataName, numbers: OptimiserNumbers) -> ReportTable:
    """Return losses of a data set, and ages of published values, in ms and in mini-batches of all workers."""
    rows = []
    for curve in numbers.curves_of(data):
        result, ages = curve.result, curve.result.ages
        age = "" if ages is None else f"{ages.p50:,.3g}, {ages.p99:,.3g}"
        batches = "" if ages is None else f"{ages.p50 * result.steps_per_s / 1e3:,.0f}"
        rate = f"{curve.learning_rate:g}{_EDGE_MARK if curve.is_edge else ''}"
        rows.append((
            curve.label, rate, f"{result.last_loss:.4f}", f"{result.mean_loss:.4f}",
            f"{result.steps_per_s:,.0f}", f"{result.server_us_per_step:,.0f}", age, batches,
        ))  # fmt: skip
    first_result = numbers.curves_of(data)[0].result
    head = (
        "", "learning rate", "loss at the end", "mean loss", "steps/s", "servers, µs a step",
        "age, median and p99, ms", "median age in mini-batches",
    )  # fmt: skip
    return text_table(
        f"{TITLES[data]}: {first_result.keys_per_step:,.0f} keys a step, of which "
        f"{first_result.hot_share:.0%} hit; loss by chance {first_result.chance_loss:.4f}",
        head,
        rows,
    )


def changes_table(numbers: OptimiserNumbers) -> ReportTable:
    rows = []
    for point in numbers.points:
        changes, budget = point.worth, point.budget
        rows.append((
            f"{point.hit_share:.0%}", f"{budget.staleness_ms:,g} ms, {budget.share_of_server:g}",
            *(
                f"{signed(100 * change)}%"
                for change in (
                    changes.servers, changes.packets, changes.pull, changes.push, changes.capacity
                )
            ),
            f"{changes.p50_ms:,.0f}, {changes.p99_ms:,.0f} ms", f"{changes.late:.0%}",
        ))  # fmt: skip
    head = (
        "hits", "maximum age, share of server time", "servers' CPU", "packets to servers", "pulls", "pushes",
        "capacity", "age, median and p99", "older than maximum age",
    )  # fmt: skip
    return text_table("Changes against Adagrad at the servers, at half of their capacity", head, rows)
