from __future__ import annotations

from pathlib import Path

import click

from hotline.cli.common import PATH, json_option, one_line_errors


@click.command()
@click.argument("config", required=False, type=PATH)
@click.option("--design", help="Design of aggregation. [default: CONFIG's design, or hotset]")
@json_option
def simulate(config: Path | None, design: str | None, as_json: bool) -> None:
    """Simulate a run, and write the report that a real run has.

    The P4 program and the agents are those of a real run. CONFIG is a TOML file like run.toml, which may
    have the tables [network] and [hosts], too. Without CONFIG, the cluster is that of Pan et al. (2020):
    80 workers and 20 parameter servers at 10 Gbit/s.
    """
    from analysis.terminal import print_summary
    from experiment.progress import Reporter, RunConsole
    from hotline.runs import simulate as simulate_run

    overrides = {} if design is None else {"design": design}
    with one_line_errors():
        run = simulate_run(config, Reporter(RunConsole()), **overrides)
        if as_json:
            click.echo((run.folder / "summary.json").read_text(), nl=False)
        else:
            print_summary(run.summary)
            click.echo(f"report: {run.page}")
        run.check()
