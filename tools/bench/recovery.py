"""`python -m tools.bench.recovery`: what durable servers and replay logs cost.

Each pass has a run of every setting in random order, at the same offered rate: `without` is the baseline, and
`repeat` the baseline once more, whose differences are noise. A figure is the geometric mean of the passes'
ratios to the baseline, with Student's 95 % interval of their logs.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import click
import numpy as np
from rich.console import Console

from analysis.fitted_table import FittedTable
from analysis.record import read_record
from foundation.designs.hotset import BASELINE, OFFLOAD_PROXY
from tools.bench.intervals import Rounds, student_of_logs
from tools.bench.repeat import SHORT, make_runs, read

WITHOUT = "without"
SETTINGS: dict[str, dict[str, object]] = {
    WITHOUT: {},
    "repeat": {},
    "journal_sync = never": {"recovery.journal_sync": "never"},
    "journal_sync = always": {"recovery.journal_sync": "always"},
    "replay_log": {"recovery.replay_log": True},
}
ARMS = (BASELINE.name, OFFLOAD_PROXY.name)
RATE = 150.0
"""Offered steps/s: half of the capacity of the slowest setting on two cores."""
ROUNDS = 8

Figures = dict[tuple[str, str], float]
"""(figure, arm) -> value in one run; for memory, which belongs to no arm, the arm is ""."""


class Change(NamedTuple):
    """The change of a figure by a setting, as a fraction (0.1 is +10 %), and the bounds of its interval."""

    ratio: float
    low: float
    high: float


def make_passes(passes: int, rate: float, folder: Path) -> Iterator[dict[str, Figures]]:
    for number in range(1, passes + 1):
        order = list(SETTINGS)
        Random(number).shuffle(order)
        common: dict[str, object] = {
            **SHORT, "arms": list(ARMS), "loads": [1.0], "rate": rate, "rounds": ROUNDS, "seed": number,
        }  # fmt: skip
        figures_by_setting: dict[str, Figures] = {}
        for setting in order:
            settings = common | SETTINGS[setting]
            (run,) = make_runs(1, settings, folder / f"{number}-{setting.replace(' ', '')}", with_seeds=False)
            figures_by_setting[setting] = figures(run)
        yield figures_by_setting


def figures(run: Path) -> Figures:
    """Return latencies and CPU times of a run in µs, and the memory of its largest PS and worker in MB."""
    record, (load,) = read_record(run), read(run).loads.values()
    values: Figures = {}
    for arm in ARMS:
        result = load.arms[arm]
        for op, latency in result.op_latency_us.items():
            # Where the machine stalls for a while, the mean changes and the median does not.
            values[f"{op}, p50", arm] = latency.p50 or float("nan")
        worker_s = sum(block.worker_cpu_s for block in record.blocks if block.arm == arm)
        values["PS CPU a step", arm] = 1e6 * result.ps_cpu_s / result.steps
        values["worker CPU a step", arm] = 1e6 * worker_s / result.steps
    for title, agent in (("memory of a PS", "ps-"), ("memory of a worker", "worker-")):
        values[title, ""] = max(mb for name, mb in record.memory_mb.items() if name.startswith(agent))
    return values


Changes = dict[str, dict[tuple[str, str], Change]]
"""Setting -> (figure, arm) -> change by the setting."""


def changes(passes: Sequence[dict[str, Figures]]) -> Changes:
    """Return the change of each figure by each setting; it needs at least two passes."""
    return {
        setting: {
            figure: _change(
                np.array([each[setting][figure] for each in passes]),
                np.array([each[WITHOUT][figure] for each in passes]),
            )
            for figure in passes[0][WITHOUT]
        }
        for setting in SETTINGS
        if setting != WITHOUT
    }


def _change(with_setting: Rounds, without: Rounds) -> Change:
    low, high = student_of_logs(with_setting, without)
    return Change(float(np.exp(np.log(with_setting / without).mean())) - 1, low - 1, high - 1)


@click.command()
@click.option("--passes", type=click.IntRange(min=2), default=8, show_default=True)
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), default=RATE, show_default=True)
@click.option("--folder", type=click.Path(path_type=Path), help="Folder of the runs, temporary by default.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def main(passes: int, rate: float, folder: Path | None, as_json: bool) -> None:
    """Make runs, and measure what recovery costs: some three minutes a pass."""
    folder = folder or Path(tempfile.mkdtemp(prefix="hotline-recovery-"))
    err = Console(stderr=True)
    passes_made = []
    for figures_by_setting in make_passes(passes, rate, folder):
        passes_made.append(figures_by_setting)
        err.print(f"pass {len(passes_made)} of {passes}, runs in {folder}", highlight=False)
    changes_by_setting = changes(passes_made)
    medians = {
        figure: float(np.median([each[WITHOUT][figure] for each in passes_made]))
        for figure in passes_made[0][WITHOUT]
    }
    if as_json:
        print(json.dumps(_as_json(medians, changes_by_setting), indent=2))
    else:
        Console(width=130).print(_table(medians, changes_by_setting))


def _as_json(medians: Figures, changes_by_setting: Changes) -> list[dict[str, object]]:
    return [
        {
            "figure": title, "arm": arm, WITHOUT: medians[title, arm],
            **{setting: change[title, arm]._asdict() for setting, change in changes_by_setting.items()},
        }
        for title, arm in medians
    ]  # fmt: skip


def _table(medians: Figures, changes_by_setting: Changes) -> FittedTable:
    table = FittedTable(["", WITHOUT], [*changes_by_setting], padding=(0, 1, 0, 1))
    for title, arm in medians:
        cells = [_cell(change[title, arm]) for change in changes_by_setting.values()]
        table.add_row(f"{title}, {arm}" if arm else title, f"{medians[title, arm]:,.0f}", *cells)
    return table


def _cell(change: Change) -> str:
    return f"{change.ratio:+.0%} \\[{change.low:+.0%}, {change.high:+.0%}]"


if __name__ == "__main__":
    main()
