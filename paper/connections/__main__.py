"""`python -m paper.connections -o FILE`: [DDL] Fig. 9, measured (root)."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

import click

from common.errors import HotlineError
from logs.parts import whole
from topologies.signals import STOP


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="Parquet file to write.")
@click.option("--rounds", type=click.IntRange(min=1), default=6, show_default=True)
@click.option("--most", type=click.IntRange(1, 4096), default=4096, show_default=True, help="Connections.")
def main(output: Path, rounds: int, most: int) -> None:
    """Measure the delay of empty RPCs against connections."""
    # Takes seconds, and Mininet: a signal is heard before.
    from cli.common import progress_bar
    from paper.connections.experiment import CONNECTIONS, run
    from protocol.addressing import switch_interfaces
    from topologies.leftovers import only_run

    logging.getLogger("finsy").setLevel(logging.ERROR)
    connections = [number for number in CONNECTIONS if number < most] + [most]
    logs = output.with_suffix(".logs")
    try:
        logs.mkdir(parents=True, exist_ok=True)
        with only_run(switch_interfaces(1, 1)), progress_bar("connections") as progress:
            found = asyncio.run(run(rounds, connections, logs, progress))
        with whole(output) as partial:
            found.write_parquet(partial)
    except (HotlineError, OSError) as error:
        print(f"hotline: {error}", file=sys.stderr)
        sys.exit(1)
    click.echo(f"{output}: {found.height} measurements")


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    STOP.listen()
    STOP.exit(main(standalone_mode=False) or 0)
