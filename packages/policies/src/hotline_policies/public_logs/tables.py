"""What policies do with public logs, and which share of their updates a switch takes by its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any  # settings of a study

from foundation.protocol.memory import size_text
from hotline_policies.memory import MemoryShares, memory_shares
from hotline_policies.policy import NEEDS_FUTURE
from hotline_policies.public_logs.logs import PublicLog
from hotline_policies.public_logs.published import (
    NUMBER,
    PERCENT,
    Cell,
    PublishedResult,
    origin_of,
    published_table,
)
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
_UNITS = {"%": PERCENT, "moves": NUMBER}
_SEED = 1  # of generated logs, and of sampled mini-batches
GENERATED = "DLRM, generated"
_STEPS = 4_000  # of the generated log


def results_of(logs: Sequence[PublicLog], folder: Path) -> dict[str, PublishedResult]:
    """Return the tables by the names of their files, made from the logs in a folder; raise `DataError`."""
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
    tables = {
        POLICIES: published_table(
            "updates of public logs that hit, in %, and moves for 1,000 updates",
            ("policy",),
            {f"{title}, {unit}": form for title in studies for unit, form in _UNITS.items()},
            _policy_rows(studies),
        ),
        FACTS: published_table(
            "public logs, and the best policies for them", ("log",), _FACTS, _facts(studies)
        ),
        BY_TABLE: published_table(
            "updates of the tables of public logs that hit, in %",
            ("log", "table"),
            {"updates": NUMBER, "half-life": NUMBER, **{f"`{name}`": PERCENT for name in _BY_TABLE}},
            _rows_by_table(studies),
        ),
        MEMORY: published_table(
            "updates that hit the rows which a switch's memory holds, in %",
            ("log", "values of a row"),
            _memory_columns(next(iter(shares.values()))),
            _memory_rows(shares),
        ),
    }
    recipe = "FOLDER has the logs. " + ". ".join(log.recipe for log in logs)
    origin = origin_of("./hotline policies public-logs FOLDER", (_SEED,), recipe)
    return {
        name: PublishedResult(stage="public-logs", table=table, origin=origin)
        for name, table in tables.items()
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
            cells += [100 * outcome.share, outcome.moves_per_thousand]
        yield f"`{name}`", *cells


_FACTS = {
    "updates scored": NUMBER, "keys": NUMBER, "keys in the switch": NUMBER, "mini-batches": NUMBER,
    "half-life, mini-batches": NUMBER, "`top-k`, % of the optimum's hits": PERCENT,
    "best that sees the past only": PERCENT, "% of the optimum's hits": PERCENT,
}  # fmt: skip


def _facts(studies: Mapping[str, Study]) -> Iterator[tuple[Cell, ...]]:
    for title, each in studies.items():
        facts, outcomes = each.facts, _outcomes(each)
        optimum = outcomes["belady"].hits
        feasible = [one for name, one in outcomes.items() if BY_NAME[name].why_not_live != NEEDS_FUTURE]
        best = max(feasible, key=lambda one: one.hits)
        yield (
            title, facts.updates, facts.keys, each.settings.sizes[0], facts.steps, facts.half_life,
            100 * outcomes["top-k"].hits / optimum, f"`{best.policy}`", 100 * best.hits / optimum,
        )  # fmt: skip


def _rows_by_table(studies: Mapping[str, Study]) -> Iterator[tuple[Cell, ...]]:
    for title, each in studies.items():
        outcomes, facts = [_outcomes(each)[name] for name in _BY_TABLE], each.facts
        for index, (table, updates) in enumerate(zip(facts.tables, facts.table_updates, strict=True)):
            shares = (100 * one.table_hits[index] / updates if updates else None for one in outcomes)
            yield title, table, updates, facts.table_half_lives[index], *shares


def _memory_columns(shares: MemoryShares) -> dict[str, str]:
    sizes = [size_text(point.size) for point in shares.dims[0].points if point.size is not None]
    return {
        "keys": NUMBER, **dict.fromkeys((*sizes, "all slots"), PERCENT), "rows in all slots": NUMBER,
        "their memory, kB": NUMBER,
    }  # fmt: skip


def _memory_rows(shares: Mapping[str, MemoryShares]) -> Iterator[tuple[Cell, ...]]:
    for title, each in shares.items():
        for of_dim in each.dims:
            memory = of_dim.points[-1].memory
            percents = (100 * point.share for point in of_dim.points)
            yield title, of_dim.values, each.keys, *percents, memory.rows, memory.total / 1_000
