"""`python -m bench`: the command line."""

import json
import logging
import os
import random
import signal
import sys

import click
from rich.console import Console
from rich.progress import track

from bench.errors import BenchError
from bench.measure import Bench
from bench.network import host_interface, inside, network
from bench.report import Row, as_json, as_table
from bench.targets import BMV2, LOOP, SOFTSWITCH, Placement, find_bmv2, pinned, placement, running
from bench.traffic import Generator
from bench.workload import all_hit_pushes
from controller.errors import ControllerError
from softswitch.errors import SwitchError
from softswitch.ports.ring import PortSocket

_LOG = logging.getLogger("bench")


@click.command()
@click.option("--rounds", default=3, show_default=True, help="Targets come in random order in each.")
@click.option("--seed", default=1, show_default=True, help="Of the random order.")
@click.option("--realtime", is_flag=True, help="Run everything as SCHED_FIFO, where others use the machine.")
@click.option("--json", "to_json", is_flag=True, help="Print JSON instead of the table.")
def bench(rounds: int, seed: int, realtime: bool, to_json: bool) -> None:
    """Compare the softswitch with its port loop alone and, where it is installed, with BMv2 (needs root)."""
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    logging.getLogger("finsy").setLevel(logging.ERROR)  # switches without gNMI are fine here
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    cores = placement()
    if realtime:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    results = _run(_targets(), rounds, random.Random(seed), cores)
    if to_json:
        print(json.dumps(as_json(results, cores), indent=2))
    else:
        Console(width=None if sys.stdout.isatty() else 150).print(as_table(results, cores))


def main() -> None:
    """Run the bench; errors are one line on stderr, and the exit status is not 0."""
    try:
        bench.main(prog_name="bench")
    except (BenchError, SwitchError, ControllerError) as error:
        sys.exit(f"bench: error: {error}")


def _targets() -> list[str]:
    if find_bmv2() is None:
        _LOG.info("simple_switch_grpc is neither on PATH nor named by HOTLINE_BMV2: no comparison with it")
        return [SOFTSWITCH, LOOP]
    return [SOFTSWITCH, LOOP, BMV2]


def _run(targets: list[str], rounds: int, order: random.Random, cores: Placement) -> dict[str, list[Row]]:
    results: dict[str, list[Row]] = {target: [] for target in targets}
    schedule = [target for _ in range(rounds) for target in order.sample(targets, len(targets))]
    with network():
        with inside():
            port = PortSocket(1, host_interface(1))
        try:
            generator = Generator(port, all_hit_pushes())
            console = Console(stderr=True)
            for target in track(schedule, "measuring", console=console, disable=not console.is_terminal):
                with running(target, cores) as switch, pinned({cores.generator}):
                    results[target].append(Row(Bench(generator).measure(), switch))
        finally:
            port.close()
    return results


if __name__ == "__main__":
    main()
