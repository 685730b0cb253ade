"""The command `hotline optimisers`, which simulates the trainings and writes their page."""

from __future__ import annotations

from pathlib import Path

import click

from controller.dask_cluster import Parallelism
from experiment.progress import named_progress_bar
from foundation.concurrency import run_interruptibly
from hotline.cli.common import FILE, into_option, one_line_errors, print_study
from hotline.cli.examples import add_example
from hotline.cli.options import simulation_options


@click.command()
@click.option(
    "--quick", is_flag=True, help="Shorter trainings, and fewer steps for each point of the gain map."
)
@click.option(
    "--ratings",
    type=FILE,
    help="Ratings in RecBole's format, such as ml-100k.inter, to train a model on, too.",
)
@into_option("Folder of results; those of the same settings and code are reused.", Path("runs/optimisers"))
@simulation_options
def optimisers(
    quick: bool, ratings: Path | None, into: Path, parallelism: Parallelism, as_json: bool
) -> None:
    """Compare SGD and Adagrad, with and without the switch.

    Simulates three trainings: a model of clicks, a small DLRM and, if given, a model of your ratings. Reports
    the loss against time and updates, with tuned learning rates, and maps the gain from offload by the share
    of updates that the switch adds, and by the share of their time that servers may spend on collecting them
    from the switch.
    """
    from hotline_optimisers.numbers import run_plan
    from hotline_optimisers.page import write_page
    from hotline_optimisers.plan import FULL, QUICK

    with one_line_errors():
        with named_progress_bar("simulating") as progress:
            plan = QUICK if quick else FULL
            numbers = run_plan(plan, ratings, into, parallelism.scheduler, parallelism.processes, progress)
        provenance = [
            ("plan", "quick" if quick else "full"),
            ("ratings", "none" if ratings is None else ratings.name),
        ]
        page = run_interruptibly(lambda: write_page(numbers, provenance, into))
    print_study(page, numbers.model_dump(mode="json") if as_json else None)


add_example(optimisers, "--ratings ml-100k.inter")
