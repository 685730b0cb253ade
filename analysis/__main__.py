"""`python -m analysis RUN`: compute the summary and the report of a run folder again."""

from __future__ import annotations

from pathlib import Path

import click

from analysis.errors import AnalysisError
from analysis.record import read_record
from analysis.report import write_report
from analysis.summary import summarise
from analysis.table import print_summary


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path), default="runs/latest")
def main(run: Path) -> None:
    """Compute summary.json and report.html of the run folder RUN from its logs, and print the tables."""
    try:
        record = read_record(run)
        summary = summarise(run, record)
    except AnalysisError as error:
        raise click.ClickException(str(error)) from None
    (run / "summary.json").write_text(summary.model_dump_json(indent=2) + "\n")
    print_summary(summary)
    click.echo(f"report: {write_report(run, record, summary)}")


if __name__ == "__main__":
    main()
