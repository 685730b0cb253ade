"""Make the tables of public logs: policies compared, and shares of updates by the memory of the switch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any  # settings of a study

from foundation.protocol.memory import size_text
from hotline_policies.memory import MemoryShares, memory_shares
from hotline_policies.policy import NEEDS_FUTURE
from hotline_policies.public_logs.log_table import Cell, LogTable
from hotline_policies.public_logs.logs import PublicLog
from hotline_policies.result import study
from hotline_policies.results import PolicyOutcome, Study
from hotline_policies.rules import BY_NAME

POLICIES, FACTS, BY_TABLE, MEMORY = (
    "policies-real-logs",
    "policies-real-logs-facts",
    "policies-real-logs-by-table",
    "hit-share-by-memory",
)
_BY_TABLE = ("belady", "top-k", "window", "w-tinylfu", "lru")
"""Policies whose hits are shown for each table of a log."""
GENERATED = "DLRM (`TABLES=criteo`)"
_STEPS = 4_000  # of the generated log


def tables_of(logs: Sequence[PublicLog], folder: Path) -> dict[str, LogTable]:
    """Return the tables by name, made from the files in a folder; raise `DataError`."""
    paths = {log.title: log.find(folder) for log in logs}
    studies, shares = dict[str, Study](), dict[str, MemoryShares]()
    with TemporaryDirectory() as scratch:
        for log in logs:
            studies[log.title] = study(
                paths[log.title], into=Path(scratch) / log.file, sizes=(log.hot_keys,), **_study_options(log)
            )
    for log in logs:
        shares[log.title] = memory_shares(paths[log.title], **log.options)
    shares[GENERATED] = memory_shares(built_in="criteo", steps=_STEPS)

    def table(title: str, columns: Sequence[str], rows: Iterator[tuple[Cell, ...]]) -> LogTable:
        return LogTable(title=title, columns=tuple(columns), rows=tuple(rows))

    return {
        POLICIES: table(
            "Policies on public logs: updates that hit, and moves per 1,000 updates",
            ("policy", *(f"{title}, {unit}" for title in studies for unit in ("%", "moves"))),
            _policy_rows(studies),
        ),
        FACTS: table("The public logs", _FACTS, _fact_rows(studies)),
        BY_TABLE: table(
            "Updates of each table that hit, %, and the half-life in mini-batches",
            ("log", "table", "updates", "half-life", *(f"`{name}`" for name in _BY_TABLE)),
            _rows_by_table(studies),
        ),
        MEMORY: table(
            "Updates that the switch takes, %, against its memory",
            _memory_columns(next(iter(shares.values()))),
            _memory_rows(shares),
        ),
    }


def _study_options(log: PublicLog) -> dict[str, Any]:
    options = dict(log.options)
    if "batch" in options:
        options["samples_per_step"] = options.pop("batch")
    return options


def _outcomes(study: Study) -> Mapping[str, PolicyOutcome]:
    return study.at(study.settings.sizes[0])


def _policy_rows(studies: Mapping[str, Study]) -> Iterator[tuple[Cell, ...]]:
    for name in BY_NAME:
        cells: list[Cell] = []
        for each in studies.values():
            outcome = _outcomes(each)[name]
            cells += [_percent(outcome.share), round(outcome.moves_per_thousand)]
        yield f"`{name}`", *cells


_FACTS = (
    "log", "updates scored", "keys", "keys in the switch", "mini-batches", "half-life, mini-batches",
    "`top-k`, % of the optimum's hits", "best that sees the past only", "% of the optimum's hits",
)  # fmt: skip


def _fact_rows(studies: Mapping[str, Study]) -> Iterator[tuple[Cell, ...]]:
    for title, each in studies.items():
        facts, outcomes = each.facts, _outcomes(each)
        optimum = outcomes["belady"].hits
        feasible = [one for name, one in outcomes.items() if BY_NAME[name].why_not_live != NEEDS_FUTURE]
        best = max(feasible, key=lambda one: one.hits)
        half_life = None if facts.half_life is None else round(facts.half_life)
        yield (
            title, facts.updates, facts.keys, each.settings.sizes[0], facts.steps, half_life,
            _percent(outcomes["top-k"].hits / optimum), f"`{best.policy}`", _percent(best.hits / optimum),
        )  # fmt: skip


def _rows_by_table(studies: Mapping[str, Study]) -> Iterator[tuple[Cell, ...]]:
    for title, each in studies.items():
        outcomes, facts = [_outcomes(each)[name] for name in _BY_TABLE], each.facts
        for index, (table, updates) in enumerate(zip(facts.tables, facts.table_updates, strict=True)):
            shares = (_percent(one.table_hits[index] / updates) if updates else None for one in outcomes)
            half_life = facts.table_half_lives[index]
            yield title, table, updates, None if half_life is None else round(half_life), *shares


def _memory_columns(shares: MemoryShares) -> tuple[str, ...]:
    sizes = [size_text(point.size) for point in shares.dims[0].points if point.size is not None]
    return ("log", "values of a row", "keys", *sizes, "all slots", "rows in all slots", "their memory, kB")


def _memory_rows(shares: Mapping[str, MemoryShares]) -> Iterator[tuple[Cell, ...]]:
    for title, each in shares.items():
        for of_dim in each.dims:
            memory = of_dim.points[-1].memory
            percents = (_percent(point.share) for point in of_dim.points)
            yield title, of_dim.values, each.keys, *percents, memory.rows, round(memory.total / 1_000, 1)


def _percent(share: float) -> float:
    return round(100 * share, 1)
