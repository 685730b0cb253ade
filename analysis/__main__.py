"""`python -m analysis RUN`: compute the summary and the report of a run folder again."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.record import read_record
from analysis.report import write_report
from analysis.summary import summarise
from analysis.table import print_summary
from common.errors import HotlineError
from logs.merge import finish_merge


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path), default="runs/latest")
def main(run: Path) -> None:
    """Compute summary.json and report.html of the run folder RUN from its logs, and print the tables."""
    try:
        record = read_record(run)
        finish_merge(run)
        summary = summarise(run, record)
        report = write_report(run, record, summary)
    except HotlineError as error:
        raise click.ClickException(str(error)) from None
    print_summary(summary)
    click.echo(f"report: {report}")


if __name__ == "__main__":
    main()
