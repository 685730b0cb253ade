from __future__ import annotations

from pathlib import Path

import click

from hotline.cli.common import FOLDER, json_option, one_line_errors, print_json


@click.command("public-logs")
@click.argument("folder", type=FOLDER)
@json_option
def public_logs(folder: Path, as_json: bool) -> None:
    """Make the tables of the policies' page that have public logs.

    FOLDER has the logs' files, which are no part of this repository; the error for a missing one says where
    it is from.
    """
    from hotline_policies.public_logs.logs import LOGS
    from hotline_policies.public_logs.tables import tables_of

    with one_line_errors():
        tables = tables_of(LOGS, folder)
    if as_json:
        print_json({name: table.model_dump() for name, table in tables.items()})
        return
    for table in tables.values():
        click.echo(f"\n{table.title}\n\n{table.markdown()}")
