from __future__ import annotations

from pathlib import Path

import click

from foundation.concurrency import run_interruptibly
from foundation.logs.check import check as check_logs
from foundation.text import pluralize
from hotline.cli.common import PATH, json_option, one_line_errors, print_json


@click.group()
def logs() -> None:
    """Check the logs of a run."""


@logs.command()
@click.argument("path", type=PATH)
@json_option
def check(path: Path, as_json: bool) -> None:
    """Check that the values in logs are valid for their columns.

    PATH is a run's folder, one of its logs or an update log. Prints the first invalid
    row and exits with 1 if there is one.
    """
    with one_line_errors():
        rows = run_interruptibly(lambda: check_logs(path))
    if as_json:
        print_json({"path": str(path), "rows": rows})
        return
    for name, number in rows.items():
        click.echo(f"{name}: {pluralize(number, 'row')}, all valid")
