"""The tables of docs/reliability.md: schedules of faults, and the cost of recovery."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

from hotline_simulator.faults.kinds import FAULTS
from hotline_simulator.faults.schedule import ARMS, NETWORK_ARMS, SPRAYED_ARMS
from tools.bench.recovery import SETTINGS, WITHOUT, Change
from tools.evidence.result import Cell, Measured, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step, json_output, modules_of, typed

_FAULTS = typed("faults", "./hotline faults --json", "--into", "{folder}/faults.json")
_ARMS_OF_WORKER_LEAVES = [arm for arm in NETWORK_ARMS if arm.endswith("@worker-leaves")]
_ARMS_OF_LEVELS = [arm for arm in NETWORK_ARMS if arm.endswith("@both")]
_OTHER_NETWORK_ARMS = [arm for arm in NETWORK_ARMS if arm not in _ARMS_OF_WORKER_LEAVES + _ARMS_OF_LEVELS]


def _network_faults(arms: Sequence[str], schedules: int = 1_050, name: str = "faults") -> Step:
    command = " ".join(
        (f"./hotline faults --json --schedules {schedules}", *(f"--arm {arm}" for arm in arms))
    )
    return typed(name, command, "--into", f"{{folder}}/{name}.json")


_RECOVERY = typed("recovery", "python -m tools.bench.recovery --passes 6 --json", "--folder", "{folder}/runs")
_SPRAYED = "sprayed"
_WRONG = ("lost", "doubled", "torn", "misread")
_COUNTS = ("schedules", "rpcs", "sent")
_QUANTILES = ("p50", "p99")

Tally = Mapping[str, Any]  # JSON: strings, numbers and a mapping


def fault_tables(folder: Path) -> dict[str, Table]:
    title = "schedules of faults in virtual time, and what they did"
    return {"faults": _fault_table(json_output(folder, _FAULTS.name), ARMS, title)}


def network_fault_tables(folder: Path) -> dict[str, Table]:
    title = "schedules of faults in simulated networks of two leaves and a spine, and what they did"
    tallies = json_output(folder, "faults")
    return {"faults-networks": _fault_table(tallies, _OTHER_NETWORK_ARMS, title)}


def worker_leaves_fault_tables(folder: Path) -> dict[str, Table]:
    title = "schedules of faults in simulated networks whose leaves sum for their workers, and what they did"
    tallies = json_output(folder, "faults")
    return {"faults-worker-leaves": _fault_table(tallies, _ARMS_OF_WORKER_LEAVES, title)}


def levels_fault_tables(folder: Path) -> dict[str, Table]:
    title = (
        "schedules of faults in simulated networks whose rows move between a spine and leaves, or whose "
        "leaves sum while packets take turns at two spines, and what they did"
    )
    tallies = [*json_output(folder, "faults"), *json_output(folder, _SPRAYED)]
    tallies.sort(key=lambda each: [*FAULTS].index(each["fault"]))
    return {"faults-levels": _fault_table(tallies, [*_ARMS_OF_LEVELS, *SPRAYED_ARMS], title)}


def _fault_table(tallies: Sequence[Tally], arms: Collection[str], title: str) -> Table:
    rows: dict[tuple[str, ...], list[Cell]] = {
        (FAULTS[fault],): list(_cells(list(group), arms))
        for fault, group in groupby(tallies, lambda each: each["fault"])
    }
    rows["all",] = [*_sums(tallies), *[None] * len(_QUANTILES) * len(arms)]
    counts = ("schedules", "RPCs", "lanes acknowledged", "lost, doubled, torn or misread")
    recoveries = [f"recovery {quantile}, ms, `{arm}`" for quantile in _QUANTILES for arm in arms]
    return make_table(
        title,
        "counts, and quantiles over the schedules",
        ("fault",),
        {**dict.fromkeys(counts, "{:,.0f}"), **dict.fromkeys(recoveries, "{:,.2f}")},
        rows,
    )


def _cells(tallies: Sequence[Tally], arms: Collection[str]) -> Iterator[Cell]:
    yield from _sums(tallies)
    by_arm = {each["arm"]: each["recovery_ms"] for each in tallies}
    for quantile in _QUANTILES:
        yield from (by_arm[arm][quantile] if arm in by_arm else None for arm in arms)


def _sums(tallies: Sequence[Tally]) -> Iterator[float]:
    for name in _COUNTS:
        yield sum(each[name] for each in tallies)
    yield sum(each[name] for each in tallies for name in _WRONG)


FAULT_SCHEDULES = Stage(
    name="faults",
    minutes=35,
    results=("faults",),
    steps=(_FAULTS,),
    tables=fault_tables,
    modules=("hotline_simulator.faults.matrix", *modules_of("hotset", "none", "collect")),
    files=("p4src/**/*.json",),
    seeds=(0,),
)

FAULT_SCHEDULES_OF_NETWORKS = replace(
    FAULT_SCHEDULES,
    name="faults-networks",
    results=("faults-networks",),
    steps=(_network_faults(_OTHER_NETWORK_ARMS),),
    tables=network_fault_tables,
    modules=("hotline_simulator.faults.matrix", *modules_of("hotset", "collect")),
)

FAULT_SCHEDULES_OF_WORKER_LEAVES = replace(
    FAULT_SCHEDULES_OF_NETWORKS,
    name="faults-worker-leaves",
    minutes=15,
    results=("faults-worker-leaves",),
    steps=(_network_faults(_ARMS_OF_WORKER_LEAVES),),
    tables=worker_leaves_fault_tables,
    modules=("hotline_simulator.faults.matrix", *modules_of("collect")),
)

FAULT_SCHEDULES_OF_LEVELS = replace(
    FAULT_SCHEDULES_OF_NETWORKS,
    name="faults-levels",
    minutes=15,
    results=("faults-levels",),
    steps=(_network_faults(_ARMS_OF_LEVELS, 3_340), _network_faults([*SPRAYED_ARMS], 420, _SPRAYED)),
    tables=levels_fault_tables,
)


def recovery_tables(folder: Path) -> dict[str, Table]:
    figures = json_output(folder, _RECOVERY.name)
    settings = [setting for setting in SETTINGS if setting != WITHOUT]
    titles = {"repeat": "a repeat, without recovery"}
    return {
        "recovery": make_table(
            "change by durable servers and replay logs, against a run without recovery",
            "geometric mean of 6 passes, and its 95 % interval",
            ("arm", "what"),
            {titles.get(setting, f"`{setting}`"): "{:+,.0f} %" for setting in settings},
            {
                (each["arm"], each["figure"]): [_change(Change(**each[setting])) for setting in settings]
                for each in figures
            },
        )
    }


def _change(change: Change) -> Measured:
    value, low, high = (100 * each for each in change)
    return Measured(value=value, low=low, high=high)


RECOVERY = Stage(
    name="recovery",
    minutes=25,
    results=("recovery",),
    steps=(_RECOVERY,),
    tables=recovery_tables,
    modules=("tools.bench.recovery", *REAL_RUN),
    files=("p4src/hotset/*.p4", "p4src/common/*.p4"),
    seeds=tuple(range(1, 7)),
    needs="two quiet cores and root",
)
