"""`hotline run` and `hotline simulate`, which make a report."""

from __future__ import annotations

from pathlib import Path

import click

from experiment.variables import CONFIG, CONFIG_HELP, VARIABLES
from foundation.settings import Strict
from hotline.cli.common import PATH, json_option, one_line_errors
from hotline.cli.fields import fills
from hotline.cli.report import print_run


class _RunCommand(click.Command):
    """A command whose help explains the variables that its arguments set."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Variables"):
            helps = [(name, variable.help) for name, variable in VARIABLES.items()]
            formatter.write_dl([*helps, (CONFIG, CONFIG_HELP)])
        super().format_options(ctx, formatter)


@click.command("run", cls=_RunCommand)
@click.argument("settings", nargs=-1, metavar="[NAME=value]...")
def run(settings: tuple[str, ...]) -> None:
    """Run the experiment on this machine (root), or on several.

    Hosts, links and a switch are built with Mininet. Workers train with and without offload, alternately; the
    report is runs/latest/report.html. run.toml of this checkout has all settings, with the values that they
    can have and their defaults; variables of the command line win over it.
    """
    from topologies.signals import STOP

    STOP.listen()
    # This import takes seconds; signals are handled already.
    from hotline.runs import run_on_this_machine

    STOP.exit(run_on_this_machine(settings))


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
    from hotline.runs import simulate as simulate_run

    with one_line_errors():
        run = simulate_run(config, Reporter(RunConsole()), **settings.model_dump(exclude_none=True))
        if as_json:
            print_run(run, as_json)
        else:
            print_result(run.record, run.summary, run.page)
        run.check()  # raises an error if updates were lost
