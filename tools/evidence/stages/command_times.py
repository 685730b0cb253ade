"""How long the commands of README and of the packages' pages take, and how much memory."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from tools.evidence.command_times import Usage
from tools.evidence.result import Cell, EvidenceError, Table, make_table
from tools.evidence.stage import REAL_RUN, Stage, Step, json_output

_INSTALL = "python3 -m venv .venv && .venv/bin/pip install -q -e ./softswitch -e . -e ./packages/answers"
_EXAMPLE = "./hotline answer --workers 8 --servers 2 --data examples/clicks.csv --dim 16"
_S1 = "./hotline answer --workers 80 --servers 20 --keys-per-step 3000 --rate 10000"
_LARGE = "./hotline answer --workers 2000 --servers 200"
_SIMULATE = "make simulate"
_COMMANDS: Mapping[str, tuple[bool, Mapping[str, str]]] = {
    "first-run": (True, {"make setup": "set-up", "make run-topo": "`make run-topo` after the set-up"}),
    "first-answer": (True, {_INSTALL: "set-up for `answer` alone", _EXAMPLE: "the first `answer` for a log"}),
    "answers": (False, {_S1: "`answer` for 80 workers and 20 servers", _LARGE: "`answer` for 2,000 and 200"}),
    "simulate": (False, {_SIMULATE: "`make simulate`"}),
}
"""Step -> whether it runs in a fresh clone, and its commands with how the table has them."""


def _step(name: str) -> Step:
    is_fresh, commands = _COMMANDS[name]
    where = ("--clone", "{folder}/clone") if is_fresh else ()
    words = (sys.executable, "-m", "tools.evidence.command_times", *where, *commands)
    return Step(name, words, "; ".join(commands) + ("   # in a fresh clone" if is_fresh else ""))


def tables(folder: Path) -> dict[str, Table]:
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for name, (_, commands) in _COMMANDS.items():
        found = json_output(folder, name)
        for command, title in commands.items():
            if command not in found:
                raise EvidenceError(f"{folder / name}: no usage of {command!r}")
            usage = Usage.model_validate(found[command])
            rows[title,] = [usage.seconds, usage.cpu_s, usage.peak_bytes / 1e9]
    return {
        "command-times": make_table(
            "time of commands on two idle cores, with pip's downloads in its cache",
            "one execution each; the memory is that of the largest process",
            ("command",),
            {"time": "{:,.0f} s", "CPU time": "{:,.0f} s", "memory": "{:.1f} GB"},
            rows,
        )
    }


COMMAND_TIMES = Stage(
    name="command-times",
    minutes=10,
    results=("command-times",),
    steps=tuple(map(_step, _COMMANDS)),
    tables=tables,
    modules=("hotline_answers.cluster_answer.ask", *REAL_RUN),
    files=("scripts/setup", "requirements.lock", "p4src/**/*.json"),
    needs="two quiet cores, root, and a package index",
)
