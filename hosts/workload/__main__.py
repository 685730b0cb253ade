"""`python -m hosts.workload`: make a trace for the workers."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from common.errors import HotlineError
from common.words import counted
from hosts.workload import libsvm, replay
from hosts.workload.generator import R1, R2, generate
from hosts.workload.trace import Trace
from logs.libsvm import SAMPLES_PER_STEP
from logs.update_log import is_update_log

_SHAPES = {"r1": R1, "r2": R2}


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="libsvm set, or update log.")
@click.option("--shape", type=click.Choice(list(_SHAPES)), default="r1", help="Built-in workload.")
@click.option("--workers", type=click.IntRange(min=1), default=4, show_default=True)
@click.option("--steps", type=click.IntRange(min=1), default=2500, show_default=True, help="Built-in only.")
@click.option("--keys-per-step", type=click.IntRange(min=1), help="Built-in only.")
@click.option(
    "--samples-per-step",
    type=click.IntRange(min=1),
    default=SAMPLES_PER_STEP,
    show_default=True,
    help="libsvm only.",
)
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, file_okay=False), required=True)
def main(
    data: Path | None,
    shape: str,
    workers: int,
    steps: int,
    keys_per_step: int | None,
    samples_per_step: int,
    seed: int,
    output: Path,
) -> None:
    """Write a trace: a directory of arrays that every worker maps."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    try:
        if data is not None:
            is_log = is_update_log(data)
            trace = replay.load(data, workers) if is_log else libsvm.load(data, workers, samples_per_step)
        else:
            trace = _generate(shape, workers, steps, keys_per_step, seed)
        trace.save(output)
    except HotlineError as error:
        raise click.ClickException(str(error)) from error
    size = f"{counted(trace.workers, 'worker')} x {counted(trace.steps, 'step')}"
    click.echo(f"{output}: {trace.name}, {size}, {counted(len(trace.position), 'update')}")


def _generate(shape: str, workers: int, steps: int, keys_per_step: int | None, seed: int) -> Trace:
    chosen = _SHAPES[shape]
    if keys_per_step is not None:
        chosen = replace(chosen, keys_per_step=keys_per_step)
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{chosen.name} workload", total=1.0)
        return generate(chosen, workers, steps, seed, lambda share: progress.update(task, completed=share))


if __name__ == "__main__":
    main()
