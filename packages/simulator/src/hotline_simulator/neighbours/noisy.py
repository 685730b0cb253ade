"""Simulate a noisy job and its neighbour at one switch, for the numbers of docs/design.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import click
import numpy as np

from controller.hotset.quotas import Slots, slots_of
from controller.hotset.selection import HotSetState, Rates, SwapRule, choose_for_jobs
from foundation.designs.hotset import OFFLOAD
from foundation.designs.interface import Arm
from foundation.protocol.header import LANES
from hotline_simulator.costs import HostCosts, Network
from hotline_simulator.neighbours.pushes import Load, draw_keys, push_all, rates_of

QUIET, NOISY = 61, 62  # job numbers
WORKERS, SERVERS = 4, 2  # of each job
KEYS = 6_000  # parameters of each job
SLOTS = 64
"""Slots of each lane that the two jobs share: 2,048 keys."""
QUOTA = 1_024  # hot keys that the quiet job may have
KEYS_A_STEP = 100
_PROFILED_SEED = 1 << 32  # added to a seed for the steps that hot sets are chosen from
PERIOD_NS = 1_000_000  # time between two pushes of a worker of the quiet job
NOISY_PUSHES_A_PERIOD = 10
SHARED_MBIT = 4_000
CASES = ("alone", "all slots taken", "with a quota", "its keys at its servers")


class QuietJobResult(NamedTuple):
    """Share of the quiet job's updates that the switch adds, and median and p99 of its pushes in µs."""

    hit_share: float
    median_us: float
    p99_us: float


def loads(steps: int, seed: int = 1) -> dict[int, Load]:
    """Return the load of each job: the quiet job's keys are skewed, the noisy job's uniform."""
    return dict(_draw_loads(steps, seed))


@lru_cache(maxsize=4)  # all cases have the same loads, and drawing them takes as long as to simulate a case
def _draw_loads(steps: int, seed: int) -> Mapping[int, Load]:
    rng = np.random.default_rng(seed)
    skewed = 1.0 / np.arange(1, KEYS + 1)
    drawn = {}
    for job, weights, pushes in ((QUIET, skewed, 1), (NOISY, np.ones(KEYS), NOISY_PUSHES_A_PERIOD)):
        keys = draw_keys(rng, weights, (WORKERS, steps * pushes, KEYS_A_STEP))
        keys.flags.writeable = False
        drawn[job] = Load(keys, PERIOD_NS // pushes)
    return drawn


def rates_of_jobs(job_loads: Mapping[int, Load]) -> dict[int, Rates]:
    """Return the rates of each job's keys, in updates per step of the quiet job."""
    return {job: rates_of(load, PERIOD_NS / load.period_ns) for job, load in job_loads.items()}


def hot_sets(case: str, rates: Mapping[int, Rates]) -> dict[int, list[int]]:
    """Return the hot keys of each job as `hotline follow` chooses them, in one of `CASES`."""
    limits = {QUIET: QUOTA, NOISY: KEYS}
    jobs = {
        job: HotSetState(each, np.empty(0, np.uint64), SwapRule(limits[job])) for job, each in rates.items()
    }
    if case == "with a quota":
        return _choose_hot_sets(jobs, occupied={}, quotas={QUIET: QUOTA, NOISY: 0})
    if case == "all slots taken":
        # The noisy job has loaded its hot set first, and `hotline follow` does not change it.
        noisy_hot_set = _choose_hot_sets({NOISY: jobs[NOISY]}, occupied={}, quotas={})
        return noisy_hot_set | _choose_hot_sets(
            {QUIET: jobs[QUIET]}, occupied={NOISY: slots_of(noisy_hot_set[NOISY])}, quotas={}
        )
    return {NOISY: []} | _choose_hot_sets({QUIET: jobs[QUIET]}, occupied={}, quotas={})


def _choose_hot_sets(
    jobs: Mapping[int, HotSetState], occupied: Mapping[int, Slots], quotas: Mapping[int, int]
) -> dict[int, list[int]]:
    changes, _ = choose_for_jobs(jobs, occupied, quotas, np.full(LANES, SLOTS, np.int64))
    # The hot sets were empty, so the keys for free slots are all hot keys.
    return {job: list(change.filling) for job, change in changes.items()}


def measure(
    case: str, network: Network, steps: int, seed: int = 1, arm: Arm = OFFLOAD
) -> QuietJobResult:  # fmt: skip
    """Simulate one of `CASES`; in a network with racks, all workers are in the same rack."""
    job_loads = loads(steps, seed)
    # Hot sets are chosen from other steps than those that they serve.
    hot_sets_by_job = hot_sets(case, rates_of_jobs(loads(steps, seed + _PROFILED_SEED)))
    if case == "alone":
        # Without steps the noisy job pushes nothing.
        job_loads[NOISY] = replace(job_loads[NOISY], keys=job_loads[NOISY].keys[:, :0])
    quiet_job = push_all(
        job_loads, hot_sets_by_job, KEYS, SERVERS, network, HostCosts(begin_ns=0, end_ns=0), seed, arm
    )[QUIET]
    return QuietJobResult(
        quiet_job.hit_share, *np.percentile(quiet_job.latencies_ns / 1_000, (50, 99)).tolist()
    )


NETWORKS = {
    "own cables": Network(),
    "one uplink": Network(rack=2 * WORKERS, uplink_mbit=SHARED_MBIT),
}


@click.command()
@click.option(
    "--steps", type=click.IntRange(min=10), default=1_000, show_default=True, help="Steps of the quiet job."
)
def main(steps: int) -> None:
    """Print hits and push times of the quiet job (docs/design.md)."""
    click.echo(
        "| the noisy job | " + " | ".join(f"{name}: hits | median, µs | p99, µs" for name in NETWORKS) + " |"
    )
    click.echo("|---" * (1 + 3 * len(NETWORKS)) + "|")
    for case in CASES:
        results = [measure(case, network, steps) for network in NETWORKS.values()]
        cells = [f"{each.hit_share:.1%} | {each.median_us:.1f} | {each.p99_us:.1f}" for each in results]
        click.echo(f"| {case} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
