"""`hotline run`, `up` and `down`: experiments, and servers for scripts, on this machine."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from hotline.cli.common import FILE, json_option, one_line_errors, print_json


@click.command("run")
@click.argument("settings", nargs=-1, metavar="[NAME=value]...")
def run(settings: tuple[str, ...]) -> None:
    """Run the experiment on this machine (root).

    Hosts, links and a switch are built with Mininet. Workers train with and without offload, alternately; the
    report is runs/latest/report.html. docs/guide.md says what each NAME sets: DESIGN, TARGET, WORKERS, PS,
    TOP_K, ROUNDS, PRECISE, DATA, COLUMNS, BATCH, OPTIMISER, SCRIPT, CODEC, DATAPATH, PCAP, CLI, SEED, and
    CONFIG, a TOML file like run.toml.
    """
    from topologies.signals import STOP

    STOP.listen()
    # This import takes seconds; signals are handled already.
    from hotline.runs import run_on_this_machine

    STOP.exit(run_on_this_machine(settings))


@click.command()
@click.argument("file", required=False, type=FILE, metavar="[FILE]")
@json_option
def up(file: Path | None, as_json: bool) -> None:
    """Start switch and servers for scripts of your own (root).

    Scripts call `hotline.Worker`; they need neither root nor a namespace (docs/kv.md). FILE is like run.toml:
    design, workers, servers, placement and so on. Switch and servers keep running in the background.
    """
    from hotline.kv.launch import up as start_up

    with one_line_errors(), Console(stderr=True).status("starting switch and servers"):
        up_info = start_up(file)
    if as_json:
        print_json(
            {
                "connect": up_info.connect, "workers": up_info.workers, "job": up_info.job,
                "switch": up_info.switch, "folder": str(up_info.folder),
            }
        )  # fmt: skip
        return
    click.echo(
        f"up for {up_info.workers} workers at {up_info.connect}; {up_info.folder / 'up.log'} is its log\n"
        f"connect:  kv = hotline.Worker(tables={{...}}, connect={up_info.connect!r})\n"
        f"offload:  ./hotline load --switch {up_info.switch} --job {up_info.job} hot.parquet\n"
        "end:      ./hotline down"
    )


@click.command()
def down() -> None:
    """Stop the switch and servers of `hotline up` (root)."""
    from hotline.kv.launch import down as stop_up

    with one_line_errors():
        click.echo(stop_up())
