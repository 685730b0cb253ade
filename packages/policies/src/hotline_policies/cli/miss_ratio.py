from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hotline.cli.common import (
    FILE,
    PATH,
    json_option,
    number_cells,
    one_line_errors,
    print_notes,
    print_plain_table,
)
from hotline.cli.fields import fills
from hotline.cli.options import LOG, ROWS
from hotline_policies.settings import MissRatioSettings

if TYPE_CHECKING:
    from hotline_policies.miss_ratio.result import MissRatio


@click.command("miss-ratio")
@click.argument("files", nargs=-1, required=True, type=PATH, metavar="LOG...")
@fills(MissRatioSettings, "settings", **LOG, **ROWS)
@click.option(
    "-o", "--output", type=FILE, help="File of the curves to write: .csv, .json, .pdf, .png or .svg."
)
@click.option("--torchrec", type=FILE, help="JSON file to write: TorchRec's EmbeddingOffloadStats by table.")
@click.option(
    "--hugectr", type=FILE, help="JSON file to write: hit rate by table for values of HugeCTR's gpucacheper."
)
@json_option
def miss_ratio(
    files: tuple[Path, ...], settings: MissRatioSettings, output: Path | None, torchrec: Path | None,
    hugectr: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Compute the miss ratio of LRU caches of all sizes.

    One curve is for a cache of all keys; each table has another curve, for a cache of its keys alone.
    docs/logs.md has the formats of logs.
    """
    from foundation.logs.parts import check_output
    from hotline_policies.miss_ratio.output import check_suffix, write, write_hugectr, write_torchrec
    from hotline_policies.miss_ratio.result import miss_ratio as miss_ratio_of

    with one_line_errors():
        if output is not None:
            check_suffix(output)
        for file in filter(None, (output, torchrec, hugectr)):
            check_output(file, files)
        ratios = miss_ratio_of(files, **dict(settings))
        if output is not None:
            write(ratios, output)
        if torchrec is not None:
            write_torchrec(ratios, torchrec)
        if hugectr is not None:
            write_hugectr(ratios.top_k, hugectr)
    print_notes(ratios.notes)
    if as_json:
        click.echo(ratios.model_dump_json(indent=2))
    else:
        _print(ratios)


def _print(ratios: MissRatio) -> None:
    from hotline_policies.miss_ratio.result import error_sentences, table

    ratio_table = table(ratios)
    print_plain_table(
        ratio_table.columns, [[name, *number_cells(*cells)] for name, *cells in ratio_table.texts()]
    )
    for sentence in error_sentences(ratios):
        click.echo(sentence)
