from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from hotline.cli.common import (
    FILE,
    json_option,
    number_cells,
    one_line_errors,
    plain_table,
    print_notes,
)
from hotline.cli.fields import fills
from hotline.cli.options import LOG, ROWS
from hotline_answers.cluster_answer.cluster import Cluster

if TYPE_CHECKING:
    from hotline_answers.cluster_answer.ask import ClusterAnswer

_WIDTH = 100  # columns of the output
_BULLET_PADDING = (0, 0, 0, 1)  # top, right, bottom, left


@click.command("cluster")
@fills(
    Cluster,
    "settings",
    without=("hosts",),
    **LOG,
    **ROWS,
    optimiser={"metavar": "NAME(lr=...)"},
)
@click.option(
    "--hosts",
    "hosts_file",
    type=FILE,
    help="TOML file with the table [hosts], as `hotline probe` and `hotline answer fit` write it. "
    "[default: the costs of our agents]",
)
@json_option
def cluster(settings: Cluster, hosts_file: Path | None, as_json: bool) -> None:
    """Say what a switch would do for a cluster.

    Prints gains and losses, capacity, what limits it, and which size of a hot set pays off. The agents and
    the P4 program are simulated: every agent has a dedicated core, and the switch is a dedicated device. Only
    a part of a large cluster is simulated, and the rest is calculated. Without --dim or --dims, keys are
    taken as rows of one value, and the first lines say what rows of 16, 64 and 128 would make of the result.
    """
    from hotline_answers.result import answer
    from hotline_simulator.config import load_hosts

    if settings.oversubscription != 1 and settings.racks is None and settings.leaves is None:
        raise click.UsageError(
            f"--oversubscription ({settings.oversubscription:g}) needs --racks or --leaves"
        )
    if settings.spines != 1 and settings.leaves is None:
        raise click.UsageError(f"--spines ({settings.spines}) needs --leaves")
    if settings.placement != "spine" and settings.leaves is None:
        raise click.UsageError(f"--placement ({settings.placement}) needs --leaves")
    with one_line_errors(), _status("simulating the cluster"):
        hosts = None if hosts_file is None else load_hosts(hosts_file)
        result = answer(None, **{**dict(settings), "hosts": hosts})
    print_notes(result.notes)
    if as_json:
        click.echo(result.model_dump_json(indent=2))
    else:
        _print(result)


@contextmanager
def _status(text: str) -> Iterator[None]:
    """Show on a terminal that the command works, until it has its answer."""
    console = Console(stderr=True)
    with console.status(text) if console.is_terminal else nullcontext():
        yield


def _print(result: ClusterAnswer) -> None:
    from hotline_answers.result import computing_table, effects_table, table

    console = Console()
    console.width = min(console.width, _WIDTH) if console.is_terminal else _WIDTH
    for sentence in result.bottleneck:
        console.print(Text(sentence))
    if result.rows:
        console.print(Text(result.rows))
    console.print(Text(result.headline, style="bold"))
    for sentence in result.sentences:
        console.print(Padding(Text(f"• {sentence}"), _BULLET_PADDING))
    computing = computing_table(result)
    console.print(f"\n{computing.title}")
    console.print(plain_table(computing.columns, [number_cells(*row) for row in computing.texts()]))
    effects = effects_table(result)
    console.print(f"\n{effects.title}")
    console.print(plain_table(effects.columns, [row for row in effects.texts()]))
    sizes = table(result)
    console.print(f"\n{sizes.title}")
    console.print(plain_table(sizes.columns, [number_cells(*row) for row in sizes.texts()]))
