"""A Tofino's memory as it is counted, and what a chip is worth: tables of packages/tofino/README.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hotline_answers.cluster_answer.ask import ClusterAnswer
from hotline_tofino.memory import NetworkRoleCount, ProgramCount
from tools.evidence.result import Cell, Table, make_table
from tools.evidence.stage import Stage, json_output, modules_of, typed
from tools.evidence.stages.real_runs import change_in_percent

_STEP = typed("memory", "python -m hotline_tofino.memory")


def tables(folder: Path) -> dict[str, Table]:
    counted = json_output(folder, _STEP.name)
    programs = [ProgramCount(**each) for each in counted["programs"]]
    roles = [NetworkRoleCount(**each) for each in counted["roles"]]
    callers: list[Mapping[str, int]] = counted["callers"]
    return {
        "tofino-rows": make_table(
            "rows that fit into a Tofino, and memory of a pipe",
            "counted from the program",
            ("program",),
            {
                "rows": "{:,.0f}", "values": "{:,.0f}", "bytes of a full push, a value": "{:.1f}",
                "SRAM": "{:.0f}", "map RAM": "{:.0f}", "map RAMs in the fullest stage of values": "{:.0f}",
            },
            {
                (each.program,): [
                    each.rows, each.values, each.push_bytes_a_value, each.srams, each.map_rams,
                    each.fullest_stage_map_rams,
                ]
                for each in programs
            },
        ),
        "tofino-callers": make_table(
            "blocks of SRAM of a Tofino that the exactly-once cells take",
            "counted from the program",
            ("callers", "`CALLER_BITS`"),
            {"16 lanes": "{:.0f}", "rows of 16": "{:.0f}"},
            {
                (f"{each['callers']:,}", f"{each['bits']}"): [each["lanes"], each["rows"]] for each in callers
            },
        ),
        "tofino-network": make_table(
            "blocks of a Tofino 1 that a switch of a network takes, for rows of one value in 16 lanes",
            "counted from the program",
            ("switch",),
            {
                "map RAM, cells of 1,024 callers": "{:.0f}", "map RAM, values and counters": "{:.0f}",
                "SRAM, look-ups": "{:.0f}", "map RAM": "{:.0f}", "SRAM": "{:.0f}",
            },
            {(each.role,): list(each[1:]) for each in roles},
        ),
    }  # fmt: skip


TOFINO = Stage(
    name="tofino",
    minutes=0.1,
    results=("tofino-rows", "tofino-callers", "tofino-network"),
    steps=(_STEP,),
    tables=tables,
    modules=("hotline_tofino.memory",),
    files=("packages/tofino/p4src/**/*.p4",),
)

_CLUSTERS = {
    "4 workers, 2 servers": ("4-2", "--workers 4 --servers 2"),
    "8 workers, 2 servers": ("8-2", "--workers 8 --servers 2"),
    "S1, in 8 racks": ("s1", "--workers 80 --servers 20 --racks 8"),
}
"""Cluster -> the name of its steps, and options of `answer`. S6 has more servers than a pipe has ports."""
_PROGRAMS = {"tofino": "16 lanes", "tofino-long": "and 16 that it passes on"}
_HOT_KEYS = (20_000, 50_000)
_CHIP_STEPS = {
    (cluster, lanes, keys): typed(
        f"{name}-{program}-{keys}", f"./hotline answer --switch {program} --top-k {keys} {options} --json"
    )
    for cluster, (name, options) in _CLUSTERS.items()
    for program, lanes in _PROGRAMS.items()
    for keys in _HOT_KEYS
}
_CHANGED = {
    "ps_packets_per_step": "packets to servers", "ps_cpu_us_per_step": "servers' CPU",
    "worker_cpu_us_per_step": "workers' CPU", "pull_mean": "time of a pull",
}  # fmt: skip


def chip_tables(folder: Path) -> dict[str, Table]:
    answers = {
        key: ClusterAnswer.model_validate(json_output(folder, step.name)) for key, step in _CHIP_STEPS.items()
    }
    times_ms = dict.fromkeys(each.compute_ms for answer in answers.values() for each in answer.computing)
    columns = {f"steps/s, {ms:g} ms": "× {:.2f}" for ms in times_ms}
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for (cluster, lanes, keys), answer in answers.items():
        gains = [each.offload / each.baseline for each in answer.computing]
        changes = [change_in_percent(answer.sides.differences[metric]) for metric in _CHANGED]
        rows[cluster, lanes, f"{keys:,}"] = [*gains, *changes]
    return {
        "chip": make_table(
            "steps/s at capacity with a hot set in a Tofino 1, as multiples of those without; and changes of "
            "a step at half load, without computing",
            "one simulation each; intervals are those of its rounds",
            ("cluster", "lanes", "hot keys"),
            columns | dict.fromkeys(_CHANGED.values(), "{:+.0f} %"),
            rows,
        )
    }


CHIP = Stage(
    name="chip",
    minutes=8,
    results=("chip",),
    steps=tuple(_CHIP_STEPS.values()),
    tables=chip_tables,
    modules=("hotline_answers.cluster_answer.ask", *modules_of("hotset", "none")),
    files=("p4src/**/*.json",),
    seeds=(1,),
)
STAGES = (TOFINO, CHIP)
