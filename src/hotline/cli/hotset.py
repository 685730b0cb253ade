"""`hotline hotset`: choose the size of a hot set, build one, and show it."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import polars as pl
from rich.bar import Bar
from rich.console import Console
from rich.table import Table

from controller.hotset import choice as hotsets
from controller.sizes import SLOTS
from foundation.concurrency import run_interruptibly
from foundation.logs.parts import check_output
from foundation.protocol.header import LANES
from foundation.protocol.memory import memory_of_rows
from foundation.protocol.rows import count_slots
from foundation.text import pluralize
from hotline.cli.common import (
    FILE,
    PATH,
    json_option,
    number_cells,
    one_line_errors,
    plain_table,
    print_json,
    print_notes,
    print_table,
)
from hotline.cli.fields import fills
from hotline.cli.options import CLUSTER, LOG, ROWS, RULE
from hotline.results import coverage_file
from hotline.results.curve import CurveSettings, ShareCurve, table_of
from hotline.results.curve import curve as curve_of

_SHOWN_KEYS = 10
_BAR_WIDTH = 30


@click.group()
def hotset() -> None:
    """Choose the size of a hot set, build a hot set, and show it."""


@hotset.command()
@click.argument("logs", nargs=-1, required=True, type=FILE, metavar="LOG...")
@click.option("-o", "--output", type=FILE, required=True, help="File to write, Parquet.")
@fills(
    hotsets.ChoiceSettings,
    "settings",
    rule=RULE,
    scheduler=CLUSTER,
    dims={"metavar": "KEY=DIM,..."},
    columns={"metavar": "dim=COLUMN"},
)
@json_option
def build(logs: tuple[Path, ...], output: Path, settings: hotsets.ChoiceSettings, as_json: bool) -> None:
    """Write the TOP_K most updated keys of all logs added up.

    A log is Parquet or CSV with the columns key, updates (counts, as a PS writes them) or iteration, worker,
    key (one update a row). Other columns are ignored. Another rule than top-k may choose fewer keys.
    """
    with one_line_errors():
        check_output(output, logs)
        chosen = settings.model_dump(exclude={"dim", "dims", "columns"})
        chosen |= {"ranges": settings.ranges, "dim_column": settings.dim_column}
        hot_set = run_interruptibly(lambda: hotsets.build(logs, **chosen))
        hotsets.write(hot_set, output)
    if as_json:
        print_json({"file": str(output), "rule": settings.rule, **_summarise(hot_set)})
    else:
        click.echo(f"{output}: {_describe(hot_set)}")


@hotset.command()
@click.argument("file", type=FILE)
@json_option
def show(file: Path, as_json: bool) -> None:
    """Show the hottest keys of a hot set, and its share of the updates."""
    with one_line_errors():
        hot_set = hotsets.read(file)
    if as_json:
        print_json(_summarise(hot_set) | {"head": hot_set.head(_SHOWN_KEYS).to_dicts()})
        return
    click.echo(f"{file}: {_describe(hot_set)}")
    rows = [
        [f"{value:.4%}" if name == "share" else value for name, value in row.items()]
        for row in hot_set.head(_SHOWN_KEYS).iter_rows(named=True)
    ]
    print_table(f"the first {len(rows)}", hot_set.columns, rows)


def _summarise(hot_set: pl.DataFrame) -> dict[str, object]:
    memory = memory_of_rows(hot_set["dim"].to_numpy())
    return {
        "keys": hot_set.height,
        "updates": sum(hot_set["updates"].to_list()),
        "share": float(hot_set["share"].sum()),
        "rows": dict(hot_set["dim"].value_counts().sort("dim").iter_rows()),
        "register_bytes": memory.registers,
        "entry_bytes": memory.entries,
        "slots_in_bank": _count_slots(hot_set),
    }


def _describe(hot_set: pl.DataFrame) -> str:
    slots_by_bank, dims = _count_slots(hot_set), hot_set["dim"].to_numpy()
    of_dims = " and ".join(map(str, np.unique(dims).tolist()))
    return (
        f"{pluralize(hot_set.height, 'key')} with {hot_set['share'].sum():.1%} of the updates that they were "
        f"chosen from; rows of {of_dims} {'value' if of_dims == '1' else 'values'}, {memory_of_rows(dims)}; "
        f"{min(slots_by_bank)} to {max(slots_by_bank)} of the {SLOTS} slots in each of the {LANES} banks"
    )


def _count_slots(hot_set: pl.DataFrame) -> list[int]:
    slots: list[int] = count_slots(hot_set["lane"].to_numpy(), hot_set["dim"].to_numpy()).tolist()
    return slots


@hotset.command()
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="LOG...|DATA")
@fills(CurveSettings, "settings", **LOG, **ROWS, scheduler=CLUSTER)
@click.option("-o", "--output", type=FILE, help=f"File to write: {', '.join(coverage_file.SUFFIXES)}.")
@json_option
def curve(files: tuple[Path, ...], settings: CurveSettings, output: Path | None, as_json: bool) -> None:
    """Draw the share of updates that the top-k keys take, and choose a k.

    Keys are chosen from the first half of the mini-batches, and scored on the rest. Files, folders and
    patterns are of any format of docs/logs.md, where each mini-batch updates its keys once. Counts of
    updates, which `hotline hotset build` reads, too, are summed; keys are scored on the counts that they are
    chosen from.
    """
    with one_line_errors():
        if output is not None:
            coverage_file.check_suffix(output)
            check_output(output, files)
        result = curve_of(files, **dict(settings))
        if output is not None:
            coverage_file.write(result.coverage, result.marks, output)
    print_notes(result.notes)
    if as_json:
        print_json(_curve_as_json(result))
    else:
        _print_curve(result)


def _print_curve(result: ShareCurve) -> None:
    click.echo(result.title)
    click.echo(result.scoring)
    table = Table(box=None, pad_edge=False)
    table.add_column("top-k", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    table.add_column("")
    for k, share, mark in result.rows():
        table.add_row(f"{k:,}", f"{share:.1%}", Bar(size=1, begin=0, end=share, width=_BAR_WIDTH), mark)
    Console().print(table)
    if result.tables:
        by_table = table_of(result.tables)
        rows = [[name, *number_cells(*cells)] for name, *cells in by_table.texts()]
        Console().print(plain_table(by_table.columns, rows))
    click.echo(result.memory_sentence)
    click.echo(result.advice)


def _curve_as_json(result: ShareCurve) -> dict[str, object]:
    coverage = result.coverage

    def point_at(k: int) -> dict[str, object]:
        return {"top_k": k, "share": coverage.share(k)}

    by_table = {"tables": [share._asdict() for share in result.tables]} if result.tables else {}
    return {
        "updates": result.updates,
        "keys": result.keys,
        "steps": result.steps,
        "training_steps": result.training_steps,
        "scored_updates": coverage.updates,
        "jobs": result.jobs,
        "dims": list(result.dims),
        "register_bytes": result.memory.registers,
        "entry_bytes": result.memory.entries,
        "knee": point_at(coverage.knee),
        "limit": point_at(coverage.limit),
        "chosen": point_at(result.chosen_top_k),
        "curve": coverage_file.table(coverage, result.marks).to_dicts(),
        **by_table,
    }
