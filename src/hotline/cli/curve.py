from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import click
from rich.bar import Bar
from rich.console import Console
from rich.table import Table

from controller.hotset import curve as curves
from controller.hotset.choice import check_output
from controller.hotset.coverage import Coverage, coverage
from experiment.bars import progress_bar
from foundation.concurrency import run_interruptibly
from foundation.logs.counts import Counts
from foundation.logs.update_log import is_compressed, is_update_log
from foundation.text import pluralize
from hotline.cli.common import (
    json_option,
    one_line_errors,
    print_json,
    samples_per_step_option,
    scheduler_option,
)

_FILE = click.Path(path_type=Path, dir_okay=False)
_BAR = 30
_STEPS = [digit * 10**power for power in range(19) for digit in (1, 2, 5)]


@click.command()
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="LOG...|DATA")
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
@samples_per_step_option
@click.option("-o", "--output", type=_FILE, help=f"File to write: {', '.join(curves.SUFFIXES)}.")
@scheduler_option
@json_option
def curve(
    files: tuple[Path, ...],
    job: int | None,
    top_k: int | None,
    jobs: int,
    samples_per_step: int,
    output: Path | None,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Draw the share of updates that the top-k keys take, and choose a k.

    LOGs are added up: Parquet or CSV as `hotline hotset build` reads them. DATA is a libsvm training set,
    where each mini-batch updates its keys once.
    """  # fmt: skip
    with one_line_errors():
        if output is not None:
            curves.check_suffix(output)
            check_output(output, files)
        with progress_bar("parts of the keys") as progress:
            counts = run_interruptibly(lambda: _counts(files, job, samples_per_step))
            found = run_interruptibly(lambda: coverage(counts, jobs, progress, scheduler))
        chosen = top_k or found.worthwhile
        marks = _marks(found, chosen)
        if output is not None:
            curves.write(found, marks, output)
    if as_json:
        print_json(_json(found, marks, chosen, jobs))
        return
    names = ", ".join(map(str, files))
    click.echo(f"{names}: {pluralize(found.updates, 'update')} of {pluralize(found.keys, 'key')}")
    Console().print(_table(found, marks))
    click.echo(_advice(found, chosen, jobs))


def _counts(files: tuple[Path, ...], job: int | None, samples_per_step: int) -> Counts:
    if len(files) > 1 or job is not None or is_compressed(files[0]) or is_update_log(files[0]):
        return Counts.of_logs(files, job)
    return Counts.of_training_set(files[0], samples_per_step)


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


def _advice(found: Coverage, chosen: int, jobs: int) -> str:
    share = f"{chosen:,} keys take {found.share(chosen):.1%} of the updates"
    if chosen > found.limit:
        each = "" if jobs == 1 else f" for each of {jobs} jobs"
        return f"{share}, but the tables hold {found.limit:,}{each}"
    return f"{share}: `hotline hotset build --top-k {chosen}`"


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
