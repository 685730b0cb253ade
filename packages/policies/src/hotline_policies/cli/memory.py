from __future__ import annotations

from pathlib import Path

import click

from hotline.cli.common import (
    PATH,
    json_option,
    number_cells,
    one_line_errors,
    print_notes,
    print_plain_table,
)
from hotline.cli.fields import fills
from hotline.cli.options import LOG, ROWS
from hotline_policies.cli.policies import check_source
from hotline_policies.settings import GeneratedLog, MemorySettings


@click.command()
@click.argument("files", nargs=-1, type=PATH, metavar="[LOG|DATA]...")
@fills(GeneratedLog, "generated")
@fills(MemorySettings, "settings", **LOG, **ROWS, memory={"is_list": True, "metavar": "BYTES,BYTES,..."})
@json_option
def memory(files: tuple[Path, ...], generated: GeneratedLog, settings: MemorySettings, as_json: bool) -> None:
    """Compute the share of the updates that the switch takes, against its memory.

    The memory is that of registers and table entries. Rows of 1, 16, 64 and 128 values are compared, and
    those of the log, if options or a column say its dims. The hot rows have most updates in the first half of
    the log, and are scored on the second.
    """
    from hotline_policies.memory import memory_shares

    check_source(files, generated)
    with one_line_errors():
        shares = memory_shares(files, **dict(generated), **dict(settings))
    print_notes(shares.notes)
    if as_json:
        click.echo(shares.model_dump_json(indent=2))
        return
    click.echo(shares.title)
    print_plain_table(shares.columns, [[values, *number_cells(*cells)] for values, *cells in shares.rows()])
