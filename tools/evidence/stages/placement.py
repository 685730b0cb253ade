"""Offload by the CPU of the switch, and lost answers.

Their pages are packages/softswitch/docs/kernel.md and docs/start.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

from analysis.metrics import PS_CPU, PS_PACKETS, WORKER_CPU
from foundation.designs.hotset import OFFLOAD, OFFLOAD_PROXY
from tools.evidence.result import Cell, EvidenceError, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step
from tools.evidence.stages.real_runs import (
    PROGRAM_FILES,
    change_in_percent,
    difference_of,
    run_step,
    summary_of_step,
)

SEED = 41
_PLACES = {"any": '"any"', "0": "0, the servers'", "1": "1, the workers'"}
"""Value of the setting `switch` -> how a page has it."""
_NEEDS = "two quiet cores and root"


def _of_place(place: str) -> Step:
    value = place if place.isdigit() else f'"{place}"'
    settings = f"[placement]\nservers = 0\nworkers = 1\nswitch = {value}\n"
    shown = f"make run-topo SEED={SEED} CONFIG=switch-{place}.toml"
    return run_step(place, f"SEED={SEED}", settings=settings, shown=shown)


def placement_tables(folder: Path) -> dict[str, Table]:
    summaries = {place: summary_of_step(folder, place) for place in _PLACES}
    return {
        "placement": make_table(
            f"change of CPU time by {OFFLOAD_PROXY.name}, by the CPU of the switch's program",
            "one run each, with the interval of the look at which it ended",
            ("`switch =`",),
            {"workers' CPU": "{:+.0f} %", "servers' CPU": "{:+.0f} %"},
            {
                (title,): [
                    change_in_percent(difference_of(summaries[place], OFFLOAD_PROXY.name, metric.name))
                    for metric in (WORKER_CPU, PS_CPU)
                ]
                for place, title in _PLACES.items()
            },
        )
    }


PLACEMENT = Stage(
    name="placement",
    minutes=9,
    results=("placement",),
    steps=tuple(map(_of_place, _PLACES)),
    tables=placement_tables,
    modules=REAL_RUN,
    files=PROGRAM_FILES,
    seeds=(SEED,),
    needs=_NEEDS,
)

_BEFORE = run_step("before", f"SEED={SEED}")
_LOST = Step(
    "lost",
    (sys.executable, "-m", "tools.evidence.lost_answers", "{folder}", f"SEED={SEED}"),
    f"git apply lose.patch && make p4 && make run-topo SEED={SEED}",
    files=(("run.toml", 'runs = "{folder}/runs"\n'),),
)
_METRICS = {
    PS_PACKETS.name: "packets to servers",
    "pull_mean": "time of a pull",
    "push_mean": "time of a push",
}


def lost_tables(folder: Path) -> dict[str, Table]:
    summaries = {
        "before": summary_of_step(folder, "before"),
        "with lost answers": summary_of_step(folder, "lost"),
    }
    for title, summary in summaries.items():
        if summary.updates.lost or summary.updates.mismatched_keys:
            raise EvidenceError(f"{title}: expected no lost update, found {summary.updates}")
    columns = list(summaries.values())
    rows: dict[tuple[str, ...], list[Cell]] = {
        (title,): [change_in_percent(difference_of(each, OFFLOAD.name, name)) for each in columns]
        for name, title in _METRICS.items()
    }
    changes = make_table(
        "change by offload with and without lost answers of the switch",
        "one run each, with the interval of the look at which it ended",
        ("",),
        dict.fromkeys(summaries, "{:+,.0f} %"),
        rows,
    )
    counts = make_table(
        "values that were pushed with and without lost answers, and keys whose sum differs",
        "counts of one run each",
        ("",),
        dict.fromkeys(summaries, "{:,.0f}"),
        {
            ("values pushed",): [each.updates.sent for each in columns],
            ("keys that differ",): [each.updates.mismatched_keys for each in columns],
        },
    )
    return {"lost-answers": changes, "lost-answers-counts": counts}


LOST_ANSWERS = Stage(
    name="lost-answers",
    minutes=10,
    results=("lost-answers", "lost-answers-counts"),
    steps=(_BEFORE, _LOST),
    tables=lost_tables,
    modules=REAL_RUN,
    files=PROGRAM_FILES,
    seeds=(SEED,),
    needs=_NEEDS,
)
