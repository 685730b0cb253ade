"""The Tofino's memory as it is counted: tables of packages/tofino/README.md."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hotline_tofino.memory import ProgramCount
from tools.evidence.result import Table, make_table
from tools.evidence.stage import Stage, json_output, typed

_STEP = typed("memory", "python -m hotline_tofino.memory")


def tables(folder: Path) -> dict[str, Table]:
    counted = json_output(folder, _STEP.name)
    programs = [ProgramCount(**each) for each in counted["programs"]]
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
    }  # fmt: skip


TOFINO = Stage(
    name="tofino",
    minutes=0.1,
    results=("tofino-rows", "tofino-callers"),
    steps=(_STEP,),
    tables=tables,
    modules=("hotline_tofino.memory",),
    files=("packages/tofino/p4src/**/*.p4",),
)
STAGES = (TOFINO,)
