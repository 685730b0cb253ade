from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from rich.bar import Bar
from rich.console import Console
from rich.table import Table

from controller.hotset import curve as curves
from controller.hotset.choice import check_output
from controller.hotset.coverage import Coverage, coverage
from controller.hotset.tables import TableShare, shares_by_table
from experiment.bars import progress_bar
from foundation.concurrency import run_interruptibly
from foundation.logs.access.block import ReadOptions, read_options
from foundation.logs.access.columns import Columns
from foundation.logs.access.source import expand
from foundation.logs.access.steps import Steps, read_steps
from foundation.logs.counts import Counts, has_columns_of_counts
from foundation.text import pluralize
from hotline.cli.common import (
    json_option,
    log_options,
    numbers,
    one_line_errors,
    plain_table,
    print_json,
    print_notes,
    scheduler_option,
)

_FILE = click.Path(path_type=Path, dir_okay=False)
_LOG = click.Path(path_type=Path)
_BAR = 30
_STEPS = [digit * 10**power for power in range(19) for digit in (1, 2, 5)]


@click.command()
@click.argument("files", nargs=-1, required=True, type=_LOG, metavar="LOG...|DATA")
@click.option("--job", type=click.IntRange(0, 0xFFFF), help="Only the rows of this job.")
@click.option(
    "--top-k", type=click.IntRange(min=1), help="Number of keys to choose. [default: up to the knee]"
)
@click.option(
    "--jobs",
    type=click.IntRange(1, 0xFFFF),
    default=1,
    show_default=True,
    help="Offloaded jobs that share the tables; `make run-topo` has 3.",
)
@log_options
@click.option("-o", "--output", type=_FILE, help=f"File to write: {', '.join(curves.SUFFIXES)}.")
@scheduler_option
@json_option
def curve(
    files: tuple[Path, ...],
    job: int | None,
    top_k: int | None,
    jobs: int,
    columns: str | None,
    batch: int,
    skip_bad: bool,
    output: Path | None,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Draw the share of updates that the top-k keys take, and choose a k.

    LOGs, folders and patterns are added up: files that `hotline hotset build` reads, or of any format of
    docs/logs.md, where each mini-batch updates its keys once.
    """  # fmt: skip
    with one_line_errors():
        if output is not None:
            curves.check_suffix(output)
            check_output(output, files)
        options = read_options(columns, batch, skip_bad)
        with TemporaryDirectory() as scratch:
            counts, steps = run_interruptibly(lambda: _counts(files, job, options, Path(scratch)))
            with progress_bar("parts of the keys") as progress:
                found = run_interruptibly(lambda: coverage(counts, jobs, progress, scheduler))
            chosen = top_k or found.worthwhile
            tables = () if steps is None else tuple(shares_by_table(steps, chosen))
        marks = _marks(found, chosen)
        if output is not None:
            curves.write(found, marks, output)
    print_notes(() if steps is None else steps.notes)
    if as_json:
        by_table = {"tables": [each._asdict() for each in tables]} if tables else {}
        print_json({**_json(found, marks, chosen, jobs), **by_table})
        return
    names = ", ".join(map(str, files))
    click.echo(f"{names}: {pluralize(found.updates, 'update')} of {pluralize(found.keys, 'key')}")
    Console().print(_table(found, marks))
    if tables:
        columns_of = ["table", "updates", "keys", "chosen", "share"]
        Console().print(plain_table(columns_of, [_cells(each) for each in tables]))
    click.echo(_advice(found, chosen, jobs, can_build=steps is None))


def _counts(
    files: tuple[Path, ...], job: int | None, options: ReadOptions, scratch: Path
) -> tuple[Counts, Steps | None]:
    paths = expand(files)
    is_plain = options.columns == Columns() and not options.skip_bad
    if job is not None or (is_plain and all(map(has_columns_of_counts, paths))):
        return Counts.of_logs(paths, job), None
    with progress_bar("reading") as progress:
        steps = read_steps(files, options, scratch, progress)
    return Counts.of_steps(steps), steps


def _marks(found: Coverage, chosen: int) -> dict[int, str]:
    marks: dict[int, str] = {}
    for k, name in ((found.knee, "knee"), (found.limit, "table limit"), (chosen, "chosen")):
        marks[k] = f"{marks[k]}, {name}" if k in marks else name
    return marks


def _table(found: Coverage, marks: dict[int, str]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("top-k", justify="right")
    table.add_column("share", justify="right")
    table.add_column("")
    table.add_column("")
    for k in sorted({*takewhile(lambda step: step < found.keys, _STEPS), found.keys, *marks}):
        share = found.share(k)
        table.add_row(f"{k:,}", f"{share:.1%}", Bar(1, 0, share, width=_BAR), marks.get(k, ""))
    return table


def _cells(of: TableShare) -> list[object]:
    return [of.table, *numbers(f"{of.updates:,}", f"{of.keys:,}", f"{of.hot_keys:,}", f"{of.share:.1%}")]


def _advice(found: Coverage, chosen: int, jobs: int, can_build: bool) -> str:
    share = f"{chosen:,} keys take {found.share(chosen):.1%} of the updates"
    if chosen > found.limit:
        each = "" if jobs == 1 else f" for each of {jobs} jobs"
        return f"{share}, but the tables hold {found.limit:,}{each}"
    return share if not can_build else f"{share}: `hotline hotset build --top-k {chosen}`"


def _json(found: Coverage, marks: dict[int, str], chosen: int, jobs: int) -> dict[str, object]:
    def at(k: int) -> dict[str, object]:
        return {"top_k": k, "share": found.share(k)}

    return {
        "updates": found.updates,
        "keys": found.keys,
        "jobs": jobs,
        "knee": at(found.knee),
        "limit": at(found.limit),
        "chosen": at(chosen),
        "curve": curves.table(found, marks).to_dicts(),
    }
