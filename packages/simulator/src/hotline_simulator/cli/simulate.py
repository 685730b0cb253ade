from __future__ import annotations

from pathlib import Path

import click

from foundation.settings import Strict
from hotline.cli.common import PATH, json_option, one_line_errors
from hotline.cli.fields import fills
from hotline.cli.report import print_run


class SimulateSettings(Strict):
    design: str | None = None
    """Design of aggregation; None means CONFIG's design, or hotset."""


@click.command()
@click.argument("config", required=False, type=PATH)
@fills(SimulateSettings, "settings")
@json_option
def simulate(config: Path | None, settings: SimulateSettings, as_json: bool) -> None:
    """Simulate a run, and write the report that a real run has.

    The P4 program and the agents are those of a real run. CONFIG is a TOML file like run.toml, which may
    have the tables [network] and [hosts], too. Without CONFIG, the cluster is that of Pan et al. (2020):
    80 workers and 20 parameter servers at 10 Gbit/s.
    """
    from analysis.terminal import print_result
    from experiment.progress import Reporter, RunConsole
    from hotline_simulator.run import simulate as simulate_run

    with one_line_errors():
        run = simulate_run(config, Reporter(RunConsole()), **settings.model_dump(exclude_none=True))
        if as_json:
            print_run(run, as_json)
        else:
            print_result(run.record, run.summary, run.page)
        run.check()  # raises an error if updates were lost
