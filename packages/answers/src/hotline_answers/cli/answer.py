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
    PATH,
    Number,
    json_option,
    log_options,
    number_cells,
    one_line_errors,
    plain_table,
    print_notes,
)

if TYPE_CHECKING:
    from hotline_answers.cluster_answer.ask import ClusterAnswer

_WIDTH = 100  # columns of the output
_BULLET_PADDING = (0, 0, 0, 1)  # top, right, bottom, left


@click.command("cluster")
@click.option("--workers", type=click.IntRange(min=1), required=True, help="Number of workers.")
@click.option("--servers", type=click.IntRange(min=1), required=True, help="Number of parameter servers.")
@click.option(
    "--keys-per-step",
    type=click.IntRange(min=1),
    default=3_000,
    help="Distinct keys of a worker's step, in the built-in data.",
)
@click.option(
    "--rate",
    type=Number(min=0, min_open=True),
    help="Steps/s of all workers together. [default: half of the cluster's capacity]",
)
@click.option(
    "--data",
    type=PATH,
    help="Your access log (docs/logs.md) or libsvm training set: a file, folder or pattern.",
)
@log_options
@click.option(
    "--skew",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.5,
    help="Share of the updates that the hottest 20,000 of 900,000 parameters take, in the built-in data.",
)
@click.option("--top-k", type=click.IntRange(min=1), default=20_000, help="Hot keys in the switch.")
@click.option(
    "--racks",
    type=click.IntRange(min=1),
    help="Racks of workers, whose switches only forward; servers are at the switch with the hot set. "
    "[default: each worker has a port of the switch]",
)
@click.option(
    "--oversubscription",
    type=Number(min=0, min_open=True),
    help="With --racks: total bandwidth of a rack's workers divided by that of its uplink. [default: 1]",
)
@click.option(
    "--hosts",
    "hosts_file",
    type=FILE,
    help="TOML file with the table [hosts], as `hotline answer fit` writes it. "
    "[default: the costs of our agents]",
)
@click.option(
    "--switch",
    type=click.Choice(["ideal", "tofino", "tofino2"]),
    default="ideal",
    help="Kind of the dedicated switch; packages/tofino/README.md has the limits of chips.",
)
@click.option(
    "--optimiser",
    metavar="NAME(lr=...)",
    help="Optimiser of the servers, such as adagrad; they collect gradients from the switch. "
    "[default: none; servers add what workers push]",
)
@json_option
def cluster(
    racks: int | None, oversubscription: float | None, hosts_file: Path | None, as_json: bool,
    **settings: object,
) -> None:  # fmt: skip
    """Say what a switch would do for a cluster.

    Prints gains and losses, capacity, what limits it, and which size of a hot set pays off. The agents and
    the P4 program are simulated: every agent has a dedicated core, and the switch is a dedicated device. Only
    a part of a large cluster is simulated, and the rest is calculated.
    """
    from hotline_answers.result import answer as answer_for
    from simulator.config import load_hosts

    if oversubscription is not None and racks is None:
        raise click.UsageError(f"--oversubscription ({oversubscription:g}) needs --racks")
    with one_line_errors(), _status("simulating the cluster"):
        result = answer_for(
            None,
            racks=racks,
            oversubscription=oversubscription or 1.0,
            hosts=None if hosts_file is None else load_hosts(hosts_file),
            **settings,
        )
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
    from hotline_answers.result import effects_table, table

    console = Console()
    console.width = min(console.width, _WIDTH) if console.is_terminal else _WIDTH
    console.print(Text(result.headline, style="bold"))
    for sentence in result.sentences:
        console.print(Padding(Text(f"• {sentence}"), _BULLET_PADDING))
    effects = effects_table(result)
    console.print(f"\n{effects.title}")
    console.print(plain_table(effects.columns, [row for row in effects.texts()]))
    sizes = table(result)
    console.print(f"\n{sizes.title}")
    console.print(plain_table(sizes.columns, [number_cells(*row) for row in sizes.texts()]))
