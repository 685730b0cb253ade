from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click
from rich.console import Console

from experiment.bars import progress_bar
from foundation.concurrency import run_interruptibly
from hotline.cli.common import (
    Number,
    json_option,
    log_options,
    numbers,
    one_line_errors,
    plain_table,
    print_notes,
)

if TYPE_CHECKING:
    from studies.policies.miss_ratio.curve import MissRatioCurve, MissRatios

_FILE = click.Path(path_type=Path, dir_okay=False)
_SHARES = (0.001, 0.01, 0.1, 0.5, 1.0)
"""Sizes that are printed, as shares of the keys."""


@click.command("miss-ratio")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="LOG...")
@click.option(
    "--sample",
    type=Number(0, 1, min_open=True),
    help="Share of the keys to sample (SHARDS), for large logs; errors are stated. [default: all, exactly]",
)
@log_options
@click.option(
    "-o", "--output", type=_FILE, help="File of the curves to write: .csv, .json, .pdf, .png or .svg."
)
@click.option("--torchrec", type=_FILE, help="JSON file to write: TorchRec's EmbeddingOffloadStats by table.")
@click.option(
    "--hugectr", type=_FILE, help="JSON file to write: hit rate by table for values of HugeCTR's gpucacheper."
)
@json_option
def miss_ratio(
    files: tuple[Path, ...], sample: float | None, columns: str | None, batch: int, skip_bad: bool,
    output: Path | None, torchrec: Path | None, hugectr: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Compute the miss ratio of LRU caches of all sizes.

    One curve is of all keys in one cache, and one of each table in a cache of its own. docs/logs.md has the
    formats of logs.
    """
    from foundation.logs.access.block import read_options
    from foundation.logs.access.steps import Steps, read_steps
    from studies.policies.miss_ratio.curve import miss_ratios
    from studies.policies.miss_ratio.output import check_suffix, write, write_hugectr, write_torchrec
    from studies.policies.miss_ratio.top_k import top_k_shares

    def read(scratch: Path) -> Steps:
        with progress_bar("reading") as progress:
            return run_interruptibly(lambda: read_steps(files, options, scratch, progress))

    with one_line_errors(), TemporaryDirectory() as scratch:
        if output is not None:
            check_suffix(output)
        options = read_options(columns, batch, skip_bad)
        steps = read(Path(scratch))
        with progress_bar("accesses") as progress:
            ratios = run_interruptibly(lambda: miss_ratios(steps, sample, progress))
        if output is not None:
            write(ratios, output)
        if torchrec is not None:
            write_torchrec(ratios, torchrec)
        if hugectr is not None:
            write_hugectr(list(top_k_shares(steps)), hugectr)
    print_notes(ratios.notes)
    if as_json:
        click.echo(ratios.model_dump_json(indent=2))
    else:
        _print(ratios)


def _print(ratios: MissRatios) -> None:
    rows = [[each.table, *numbers(*_cells(each))] for each in ratios.curves]
    titles = [f"{share:g} of the keys" for share in _SHARES]
    Console(width=120).print(plain_table(["table", "accesses", "keys", *titles], rows))
    if ratios.sample is not None:
        worst = max(each.max_error for each in ratios.curves)
        click.echo(
            f"of {ratios.sample:.2%} of the keys; 95 % intervals are at most ±{100 * worst:.1f} points"
        )


def _cells(curve: MissRatioCurve) -> list[str]:
    ratios = (curve.at(max(1, share * curve.keys)) for share in _SHARES)
    return [f"{curve.accesses:,}", f"{curve.keys:,}", *(f"{ratio:.1%}" for ratio in ratios)]
