from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from controller.hotset.rules import NAMES_OF_RULES
from experiment.progress import activity_bar
from foundation.concurrency import run_interruptibly
from hotline.cli.common import (
    PATH,
    into_option,
    json_option,
    one_line_errors,
    plain_table,
    print_notes,
)
from hotline.cli.fields import fills
from hotline.cli.options import LOG, ROWS
from hotline_policies.settings import GeneratedLog, StudySettings

if TYPE_CHECKING:
    from hotline_policies.results import Study

_WIDTH = 120
"""Columns of the output if it is not a terminal."""


@click.command("compare")
@click.argument("files", nargs=-1, type=PATH, metavar="[LOG|DATA]...")
@fills(GeneratedLog, "generated")
@click.option("--only", metavar="NAME,...", help="Compare only these policies, for example top-k,lru.")
@click.option(
    "--rule",
    "rules",
    metavar="NAME",
    multiple=True,
    help="Also score this rule of live hot sets, as a run and `hotline follow` use it: "
    f"{NAMES_OF_RULES}. May be repeated.",
)
@fills(
    StudySettings,
    "settings",
    without=("policies",),
    sizes={"is_list": True, "metavar": "K,K,..."},
    samples_per_step=LOG["batch"],
    **ROWS,
    **{field: options for field, options in LOG.items() if field != "batch"},
)
@into_option(
    "Folder of the results; those of the same log, settings and code are reused.", Path("runs/policies")
)
@json_option
def compare(
    files: tuple[Path, ...], generated: GeneratedLog, only: str | None, rules: tuple[str, ...],
    settings: StudySettings, into: Path, as_json: bool,
) -> None:  # fmt: skip
    """Compare cache policies for the keys in the switch.

    Prints hits, moves, and the share of the packets to servers that each policy saves. LOGs, folders and
    patterns are merged; docs/logs.md has their formats. DATA are libsvm training sets, concatenated.
    Needs no switch, no run and no root.
    """
    from hotline_policies.page import write_page
    from hotline_policies.result import study

    check_source(files, generated)
    with one_line_errors(), activity_bar("reading") as progress:
        chosen = {"policies": _policy_names(only, rules), "sizes": tuple(sorted({*settings.sizes}))}
        all_settings = {**dict(generated), **dict(settings), **chosen}
        results = study(files, into=into, progress=progress, **all_settings)
        progress("drawing", 1, 1)
        page = run_interruptibly(lambda: write_page(results, into))
    print_notes(results.facts.notes)
    if as_json:
        click.echo(results.model_dump_json(indent=2))
    else:
        _print(results)
        click.echo(f"report: {page}")


def check_source(files: Sequence[Path], generated: GeneratedLog) -> None:
    if bool(files) == bool(generated.built_in):
        raise click.UsageError("give LOG or DATA files, or else --built-in r1 or r2, and not both")
    if generated.built_in is None and (generated.half_life is not None or generated.shift):
        raise click.UsageError("--half-life and --shift belong to a generated log: give --built-in, too")


def _policy_names(only: str | None, rules: Sequence[str]) -> tuple[str, ...]:
    from hotline_policies.rules import BY_NAME, names_of_rule

    if only is None and not rules:
        return ()
    names = list(BY_NAME) if only is None else only.split(",")
    return (*names, *chain(*map(names_of_rule, rules)))


def _print(results: Study) -> None:
    from hotline_policies.figures import shown_size
    from hotline_policies.findings import findings, headline
    from hotline_policies.table import cells, columns, columns_by_table, rows_by_table

    size = shown_size(results)
    console = Console()
    if not sys.stdout.isatty():
        console.width = _WIDTH
    facts = results.facts
    click.echo(f"{facts.name}: {facts.updates:,} updates scored, {size:,} keys in the switch")
    click.echo(f"{results.memory_text(size)}\n")
    rows = [[each.title, *map(Text, cells(results, each))] for each in results.at(size).values()]
    table = plain_table(["policy", *columns(results)], rows)
    table.columns[0].no_wrap = True
    console.print(table)
    if facts.tables:
        console.print("\nEach table's half-life in steps, and the share of its updates that hit")
        rows = [[name, *map(Text, numbers)] for name, *numbers in rows_by_table(results, size)]
        console.print(plain_table(columns_by_table(results, size), rows))
    click.echo(f"\n{headline(results)}")
    for sentence in findings(results):
        click.echo(f"• {sentence}")
