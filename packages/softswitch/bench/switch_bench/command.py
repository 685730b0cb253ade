"""The command line of a bench: which sections it measures, how thoroughly, and how it prints them."""

from __future__ import annotations

import json
import logging
import random
import signal
import sys
from collections.abc import Callable, Mapping, Sequence

import click
from rich.console import Console

from softswitch.errors import SwitchError
from softswitch.processes import NO_BMV2
from switch_bench.processes import Cores, choose_cores
from switch_bench.report import as_json, as_tables, machine
from switch_bench.results import Result
from switch_bench.scale import FULL, QUICK
from switch_bench.stage import Stage
from switch_bench.switches import BMV2, switches

_LOG = logging.getLogger("bench")
_WIDTH = 200  # where the output is no terminal

Section = Callable[[Stage], list[Result]]


def bench_command(
    known_sections: Mapping[str, Section], description: str, describe_placement: Callable[[Cores], str]
) -> click.Command:
    """Make the command that measures sections by name; `describe_placement` says what runs on which core."""

    @click.command(help=description)
    @click.argument("sections", nargs=-1, type=click.Choice(list(known_sections)))
    @click.option("--quick", is_flag=True, help="Short trials, one round, small tables: a rough look.")
    @click.option("--seed", default=1, show_default=True, help="Seed of the order of targets in each round.")
    @click.option("--json", "to_json", is_flag=True, help="Print JSON instead of the table.")
    def bench(sections: Sequence[str], quick: bool, seed: int, to_json: bool) -> None:
        logging.basicConfig(format="%(message)s")
        _LOG.setLevel(logging.INFO)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        cores = choose_cores()
        if BMV2 not in switches():
            _LOG.info("%s: BMv2 is not measured", NO_BMV2)
        results: list[Result] = []
        with Console(stderr=True).status("") as status:
            stage = Stage(cores, QUICK if quick else FULL, random.Random(seed), status.update)
            for name in sections or known_sections:
                results += known_sections[name](stage)
        if to_json:
            print(json.dumps(as_json(results, describe_placement(cores)), indent=2))
            return
        print(f"{machine()}\n{describe_placement(cores)}\n")
        Console(width=None if sys.stdout.isatty() else _WIDTH).print(*as_tables(results), sep="\n")

    return bench


def run_bench(command: click.Command, errors: tuple[type[Exception], ...] = (SwitchError,)) -> None:
    """Run the bench; print one of these errors as a line on stderr, and exit with status 1."""
    try:
        command.main(prog_name="bench")
    except errors as error:
        sys.exit(f"bench: error: {error}")
