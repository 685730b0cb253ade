"""Run a noisy job beside a quiet one in a small Mininet network.

`python -m tests.mininet.two_jobs FOLDER PORT`: a worker pushes a few hot keys, and another one pushes keys
that are all equally hot, ten times as often. Both hot sets follow their updates. The last line is JSON, with
periods of the quiet job: beside the noisy job, with a quota beside it, and with it alone.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.console import Console

from controller.hotset import follower, selection
from controller.hotset.follower import Follower, Period
from controller.hotset.selection import SwapRule
from experiment.folder import create_run_folder
from experiment.liveness import Liveness
from experiment.progress import Reporter
from experiment.run_config import Config
from foundation.designs.interface import Arm
from foundation.protocol.addressing import switch_interfaces
from foundation.protocol.header import LANES
from hosts.keys import KeySpace
from hosts.workload.trace import Trace
from hotline_agents.warm import warm
from tests.mininet.test_quotas import KEYS_A_STEP, QUOTA, SLOTS, STEPS
from topologies.agents import CommandTarget
from topologies.experiment import new_record
from topologies.fleet import RunContext, provision
from topologies.mininet_testbed import MininetTestbed
from topologies.run_lock import hold_run_lock
from topologies.running_cluster import agent_cluster
from topologies.session import RealSession

KEYS = 3_000
TIMES = 10
"""Steps of the noisy job for each of the quiet one."""
PERIOD_NS = 10_000_000
AHEAD_NS, PATIENCE_S = 100_000_000, 120.0
KIND = MininetTestbed()


def workload() -> Trace:
    """Return a trace of a worker with skewed keys, and of one with keys that are all equally hot."""
    chance, steps = np.random.default_rng(1), STEPS * TIMES
    skewed = 1.0 / np.arange(1, KEYS + 1)
    batches = [
        np.sort(chance.choice(KEYS, KEYS_A_STEP, replace=False, p=share))
        for share in (skewed / skewed.sum(), None)
        for _ in range(steps)
    ]
    starts = np.arange(len(batches) + 1) * KEYS_A_STEP
    return Trace("two jobs", 2, steps, KeySpace(KEYS), starts, np.concatenate(batches).astype(np.uint32))


def shrink_lanes() -> None:
    for module in (follower, selection):
        setattr(module, "ALL_SLOTS", np.full(LANES, SLOTS))  # noqa: B010


async def run_block(workers: Sequence[CommandTarget], arm: Arm, times: int) -> None:
    command = {
        "cmd": "run", "job": arm.job, "first_step": 0, "steps": STEPS * times,
        "period_ns": PERIOD_NS // times, "round": 0, "load": 0.5, "discard_ns": 0, "discard_steps": 0,
        "start_ns": time.monotonic_ns() + AHEAD_NS,
    }  # fmt: skip
    await asyncio.gather(*(worker.call(command, PATIENCE_S) for worker in workers))


async def measure(session: RealSession, quiet: Arm, noisy: Arm) -> list[Period]:
    """Return the quiet job's periods: beside the noisy job, with a quota beside it, and with it alone."""
    ours, others = session.workers[:1], session.workers[1:]

    async def both() -> None:
        await asyncio.gather(run_block(ours, quiet, 1), run_block(others, noisy, TIMES))

    found = []
    async with session.controller() as controller:
        following = Follower(controller, {quiet.job: SwapRule(QUOTA), noisy.job: SwapRule(KEYS)})
        await run_block(others, noisy, TIMES)
        await following.period()
        for quota in (0, QUOTA):
            await controller.set_quota(quiet.job, quota)
            await both()
            await following.period()
            await both()
            found += (await following.period())[:1]
        await run_block(ours, quiet, 1)
        return found + (await following.period())[:1]


async def run(config: Config, folder: Path) -> list[Period]:
    trace, record, reporter = workload(), new_record(config, KIND), Reporter(Console(quiet=True))
    trace.save(folder / "trace")
    quiet, noisy = config.offloaded_arms
    async with KIND.open(config, folder, record, reporter) as testbed:
        liveness = Liveness()
        await provision(testbed.network.address, config, liveness.processes)
        context = RunContext(config, folder, record, reporter, testbed.placement, testbed.network, liveness)
        async with agent_cluster(context, trace, None) as cluster:
            return await measure(cluster.session, quiet, noisy)


def main(folder: str, port: str) -> None:
    config = Config(
        workers=2, servers=2, runs=Path(folder), p4runtime_port=int(port),
        arms=("baseline", "offload", "offload-proxy"),
    )  # fmt: skip
    warm()
    shrink_lanes()
    with hold_run_lock(switch_interfaces(config.workers, config.servers)) as lock:
        run_folder = create_run_folder(config.runs, config.target)
        lock.set_folder(run_folder)
        periods = asyncio.run(run(config, run_folder))
    print(json.dumps([asdict(period) | {"share": period.share} for period in periods]))


if __name__ == "__main__":
    main(*sys.argv[1:])
