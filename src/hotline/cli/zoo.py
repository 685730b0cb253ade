"""`hotline zoo`: all designs side by side in virtual time, and one page about them."""

from __future__ import annotations

from pathlib import Path

import click

from experiment.bars import told
from foundation.concurrency import run_interruptibly
from hotline.cli.common import (
    json_option,
    one_line_errors,
    print_json,
    processes_option,
    side_by_side_option,
)


@click.command()
@click.option("--quick", is_flag=True, help="Shorter vectors, fewer workers, no table of layers: 3 minutes.")
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("runs/zoo"),
    show_default=True,
    help="Folder of the results; what is there, of the same settings and code, is not done again.",
)
@side_by_side_option
@processes_option
@json_option
def zoo(quick: bool, into: Path, scheduler: str | None, processes: int, as_json: bool) -> None:
    """Compare designs that add up dense vectors, and the hot set.

    SwitchML, servers, a ring, in virtual time at 10 and 100 Gbit/s: goodput, bytes, what links allow, the
    memory of the switch, and training R1's hot set with workers that wait for each other or do not.
    """
    from studies.allreduce.page import write_page
    from studies.allreduce.plan import FULL, QUICK
    from studies.allreduce.zoo import do_plan

    plan = QUICK if quick else FULL
    with one_line_errors():
        with told("simulating") as progress:
            numbers = do_plan(plan, into, scheduler, processes, progress)
        ran = [("plan", "quick" if quick else "full"), ("vectors", f"{plan.values:,} values of float32")]
        page = run_interruptibly(lambda: write_page(numbers, ran, into))
    if as_json:
        print_json(numbers.model_dump())
    else:
        click.echo(f"report: {page}")
