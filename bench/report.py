"""The bench's result as a table for people and as JSON for programs."""

import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.table import Table

from bench.measure import Figures
from bench.targets import BMV2, Placement, Running


class Row(NamedTuple):
    """One target in one round."""

    figures: Figures
    running: Running


Rounds = Mapping[str, Sequence[Row]]
"""By target, one row a round; the rounds of all targets alternate."""

_COLUMNS: dict[str, Callable[[Row], float | None]] = {
    "packets/s windowed": lambda row: row.figures.windowed_rate,
    "packets/s paced": lambda row: row.figures.loss_free_rate,
    "p50 low": lambda row: row.figures.low_p50,
    "p99 low": lambda row: row.figures.low_p99,
    "p50 at 10 %": lambda row: row.figures.tenth_p50,
    "p99 at 10 %": lambda row: row.figures.tenth_p99,
    "start, s": lambda row: row.running.start_seconds,
    "install, s": lambda row: row.running.install_seconds,
}


_LEGEND = (
    "windowed: with a worker's 64 RPCs in flight; paced: highest rate without loss; p50 and p99: one way, "
    "µs, at 1,000 packets/s and at 10 % of the paced rate; install: 20,000 hot entries over P4Runtime"
)


def machine() -> str:
    """Name of the processor and the kernel."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "?")
    return f"{platform.node()}: {model}, Linux {platform.release()}"


def placed(cores: Placement) -> str:
    """Where everything runs."""
    bmv2 = ", ".join(map(str, cores.bmv2))
    return f"generator and sink on core {cores.generator}, softswitch on {cores.softswitch}, BMv2 on {bmv2}"


def as_table(rounds: Rounds, cores: Placement) -> Table:
    """Medians over the rounds, and for BMv2 the others' ratios to it: medians of each round's ratio."""
    count = len(next(iter(rounds.values())))
    table = Table(
        title=f"all-hit pushes, 32 lanes, 482 B, over veth; median of {count} paired rounds",
        caption=f"{_LEGEND}\n{machine()}\n{placed(cores)}",
    )
    table.add_column("")
    for heading in _COLUMNS:
        table.add_column(heading, justify="right")
    for name, rows in rounds.items():
        table.add_row(name, *(_cell(_medians(rows)[heading]) for heading in _COLUMNS))
    for name, rows in rounds.items():
        if BMV2 in rounds and name != BMV2:
            ratios = _ratios(rows, rounds[BMV2])
            table.add_row(f"{name} / {BMV2}", *(_cell(ratios[heading]) for heading in _COLUMNS))
    return table


def as_json(rounds: Rounds, cores: Placement) -> dict[str, Any]:
    """All rounds, by the table's headings; latencies in µs."""
    return {
        "machine": machine(),
        "placement": placed(cores),
        "legend": _LEGEND,
        "rounds": {
            name: [{heading: of(row) for heading, of in _COLUMNS.items()} for row in rows]
            for name, rows in rounds.items()
        },
        "ratios_to_bmv2": {
            name: _ratios(rows, rounds[BMV2])
            for name, rows in rounds.items()
            if BMV2 in rounds and name != BMV2
        },
    }


def _medians(rows: Sequence[Row]) -> dict[str, float | None]:
    return {heading: _median([of(row) for row in rows]) for heading, of in _COLUMNS.items()}


def _ratios(rows: Sequence[Row], base: Sequence[Row]) -> dict[str, float | None]:
    return {
        heading: _median([_ratio(of(a), of(b)) for a, b in zip(rows, base, strict=True)])
        for heading, of in _COLUMNS.items()
    }


def _ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def _median(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return median(present) if present else None


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"
