"""The paper's figures: packing in docs/design.md; connections and the map in packages/paper/README.md."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from experiment.run_config import Config
from foundation.designs.hotset import BASELINE, PROXY
from hotline_paper.connections.figure import ACTIVITIES, delay_against_connections
from hotline_paper.connections.waiting import WAYS
from hotline_paper.map import TITLES
from hotline_paper.numbers import MapNumbers, MapRun
from hotline_paper.packing import PackingRatios
from tools.evidence.result import Cell, Measured, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step, json_output, typed
from tools.evidence.stages.real_runs import PROGRAM_FILES, change_in_percent

_PACKING = typed("packing", "python -m hotline_paper.packing")
_FILE = "fig-09.parquet"
_CONNECTIONS = Step(
    "connections",
    (sys.executable, "-m", "hotline_paper.connections", "-o", f"{{folder}}/{_FILE}"),
    f"python -m hotline_paper.connections -o {_FILE}",
)
_MAP = Step(
    "map",
    (sys.executable, "-m", "hotline_paper", "map", "--json", "--into", "{folder}/map"),
    "make map ARGS=--json",
)
_THOUSAND = 1_000  # connections
_ARMS = (BASELINE.name, PROXY.name)
_CLAIMED, _DISTURBED = "claimed", "disturbed blocks"
_SHORT_TITLES = {
    "packets": "packets", "servers": "servers", "workers": "workers", "pull": "pulls", "push": "pushes"
}  # fmt: skip
_ONE_RUN = (
    "one run each, and its interval of 95 % or more; what is claimed is by the rule of docs/intervals.md"
)


def packing_tables(folder: Path) -> dict[str, Table]:
    ratios = [PackingRatios(**row) for row in json_output(folder, _PACKING.name)]
    return {
        "packing": make_table(
            "RPCs and packets to the servers with offload, as multiples of those without",
            "mean of 60 mini-batches of one generated trace",
            ("dim", "keys a step", "servers"),
            dict.fromkeys(("RPCs", "least", "packets to the servers"), "× {:.2f}"),
            {
                (f"{each.dim}", f"{each.keys_per_step:,}", f"{each.servers}"): [
                    each.rpcs, each.least, each.server_rpcs
                ]
                for each in ratios
            },
        )
    }  # fmt: skip


PACKING = Stage(
    name="packing",
    minutes=4,
    results=("packing",),
    steps=(_PACKING,),
    tables=packing_tables,
    modules=("hotline_paper.packing",),
    seeds=(1,),
)


def connection_tables(folder: Path) -> dict[str, Table]:
    facts = delay_against_connections(folder / _CONNECTIONS.name / _FILE).facts
    curves = [(arm, activity) for arm in _ARMS for activity in ACTIVITIES.values()]

    def delay(way: str, activity: str, arm: str) -> Cell:
        slope, low, high = (_THOUSAND * facts[way, activity, arm, name] for name in ("slope", "low", "high"))
        return Measured(value=slope, low=low, high=high)

    return {
        "connections": make_table(
            "delay of an empty RPC that 1,000 connections add, µs",
            "mean slope of six rounds, and its 95 % interval",
            ("server",),
            {f"`{arm}`: {activity.partition(',')[0]}": "{:,.0f}" for arm, activity in curves},
            {(way,): [delay(way, activity, arm) for arm, activity in curves] for way in WAYS},
        )
    }


CONNECTIONS = Stage(
    name="connections",
    minutes=6,
    results=("connections",),
    steps=(_CONNECTIONS,),
    tables=connection_tables,
    modules=(
        "hotline_paper.connections.experiment",
        "hotline_paper.connections.client",
        "hotline_paper.connections.server",
        *REAL_RUN,
    ),
    files=("p4src/hotset/*.p4", "p4src/common/*.p4"),
    seeds=(1,),
    needs="two quiet cores and root",
)


def map_tables(folder: Path) -> dict[str, Table]:
    numbers = MapNumbers.model_validate(json_output(folder, _MAP.name))
    default = Config().workers
    of_map = sorted(
        (run for run in numbers.runs if run.workers == default),
        key=lambda run: (run.skew, run.keys_per_step),
    )
    of_workers = [run for run in numbers.runs if run.workers != default]
    return {
        "map": _table(
            "change by offload at a skew and a number of keys a step, measured",
            ("skew", "keys a step"),
            {(f"{run.skew:g}", f"{run.keys_per_step:,}"): run for run in of_map},
        ),
        "map-workers": _table(
            "change by offload with a number of workers and servers, measured",
            ("workers", "servers"),
            {(f"{run.workers}", f"{run.servers}"): run for run in of_workers},
        ),
        "map-errors": make_table(
            "error of the map's model",
            "distances of predicted and measured change; each run is predicted from the others",
            ("",),
            dict.fromkeys(("median, points", "largest, points"), "{:.1f}"),
            {
                (TITLES[quantity],): [100 * median(errors), 100 * max(errors)]
                for quantity, errors in numbers.errors.items()
            },
        ),
    }


def _table(quantity: str, headings: tuple[str, ...], runs: Mapping[tuple[str, ...], MapRun]) -> Table:
    columns = {**dict.fromkeys(TITLES.values(), "{:+.0f} %"), _CLAIMED: "{:.0f}", _DISTURBED: "{:,.0f}"}
    return make_table(
        quantity, _ONE_RUN, headings, columns, {names: _cells(run) for names, run in runs.items()}
    )


def _cells(run: MapRun) -> list[Cell]:
    changes = [change_in_percent(run.changes[each]) for each in TITLES]
    return [*changes, ", ".join(_SHORT_TITLES[each] for each in run.claimed), run.disturbed_blocks]


MAP = Stage(
    name="map",
    minutes=20,
    results=("map", "map-workers", "map-errors"),
    steps=(_MAP,),
    tables=map_tables,
    modules=("hotline_paper.__main__", "hotline_paper.report", "hotline_paper.numbers", *REAL_RUN),
    files=PROGRAM_FILES,
    seeds=(1,),
    needs="two quiet cores and root",
)
STAGES = (PACKING, CONNECTIONS, MAP)
