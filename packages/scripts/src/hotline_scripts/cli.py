"""`hotline up` and `hotline down`, which serve scripts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from hotline.cli.common import FILE, json_option, one_line_errors, print_json


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
