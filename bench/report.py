"""The bench's result as one table for people and as JSON for programs."""

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from bench.baseline import C_LOOP
from bench.processes import Cores
from bench.results import Result
from bench.switches import BMV2, KERNEL, SOFTSWITCH
from common.words import counted

_TARGETS = (SOFTSWITCH, KERNEL, BMV2, C_LOOP)


def machine() -> str:
    """Name, processor, cores and kernel of this machine."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "?")
    cores = counted(os.cpu_count() or 1, "core")
    return f"{platform.node()}: {model}, {cores}, Linux {platform.release()}"


def placed(cores: Cores) -> str:
    """Where everything runs."""
    bmv2 = " and ".join(map(str, cores.bmv2))
    loops = f"softswitch and C loop on {cores.softswitch}"
    return f"generator and sink on core {cores.generator}, {loops}, BMv2 on {bmv2}"


def as_table(results: Sequence[Result]) -> Table:
    """Medians, ratios and goals, in Markdown, so that it can be pasted into docs/performance.md."""
    table = Table(box=box.MARKDOWN)
    table.add_column("what")
    for heading in ("unit", *_TARGETS, f"/ {BMV2}", f"/ {C_LOOP}"):
        table.add_column(heading, justify="right")
    table.add_column("goal")
    for result in results:
        values = [_cell(result.value(target)) for target in _TARGETS]
        ratios = [_cell(result.ratio(target)) for target in (BMV2, C_LOOP)]
        table.add_row(result.what, result.unit, *values, *ratios, _goals(result))
    return table


def as_json(results: Sequence[Result], cores: Cores) -> dict[str, Any]:
    """All rounds of all lines, with the ratios and whether the goals are met."""
    return {
        "machine": machine(),
        "placement": placed(cores),
        "lines": [
            {
                "section": result.section,
                "what": result.what,
                "unit": result.unit,
                "rounds": {target: list(values) for target, values in result.samples.items()},
                "ratios": {target: result.ratio(target) for target in (BMV2, C_LOOP)},
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
