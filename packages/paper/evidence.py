"""The paper's figures: packing (docs/design.md), the map, and a connection's cost (packages/paper/README.md)."""

from __future__ import annotations

import sys
from pathlib import Path

from analysis.metrics import PS_CPU, PS_PACKETS, WORKER_CPU
from analysis.summary import read_summary
from foundation.designs.hotset import BASELINE, OFFLOAD, PROXY
from hotline_paper.connections.figure import ACTIVITIES, delay_against_connections
from hotline_paper.connections.waiting import WAYS
from hotline_paper.packing import PackingRatios
from hotline_paper.plan import map_stages
from hotline_paper.stages import result_path
from tools.evidence.result import Cell, Measured, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step, json_output, typed
from tools.evidence.stages.real_runs import PROGRAM_FILES, change_in_percent, difference_of

_PACKING = typed("packing", "python -m hotline_paper.packing")
_FILE = "fig-09.parquet"
_CONNECTIONS = Step(
    "connections",
    (sys.executable, "-m", "hotline_paper.connections", "-o", f"{{folder}}/{_FILE}"),
    f"python -m hotline_paper.connections -o {_FILE}",
)
_THOUSAND = 1_000  # connections
_ARMS = (BASELINE.name, PROXY.name)


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
    files=("p4src/hotset/*.p4", "p4src/compiled/hotset.json"),
    seeds=(1,),
    needs="two quiet cores and root",
)
_MAP = Step("map", (sys.executable, "-m", "hotline_paper", "map", "--into", "{folder}/runs"), "make map")
_MAP_METRICS = {
    PS_PACKETS.name: "packets to the servers",
    PS_CPU.name: "servers' CPU",
    WORKER_CPU.name: "workers' CPU",
    "pull_mean": "time of a pull",
    "push_mean": "time of a push",
}


def map_tables(folder: Path) -> dict[str, Table]:
    changes = dict[tuple[float, int], list[Cell]]()
    for stage in map_stages(quick=False):
        match stage.settings.get("workload"):
            case {"hot_share": float(share), "keys_per_step": int(keys)}:
                summary = read_summary(result_path(stage, folder / _MAP.name / "runs"))
                changes[share, keys] = [
                    change_in_percent(difference_of(summary, OFFLOAD.name, metric)) for metric in _MAP_METRICS
                ]
    return {
        "map": make_table(
            "change by offload, by skew and keys a step",
            "one run each of eight rounds, with the interval of 95 %",
            ("skew", "keys a step"),
            dict.fromkeys(_MAP_METRICS.values(), "{:+.0f} %"),
            {(f"{share:g}", f"{keys:,}"): cells for (share, keys), cells in sorted(changes.items())},
        )
    }


MAP = Stage(
    name="map",
    minutes=15,
    results=("map",),
    steps=(_MAP,),
    tables=map_tables,
    modules=("hotline_paper.plan", *REAL_RUN),
    files=PROGRAM_FILES,
    seeds=(1,),
    needs="two quiet cores and root",
)
STAGES = (PACKING, CONNECTIONS, MAP)
