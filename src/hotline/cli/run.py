from __future__ import annotations

import click

from experiment.variables import CONFIG, CONFIG_HELP, VARIABLES


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
