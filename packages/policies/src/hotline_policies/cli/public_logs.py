from __future__ import annotations

from pathlib import Path

import click

from hotline.cli.common import FOLDER, into_option, json_option, one_line_errors, print_json


@click.command("public-logs")
@click.argument("folder", type=FOLDER)
@into_option("Folder of the tables' files.", Path("results"))
@json_option
def public_logs(folder: Path, into: Path, as_json: bool) -> None:
    """Make the tables of the policies' page that have public logs.

    FOLDER has the logs' files, which are no part of this repository; the error for a missing one says where
    it is from. Each table becomes a file of numbers with what made it, and is printed as the page has it.
    """
    from hotline_policies.public_logs.logs import LOGS
    from hotline_policies.public_logs.tables import tables_of

    with one_line_errors():
        tables = tables_of(LOGS, folder)
        for name, table in tables.items():
            table.write(into / f"{name}.json")
    if as_json:
        print_json({"files": [str(into / f"{name}.json") for name in tables]})
        return
    for name, table in tables.items():
        click.echo(f"\n{table.title} ({into / name}.json)\n\n{table.markdown()}")
