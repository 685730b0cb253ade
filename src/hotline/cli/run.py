"""`hotline run`: the main job, which `make run-topo` calls."""

from __future__ import annotations

import click


@click.command("run")
@click.argument("settings", nargs=-1, metavar="[NAME=value]...")
def run(settings: tuple[str, ...]) -> None:
    """Run the experiment on this machine (root).

    Hosts, links and a switch are built with Mininet. Workers train with and without the switch's help, in
    turns; the report is runs/latest/report.html. docs/guide.md says what each NAME sets: DESIGN, TARGET,
    WORKERS, PS, TOP_K, ROUNDS, DATA, SCRIPT, CODEC, DATAPATH, PCAP, CLI, SEED, and CONFIG, a TOML file like
    run.toml.
    """
    from topologies.signals import STOP

    STOP.listen()
    # Takes seconds: a signal is heard before.
    from hotline.runs import run_here

    STOP.exit(run_here(settings))
