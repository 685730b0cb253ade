"""The bench's results as Markdown tables and as JSON."""

import os
import platform
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from softswitch.messages import pluralize
from switch_bench.processes import Cores
from switch_bench.results import Result, Targets


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "?")
    cores = pluralize(os.cpu_count() or 1, "core")
    return f"{platform.node()}: {model}, {cores}, Linux {platform.release()}"


def describe_placement(
    cores: Cores, generators: str = "generator and sink", targets: str = "softswitch and C loop"
) -> str:
    bmv2 = " and ".join(map(str, cores.bmv2))
    return f"{generators} on core {cores.generator}, {targets} on {cores.softswitch}, BMv2 on {bmv2}"


def as_tables(results: Sequence[Result]) -> Iterator[Table]:
    """Yield a table for each set of targets that were measured together."""
    for targets in dict.fromkeys(result.targets for result in results):
        yield _table([result for result in results if result.targets == targets], targets)


def _table(results: Sequence[Result], targets: Targets) -> Table:
    """Return medians, ratios and goals in Markdown, to be pasted into docs/performance.md."""
    columns = (targets.measured, *targets.others)
    table = Table(box=box.MARKDOWN)
    table.add_column("what")
    for heading in ("unit", *columns, *(f"/ {other}" for other in targets.others)):
        table.add_column(heading, justify="right")
    table.add_column("goal")
    for result in results:
        values = [_cell(result.value(target)) for target in columns]
        ratios = [_cell(result.ratio(target)) for target in targets.others]
        table.add_row(result.what, result.unit, *values, *ratios, _goals(result))
    return table


def as_json(results: Sequence[Result], placement: str) -> dict[str, Any]:
    return {
        "machine": machine(),
        "placement": placement,
        "lines": [
            {
                "section": result.section,
                "what": result.what,
                "unit": result.unit,
                "rounds": {target: list(values) for target, values in result.samples.items()},
                "ratios": {target: result.ratio(target) for target in result.targets.others},
                "goals": [{"goal": goal.text(), "met": result.is_met(goal)} for goal in result.goals],
            }
            for result in results
        ],
    }


def _goals(result: Result) -> str:
    verdicts = {True: "met", False: "MISSED", None: "not measured"}
    return "; ".join(f"{goal.text()}: {verdicts[result.is_met(goal)]}" for goal in result.goals)


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"
