"""`hotline run` and `simulate`, which make a report, and `up` and `down`, which serve scripts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from experiment.variables import CONFIG, CONFIG_HELP, VARIABLES
from foundation.settings import Strict
from hotline.cli.common import FILE, PATH, json_option, one_line_errors, print_json
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


@click.command()
@click.argument("file", required=False, type=FILE, metavar="[FILE]")
@click.option(
    "--machines", metavar="ADDRESS", help="Dask scheduler of the machines, instead of FILE's `machines`."
)
@json_option
def up(file: Path | None, machines: str | None, as_json: bool) -> None:
    """Start switch and servers for scripts of your own (root).

    Scripts call `hotline.Worker`; they need neither root nor a namespace (docs/scripts.md). FILE has the
    design, workers, servers, placement and so on. [default: run.toml of this checkout] Switch and servers
    keep running in the background, on this machine or on those of a dask scheduler, where scripts are started
    then (packages/machines).
    """
    from hotline_scripts.kv.launch import up as start_up

    variables = [] if machines is None else [f"MACHINES={machines}"]
    with one_line_errors(), Console(stderr=True).status("starting switch and servers"):
        up_info = start_up(file, variables)
    if as_json:
        print_json({**asdict(up_info), "folder": str(up_info.folder)})
        return
    down = "down" if up_info.scheduler is None else f"down MACHINES={up_info.scheduler}"
    ranks = "".join(
        f"ranks on {machine}: {', '.join(map(str, found))}\n" for machine, found in up_info.machines.items()
    )
    click.echo(
        f"up for {up_info.workers} workers at {up_info.connect}; {up_info.folder / 'up.log'} is its log\n"
        f"{ranks}connect:  kv = hotline.Worker(tables={{...}}, connect={up_info.connect!r})\n"
        f"offload:  ./hotline load --switch {up_info.switch} --job {up_info.job} hot.parquet\n"
        f"end:      ./hotline {down}"
    )


@click.command()
@click.argument("settings", nargs=-1, metavar="[MACHINES=ADDRESS]")
def down(settings: tuple[str, ...]) -> None:
    """Stop the switch and servers of `hotline up` (root).

    With MACHINES, or with CONFIG=FILE as for `hotline run`, stop `hotline up` on several machines instead,
    and remove what a killed run has left on them.
    """
    if settings:
        from hotline.runs import remove_killed_runs

        with one_line_errors():
            removed = remove_killed_runs(settings)
        click.echo(f"removed {', '.join(removed)}" if removed else "nothing is up, and nothing was left")
        return
    from hotline_scripts.kv.launch import down as stop_up

    with one_line_errors():
        click.echo(stop_up())
