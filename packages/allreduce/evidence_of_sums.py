"""Sums of all-reduce and their errors: tables of packages/allreduce/docs, from searches and simulations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from hotline_allreduce.exact.training import SEED
from hotline_allreduce.judge.verdicts import COLUMNS, PROTOCOLS
from hotline_allreduce.simulation.player import TABLE_VERDICTS
from hotline_allreduce.simulation.schedule import FAULTS
from tools.evidence.result import EvidenceError, Table, make_table
from tools.evidence.stage import Stage, json_output, modules_of, text_output, typed

_PROGRAMS = ("p4src/**/*.json", "packages/allreduce/p4src/**/*.json")
_TRAINING = typed("training", "python -m hotline_allreduce.exact.training")
_ACCURACY = typed("accuracy", "python -m hotline_allreduce.exact.accuracy")
_VERDICTS = typed("verdicts", "python -m hotline_allreduce.judge.verdicts")
_SCHEDULES = {
    name: typed(name, f"python -m hotline_allreduce.{module} --schedules 1000 --json")
    for name, module in (
        ("switchml", "switchml.model.subject"),
        ("atp", "atp.model.subject"),
        ("exact", "exact.subject"),
    )
}
"""Design -> its schedules of faults."""
_TOGETHER = {
    "everything": "the first five together",
    "everything, switch restarted": "the first five together, and the switch loses its state",
    "everything, worker killed": "the first five together, and a worker dies",
}
_CHECK = "with the check, "
_PERCENT = "{:.2f}"


def _rows(folder: Path, step: str) -> list[list[dict[str, str]]]:
    """Return the rows of each table that a command printed, by heading."""
    lines = text_output(folder, step).splitlines()
    found = []
    for is_table, block in groupby(lines, lambda line: line.startswith("|")):
        if is_table:
            headings, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in block)
            found.append([dict(zip(headings, row, strict=True)) for row in rows])
    return found


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def exact_tables(folder: Path) -> dict[str, Table]:
    (trained,), (shares, errors) = _rows(folder, _TRAINING.name), _rows(folder, _ACCURACY.name)
    digest, repeated = "SHA-256 of the weights", "second pass, % of the values"
    return {
        "exact-bits": make_table(
            "weights of a logistic regression that `exact` has trained in 1,000 steps",
            "one simulated training each",
            ("workers",),
            {f"{digest} begins with": "{:g}", repeated: _PERCENT},
            {(row["workers"],): [row[digest], _number(row[repeated])] for row in trained},
        ),
        "exact-wrong-sums": _of_formats(
            "sums of float32 that are not correctly rounded, %", shares,
            {
                "float32": ("float32", _PERCENT), "float32, reversed": ("reversed", _PERCENT),
                "orders differ": ("the two orders differ", _PERCENT), "SwitchML": ("SwitchML", _PERCENT),
                "exact": ("`exact`", "{:g}"), "exact: second pass": ("its second pass", _PERCENT),
            },
        ),
        "exact-largest-errors": _of_formats(
            "largest error of a sum of float32, in units in the last place of the correctly rounded sum",
            errors,
            {
                name: (title, "{:,.0f}")
                for name, title in (
                    ("float32", "float32"), ("float32, reversed", "reversed"), ("SwitchML", "SwitchML"),
                    ("exact", "`exact`"),
                )
            },
        ),
    }  # fmt: skip


def _of_formats(
    quantity: str, rows: Sequence[Mapping[str, str]], columns: Mapping[str, tuple[str, str]]
) -> Table:
    """Return a table of the columns that are named: title and form by the name that the command prints."""
    return make_table(
        quantity,
        "of the 20,000 values of one draw",
        ("values", "workers"),
        dict(columns.values()),
        {(row["values"], row["workers"]): [_number(row[name]) for name in columns] for row in rows},
    )


def schedule_tables(folder: Path) -> dict[str, Table]:
    return {f"{design}-faults": _schedules(folder, design) for design in _SCHEDULES}


def _schedules(folder: Path, design: str) -> Table:
    counts = {(row["fault"], row["arm"]): row["schedules"] for row in json_output(folder, design)}
    faults, arms = (list(dict.fromkeys(names)) for names in zip(*counts, strict=True))
    titles = {
        f"{_CHECK if arm.endswith('-checked') else ''}{verdict.value}": (arm, verdict.value)
        for arm in arms
        for verdict in TABLE_VERDICTS
    }
    return make_table(
        f"fault schedules of `{design}`, by how they end",
        "counts of 1,000 schedules each",
        ("fault",),
        dict.fromkeys(titles, "{:,.0f}"),
        {
            (_TOGETHER.get(fault, FAULTS[fault]),): [
                float(counts[fault, arm][verdict]) for arm, verdict in titles.values()
            ]
            for fault in faults
        },
    )


def verdict_tables(folder: Path) -> dict[str, Table]:
    (rows,) = _rows(folder, _VERDICTS.name)
    if [row[""] for row in rows] != list(PROTOCOLS) or list(rows[0])[1:] != list(COLUMNS):
        raise EvidenceError(f"{folder / _VERDICTS.name}: expected the protocols {', '.join(PROTOCOLS)}")
    return {
        "verdicts": make_table(
            "faults that the judge finds, in how many steps at least, and how many states it has met",
            "one search each",
            ("",),
            dict.fromkeys(COLUMNS, "{:g}"),
            {(row[""],): [row[column] for column in COLUMNS] for row in rows},
        )
    }


EXACT = Stage(
    name="exact",
    minutes=1,
    results=("exact-bits", "exact-wrong-sums", "exact-largest-errors"),
    steps=(_TRAINING, _ACCURACY),
    tables=exact_tables,
    modules=(
        "hotline_allreduce.exact.training", "hotline_allreduce.exact.accuracy",
        *modules_of("exact", "switchml"),
    ),
    files=_PROGRAMS,
    seeds=(SEED,),
)  # fmt: skip
SCHEDULES = Stage(
    name="allreduce-faults",
    minutes=5,
    results=tuple(f"{design}-faults" for design in _SCHEDULES),
    steps=tuple(_SCHEDULES.values()),
    tables=schedule_tables,
    modules=(
        "hotline_allreduce.switchml.model.subject", "hotline_allreduce.atp.model.subject",
        "hotline_allreduce.exact.subject", *modules_of("switchml", "atp", "exact"),
    ),
    files=_PROGRAMS,
)  # fmt: skip
JUDGE = Stage(
    name="judge",
    minutes=3,
    results=("verdicts",),
    steps=(_VERDICTS,),
    tables=verdict_tables,
    modules=("hotline_allreduce.judge.verdicts",),
)
STAGES = (EXACT, SCHEDULES, JUDGE)
