"""`python -m tools.bench`: the command line."""

import json
import logging
import random
import signal
import sys
from collections.abc import Callable, Sequence

import click
from rich.console import Console

from foundation.errors import HotlineError
from softswitch.errors import SwitchError
from softswitch.processes import NO_BMV2
from tools.bench.processes import choose_cores
from tools.bench.report import as_json, as_tables, machine, placed
from tools.bench.results import Result
from tools.bench.scale import FULL, QUICK
from tools.bench.sections.agents import agents
from tools.bench.sections.control import memory, writes
from tools.bench.sections.dense import dense
from tools.bench.sections.forwarding import forwarding
from tools.bench.sections.function import function
from tools.bench.sections.hits import hits
from tools.bench.sections.kv import kv
from tools.bench.sections.load import load
from tools.bench.sections.parts import parts
from tools.bench.sections.policies import policies
from tools.bench.sections.ports import idle, ports
from tools.bench.sections.soak import soak
from tools.bench.stage import Stage
from tools.bench.switches import BMV2, switches

_LOG = logging.getLogger("bench")
_ALL = (
    forwarding,
    function,
    hits,
    parts,
    ports,
    idle,
    writes,
    memory,
    load,
    soak,
    agents,
    kv,
    policies,
    dense,
)
SECTIONS: dict[str, Callable[[Stage], list[Result]]] = {section.__name__: section for section in _ALL}
_WIDTH = 200  # where the output is no terminal


@click.command()
@click.argument("sections", nargs=-1, type=click.Choice(list(SECTIONS)))
@click.option("--quick", is_flag=True, help="Short trials, one round, small tables: a rough look.")
@click.option("--seed", default=1, show_default=True, help="Of the order of the targets in each round.")
@click.option("--json", "to_json", is_flag=True, help="Print JSON instead of the table.")
def bench(sections: Sequence[str], quick: bool, seed: int, to_json: bool) -> None:
    """Measure the softswitch, paired with BMv2 where it is installed and with a loop that does no P4 work,
    the agents, paired with an echo, a script's worker, paired with the built-in one, and how fast policies
    and the questions of dense training are.

    SECTIONS are measured, by default all. Needs root and two cores.
    """
    logging.basicConfig(format="%(message)s")
    _LOG.setLevel(logging.INFO)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cores = choose_cores()
    if BMV2 not in switches():
        _LOG.info("%s: no comparison with it", NO_BMV2)
    results: list[Result] = []
    with Console(stderr=True).status("") as status:
        stage = Stage(cores, QUICK if quick else FULL, random.Random(seed), status.update)
        for name in sections or SECTIONS:
            results += SECTIONS[name](stage)
    if to_json:
        print(json.dumps(as_json(results, cores), indent=2))
        return
    print(f"{machine()}\n{placed(cores)}\n")
    Console(width=None if sys.stdout.isatty() else _WIDTH).print(*as_tables(results), sep="\n")


def main() -> None:
    """Run the bench; errors are one line on stderr, and the exit status is not 0."""
    try:
        bench.main(prog_name="bench")
    except (HotlineError, SwitchError) as error:
        sys.exit(f"bench: error: {error}")


if __name__ == "__main__":
    main()
