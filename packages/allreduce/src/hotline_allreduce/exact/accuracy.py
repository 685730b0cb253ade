"""How often sums of float32 are not the correctly rounded ones, by format, distribution and workers.

SwitchML's and `exact`'s sums are those of their real agents and programs, simulated; sums in float32 are
NumPy's, in two orders. `python -m hotline_allreduce.exact.accuracy` prints both tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import click
import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import SwitchHosts
from hosts.keys import KeySpace
from hotline_allreduce.exact.agents import ExactClient
from hotline_allreduce.exact.reference import correctly_rounded_sums
from hotline_allreduce.exact.subject import SUBJECT
from hotline_allreduce.simulation.measure import IDEAL, all_reduce_once
from hotline_allreduce.simulation.subject import Subject
from hotline_allreduce.switchml.model import subject as switchml
from hotline_simulator.simulated_switch import switch_of
from hotline_simulator.system import SimulatedSystem
from hotline_simulator.world import SimulatedNetwork

Floats = NDArray[np.float32]
Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]

WORKER_COUNTS = (8, 32)
_WINDOW, _SEED = 64, 1


def _draw_heavy_tailed(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return rng.standard_normal(shape) * np.exp2(3 * rng.standard_normal(shape))


def _draw_wide(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return rng.standard_normal(shape) * np.exp2(-rng.integers(0, 40, shape))


DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "normal times 2^(3 times normal)": _draw_heavy_tailed,
    "normal over 40 octaves": _draw_wide,
}


class FormatErrors(NamedTuple):
    distribution: str
    workers: int
    wrong: dict[str, float]
    """Share of the sums that are not correctly rounded, by format."""
    largest_error: dict[str, float]  # in units in the last place of the correctly rounded sum, by format
    orders_differ: float
    """Share of the sums that differ between the two orders of float32."""
    repeated: float
    """Share of the sums for which `exact` took a second pass."""


def measure_errors(distribution: str, workers: int, values: int) -> FormatErrors:
    rng = np.random.default_rng(_SEED)
    vectors = list(DISTRIBUTIONS[distribution](rng, (workers, values)).astype(np.float32))
    expected = correctly_rounded_sums(vectors)
    exact, client = _all_reduce(SUBJECT, vectors)
    sums = {
        "float32": _add_in_order(vectors),
        "float32, reversed": _add_in_order(vectors[::-1]),
        "SwitchML": _all_reduce(switchml.CHECKED, vectors)[0],
        "exact": exact,
    }
    unit = np.spacing(np.abs(expected)).astype(np.float64)
    return FormatErrors(
        distribution,
        workers,
        {name: float(np.mean(each != expected)) for name, each in sums.items()},
        {
            name: float(np.max(np.abs(each.astype(np.float64) - expected) / unit))
            for name, each in sums.items()
        },
        float(np.mean(sums["float32"] != sums["float32, reversed"])),
        cast(ExactClient, client).repeated_share,
    )


def _add_in_order(vectors: list[Floats]) -> Floats:
    total = np.zeros_like(vectors[0])
    for vector in vectors:
        total += vector
    return total


def _all_reduce(subject: Subject, vectors: list[Floats]) -> tuple[Floats, object]:
    """Return the sums, and the first worker's client."""
    workers, values = len(vectors), len(vectors[0])
    system = SimulatedSystem(
        design=subject.design, arm=subject.arm, space=KeySpace(values), workers=workers, servers=1,
        hosts=IDEAL, seed=_SEED,
    )  # fmt: skip
    switch = switch_of(subject.design, SwitchHosts(workers, 1), [subject.arm])
    simulated = SimulatedNetwork(system, switch)
    all_reduce_once(subject, simulated, workers, vectors, _WINDOW, subject.chunk_size)
    client = simulated.clients[0]
    return np.asarray(cast(ExactClient, client).result, np.float32).copy(), client


@click.command()
@click.option("--values", type=click.IntRange(min=1), default=20_000, show_default=True)
def main(values: int) -> None:
    rows = [measure_errors(name, workers, values) for name in DISTRIBUTIONS for workers in WORKER_COUNTS]
    formats = list(rows[0].wrong)
    click.echo(f"Sums that are not correctly rounded, %, of {values:,}:\n")
    click.echo(f"| values | workers | {' | '.join(formats)} | orders differ | exact: second pass |")
    click.echo(f"|---|---:|{'---:|' * (len(formats) + 2)}")
    for row in rows:
        shares = [*row.wrong.values(), row.orders_differ, row.repeated]
        cells = " | ".join(f"{100 * share:.2f}" for share in shares)
        click.echo(f"| {row.distribution} | {row.workers} | {cells} |")
    click.echo("\nLargest error, in units in the last place of the correctly rounded sum:\n")
    click.echo(f"| values | workers | {' | '.join(formats)} |\n|---|---:|{'---:|' * len(formats)}")
    for row in rows:
        cells = " | ".join(f"{error:,.1f}" for error in row.largest_error.values())
        click.echo(f"| {row.distribution} | {row.workers} | {cells} |")


if __name__ == "__main__":
    main()
