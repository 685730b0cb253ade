"""`python -m hotline_paper.connections -o FILE`: measure Pan et al. Fig. 9; requires root."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TypeVar

import click

from foundation.errors import HotlineError
from foundation.logs.parts import atomic_path
from topologies.signals import INTERRUPTED, STOP, SignalActions

T = TypeVar("T")
_NO_RESULT = "the measurement is incomplete, and no result was written"


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Parquet file to write.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=6, show_default=True, help="Measurements of each setting."
)
@click.option(
    "--max-connections",
    "max_connections",
    type=click.IntRange(1, 4096),
    default=4096,
    show_default=True,
    help="Largest number of connections.",
)
def main(output: Path, rounds: int, max_connections: int) -> int:
    """Measure the delay of empty RPCs against the number of connections."""
    # Imported late: the imports take seconds and need Mininet, and signals must be handled before them.
    from experiment.progress import progress_bar
    from foundation.protocol.addressing import switch_interfaces
    from hotline_paper.connections.experiment import run
    from hotline_paper.connections.settings import CONNECTIONS
    from topologies.run_lock import hold_run_lock

    logging.getLogger("finsy").setLevel(logging.ERROR)
    connections = [number for number in CONNECTIONS if number < max_connections] + [max_connections]
    logs, interfaces = output.with_suffix(".logs"), switch_interfaces(workers=1, servers=1)
    try:
        logs.mkdir(parents=True, exist_ok=True)
        with hold_run_lock(interfaces), progress_bar("connections") as progress:
            work = run(rounds, connections, logs, progress)
            measurements = asyncio.run(_run_interruptibly(work, interfaces))
        with atomic_path(output) as file:
            measurements.write_parquet(file)
    except asyncio.CancelledError:
        print(f"hotline: interrupted; {_NO_RESULT}", file=sys.stderr)
        return INTERRUPTED
    except (HotlineError, OSError) as error:
        print(f"hotline: {error}", file=sys.stderr)
        return 1
    click.echo(f"{output}: {measurements.height} measurements")
    return 0


async def _run_interruptibly(run: Coroutine[object, object, T], interfaces: Sequence[str]) -> T:
    from topologies.run_lock import remove_killed_run

    loop, work = asyncio.get_running_loop(), asyncio.ensure_future(run)

    def cancel() -> None:
        loop.call_soon_threadsafe(work.cancel)

    def remove_leftovers() -> None:
        remove_killed_run(interfaces)

    with STOP.on_signal(SignalActions(lambda: _NO_RESULT, cancel=cancel, clean_up=remove_leftovers)):
        return await work


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    STOP.listen()
    STOP.exit(main(standalone_mode=False))
