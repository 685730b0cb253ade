"""The command `hotline allreduce`, which simulates the comparison and writes its page."""

from __future__ import annotations

from pathlib import Path

import click

from controller.dask_cluster import Parallelism
from experiment.progress import named_progress_bar
from foundation.concurrency import run_interruptibly
from hotline.cli.common import into_option, one_line_errors, print_study
from hotline.cli.examples import add_example
from hotline.cli.options import simulation_options


@click.command()
@click.option("--quick", is_flag=True, help="Shorter vectors, fewer workers, no table of layers.")
@into_option("Folder of the results; those of the same settings and code are reused.", Path("runs/allreduce"))
@simulation_options
def allreduce(quick: bool, into: Path, parallelism: Parallelism, as_json: bool) -> None:
    """Compare all-reduce schemes and the hot set.

    Simulates SwitchML, parameter servers and a ring at 10 and 100 Gbit/s: goodput, bytes, link limits,
    switch memory, and synchronous and asynchronous training of the hot set of R1, the built-in workload.
    """
    from hotline_allreduce.study.numbers import run_plan
    from hotline_allreduce.study.page import write_page
    from hotline_allreduce.study.plan import FULL, QUICK

    plan = QUICK if quick else FULL
    with one_line_errors():
        with named_progress_bar("simulating") as progress:
            numbers = run_plan(plan, into, parallelism.scheduler, parallelism.processes, progress)
        provenance = [
            ("plan", "quick" if quick else "full"),
            ("vectors", f"{plan.values:,} values of float32"),
        ]
        page = run_interruptibly(lambda: write_page(numbers, provenance, into))
    print_study(page, numbers.model_dump() if as_json else None)


add_example(allreduce, "--quick")
