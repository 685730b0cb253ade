from __future__ import annotations

from pathlib import Path

import click
import polars as pl

from controller.hotset import choice as hotsets
from controller.hotset.rules import TOP_K
from foundation.concurrency import run_interruptibly
from foundation.protocol.header import LANES
from foundation.text import pluralize
from hotline.cli.common import (
    FILE,
    json_option,
    one_line_errors,
    print_json,
    print_table,
    rule_option,
    scheduler_option,
)
from hotline.cli.curve import curve

_SHOWN_KEYS = 10


@click.group()
def hotset() -> None:
    """Choose the size of a hot set, build a hot set, and show it."""


hotset.add_command(curve)


@hotset.command()
@click.argument("logs", nargs=-1, required=True, type=FILE, metavar="LOG...")
@click.option("--top-k", type=click.IntRange(min=1), required=True, help="Number of keys.")
@click.option("-o", "--output", type=FILE, required=True, help="File to write, Parquet.")
@click.option("--job", type=click.IntRange(0, 0xFFFF), help="Only the rows of this job.")
@rule_option(TOP_K, "Rule that chooses the keys")
@scheduler_option
@json_option
def build(
    logs: tuple[Path, ...], top_k: int, output: Path, job: int | None, rule: str, scheduler: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Write the TOP_K most updated keys of all logs added up.

    A log is Parquet or CSV with the columns key, updates (counts, as a PS writes them) or iteration, worker,
    key (one update a row). Other columns are ignored. Another rule than top-k may choose fewer keys.
    """
    with one_line_errors():
        hotsets.check_output(output, logs)
        hot_set = run_interruptibly(lambda: hotsets.build(logs, top_k, job, rule=rule, scheduler=scheduler))
        hotsets.write(hot_set, output)
    if as_json:
        print_json({"file": str(output), "rule": rule, **_summarise(hot_set)})
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
    return {
        "keys": hot_set.height,
        "updates": sum(hot_set["updates"].to_list()),
        "share": float(hot_set["share"].sum()),
        "keys_in_lane": _count_keys_by_lane(hot_set),
    }


def _describe(hot_set: pl.DataFrame) -> str:
    keys_by_lane = _count_keys_by_lane(hot_set)
    return (
        f"{pluralize(hot_set.height, 'key')} with {hot_set['share'].sum():.1%} of the updates that they were "
        f"chosen from; "
        f"{min(keys_by_lane)} to {max(keys_by_lane)} keys in each of the {LANES} lanes"
    )


def _count_keys_by_lane(hot_set: pl.DataFrame) -> list[int]:
    counts = dict(hot_set["lane"].value_counts().iter_rows())
    return [counts.get(lane, 0) for lane in range(LANES)]
