"""Replays of generated access logs by all policies: the tables of packages/policies/README.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from foundation.protocol.memory import size_text
from hotline_policies.memory import MemoryShares
from hotline_policies.public_logs.log_table import Cell as LogCell
from hotline_policies.public_logs.log_table import LogTable
from hotline_policies.results import PolicyOutcome, Study
from hotline_policies.rules import BY_NAME
from tools.evidence.result import Cell, Table, make_table
from tools.evidence.stage import Stage, Step, json_output, typed

KEYS = 20_000
DRIFT_STEPS = 1_500
HALF_LIVES = (125, 500, 8_000)
_COMPARED = {
    "optimum": "belady",
    "top-k, fixed": "top-k",
    "window": "window",
    "TinyLFU": "tinylfu",
    "LRU": "lru",
}
"""Title of a column -> policy."""
_SHARE = "{:.1f} %"


def _steps() -> Iterator[Step]:
    for log in ("r1", "r2"):
        yield _step(log, f"--built-in {log}")
    for half_life in HALF_LIVES:
        yield _step(_drift(half_life), f"--built-in r1 --half-life {half_life} --steps {DRIFT_STEPS}")


def _step(name: str, options: str) -> Step:
    return typed(name, f"./hotline policies {options} --sizes {KEYS} --json", "--into", "{folder}/policies")


def _drift(half_life: int) -> str:
    return f"half-life-{half_life}"


def tables(folder: Path) -> dict[str, Table]:
    studies = {step.name: Study.model_validate(json_output(folder, step.name)) for step in POLICIES.steps}
    return {
        "policies": _by_policy(studies),
        "policies-drift": _by_half_life({half_life: studies[_drift(half_life)] for half_life in HALF_LIVES}),
    }


def _by_policy(studies: Mapping[str, Study]) -> Table:
    columns = {"R1": "r1", "R2": "r2", "R1, half-life of 500 steps": _drift(500)}
    outcomes = {title: studies[name].at(KEYS) for title, name in columns.items()}
    names = sorted(BY_NAME, key=lambda name: -outcomes["R1"][name].share)
    return make_table(
        f"share of the updates that hit {KEYS:,} keys",
        "one replay each of a generated log, of 4,000 steps, or of 1,500 with a half-life; the second half "
        "is scored",
        ("policy", "what the switch holds"),
        dict.fromkeys(columns, _SHARE),
        {
            (f"`{name}`", BY_NAME[name].description): [_hits(by_name[name]) for by_name in outcomes.values()]
            for name in names
        },
    )


def _by_half_life(studies: Mapping[int, Study]) -> Table:
    # The shares with a half-life of 500 steps have their home in the other table.
    def cells(study: Study) -> Iterator[Cell]:
        yield study.facts.half_life
        outcomes = study.at(KEYS)
        for name in _COMPARED.values():
            yield _hits(outcomes[name])

    return make_table(
        f"share of R1's updates that hit {KEYS:,} keys whose half-life changes",
        "one replay each, of 1,500 steps of which the last 750 are scored",
        ("half-life, steps",),
        {"estimated": "{:,.0f}", **dict.fromkeys(_COMPARED, _SHARE)},
        {(f"{half_life:,}",): list(cells(study)) for half_life, study in studies.items()},
    )


def _hits(outcome: PolicyOutcome) -> float:
    return 100 * outcome.share


POLICIES = Stage(
    name="policies",
    minutes=4,
    results=("policies", "policies-drift"),
    steps=tuple(_steps()),
    tables=tables,
    modules=("hotline_policies.study", "hotline_policies.generated"),
)

_PUBLIC = typed("tables", "./hotline policies public-logs runs/public-logs --json")
_FORMS = {"%": "{:.1f}", "count": "{:,.0f}", "kB": "{:,.1f}"}
_COUNTS = (
    "moves", "updates", "updates scored", "keys", "keys in the switch", "mini-batches", "half-life",
    "half-life, mini-batches", "rows in all slots",
)  # fmt: skip
"""Ends of the names of columns whose numbers are counts; others are shares in %, or kB."""


def public_tables(folder: Path) -> dict[str, Table]:
    printed = json_output(folder, _PUBLIC.name)
    return {name: _of_logs(LogTable.model_validate(table)) for name, table in printed.items()}


def _of_logs(table: LogTable) -> Table:
    """Return a table whose first columns, up to the first with a number, name the rows."""
    named = next(index for index, cell in enumerate(table.rows[0]) if not isinstance(cell, str))
    columns = {name: _FORMS[_kind(name)] for name in table.columns[named:]}
    return make_table(
        table.title,
        "one replay each; of the second half of each log",
        table.columns[:named],
        columns,
        {tuple(map(str, row[:named])): [_number(cell) for cell in row[named:]] for row in table.rows},
    )


def _kind(column: str) -> str:
    if column.endswith("kB") and "," in column:
        return "kB"
    return "count" if column.rpartition(", ")[2] in _COUNTS or column in _COUNTS else "%"


def _number(cell: LogCell) -> Cell:
    return float(cell) if isinstance(cell, int) else cell


PUBLIC_LOGS = Stage(
    name="public-logs",
    minutes=2,
    results=(
        "policies-real-logs",
        "policies-real-logs-facts",
        "policies-real-logs-by-table",
        "hit-share-by-memory",
    ),
    steps=(_PUBLIC,),
    tables=public_tables,
    modules=("hotline_policies.public_logs.tables", "hotline_policies.public_logs.logs"),
    seeds=(1,),
    needs="the public logs of the page, in runs/public-logs",
)

LEAVES = 8
_TOTAL_BYTES = (500_000, 1_000_000, 2_000_000)
"""Memory of all leaves together; one switch has slots for more rows than fit into any of these."""
_COMPARED_VALUES = ("1", "64")
_SIZES = sorted({size for total in _TOTAL_BYTES for size in (total // LEAVES, total)})
_MEMORY_STEPS = {
    title: typed(
        f"memory-{log}",
        f"./hotline policies memory --built-in {log} --memory {','.join(map(str, _SIZES))} --json",
    )
    for title, log in {"R1": "r1", "R2": "r2", "DLRM (`TABLES=criteo`)": "criteo"}.items()
}


def leaf_memory_tables(folder: Path) -> dict[str, Table]:
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for title, step in _MEMORY_STEPS.items():
        shares = MemoryShares.model_validate(json_output(folder, step.name))
        for of_dim in shares.dims:
            if of_dim.values in _COMPARED_VALUES:
                by_size = {point.size: 100 * point.share for point in of_dim.points}
                rows[title, of_dim.values] = [
                    by_size[size] for total in _TOTAL_BYTES for size in (total // LEAVES, total)
                ]
    ways = ("all rows at each leaf", "each row at one leaf")
    columns = [f"{size_text(total)}, {way}" for total in _TOTAL_BYTES for way in ways]
    return {
        "hit-share-by-leaves": make_table(
            f"updates that {LEAVES} leaves take, %, against their memory together",
            "one replay each of a generated log; the second half is scored",
            ("log", "values of a row"),
            dict.fromkeys(columns, "{:.1f}"),
            rows,
        )
    }


LEAF_MEMORY = Stage(
    name="memory-of-leaves",
    minutes=3,
    results=("hit-share-by-leaves",),
    steps=tuple(_MEMORY_STEPS.values()),
    tables=leaf_memory_tables,
    modules=("hotline_policies.memory", "hotline_policies.generated"),
    seeds=(1,),
)
STAGES = (POLICIES, LEAF_MEMORY, PUBLIC_LOGS)
