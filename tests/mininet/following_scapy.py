"""Follow the hot set of a job with Scapy's agents in a small Mininet network, and account for its updates.

`python -m tests.mininet.following_scapy FOLDER PORT`: two workers push skewed keys to two servers in blocks.
Each period of the controller is in the middle of a block. The popular keys change after half of the steps.
The last line is JSON: the periods, and the accounting of the job.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from controller.hotset.follower import Follower, Period
from controller.hotset.selection import SwapRule
from experiment.folder import create_run_folder
from experiment.liveness import Liveness
from experiment.progress import Reporter
from experiment.run_config import Config
from foundation.designs.hotset import OFFLOAD
from foundation.protocol.addressing import switch_interfaces
from hosts.keys import KeySpace
from hosts.workload.trace import Trace
from hotline_agents.warm import warm
from tests.mininet.test_following_scapy import BLOCKS, HOT, KEYS_A_STEP, STEPS
from topologies import update_comparison
from topologies.agents import CommandTarget
from topologies.experiment import new_record
from topologies.fleet import RunContext, provision
from topologies.mininet_testbed import MininetTestbed
from topologies.run_lock import hold_run_lock
from topologies.running_cluster import agent_cluster
from topologies.session import RealSession

KEYS = 400
_WORKERS, _SERVERS = 2, 2
_JOB = OFFLOAD.job
_PERIOD_NS, _AHEAD_NS, _PATIENCE_S = 150_000_000, 500_000_000, 120.0
_KIND = MininetTestbed()


def workload() -> Trace:
    """Return a trace in whose second half the popular keys are other ones."""
    chance, steps = np.random.default_rng(1), BLOCKS * STEPS
    share = 1.0 / np.arange(1, KEYS + 1)
    batches = []
    for _ in range(_WORKERS):
        for step in range(steps):
            keys = chance.choice(KEYS, KEYS_A_STEP, replace=False, p=share / share.sum())
            batches.append(np.sort(keys if step < steps // 2 else KEYS - 1 - keys))
    starts = np.arange(len(batches) + 1) * KEYS_A_STEP
    return Trace("scapy", _WORKERS, steps, KeySpace(KEYS), starts, np.concatenate(batches).astype(np.uint32))


async def run_block(workers: list[CommandTarget], block: int) -> None:
    command = {
        "cmd": "run", "job": _JOB, "first_step": block * STEPS, "steps": STEPS, "period_ns": _PERIOD_NS,
        "round": 0, "load": 0.5, "discard_ns": 0, "discard_steps": 0,
        "start_ns": time.monotonic_ns() + _AHEAD_NS,
    }  # fmt: skip
    await asyncio.gather(*(worker.call(command, _PATIENCE_S) for worker in workers))


async def follow(session: RealSession) -> list[Period]:
    """Return the periods, each of which moves keys while the workers push."""
    periods = []
    async with session.controller() as controller:
        following = Follower(controller, {_JOB: SwapRule(HOT)})
        for block in range(BLOCKS):
            running = asyncio.create_task(run_block(list(session.workers), block))
            await asyncio.sleep((_AHEAD_NS + _PERIOD_NS * STEPS // 2) / 1e9)  # half of the block's steps
            periods += await following.period()
            await running
    return periods


async def run(config: Config, folder: Path) -> dict[str, Any]:
    trace, record, reporter = workload(), new_record(config, _KIND), Reporter(Console(quiet=True))
    trace.save(folder / "trace")
    async with _KIND.open(config, folder, record, reporter) as testbed:
        liveness = Liveness()
        await provision(testbed.network.address, config, liveness.processes)
        context = RunContext(config, folder, record, reporter, testbed.placement, testbed.network, liveness)
        async with agent_cluster(context, trace, None) as cluster:
            periods = await follow(cluster.session)
            account = await update_comparison.account(cluster.session, trace.space, testbed.collector)
    return {"periods": [asdict(period) for period in periods], "accounting": account.model_dump()}


def main(folder: str, port: str) -> None:
    config = Config(
        workers=_WORKERS, servers=_SERVERS, runs=Path(folder), p4runtime_port=int(port), codec="scapy",
        arms=("baseline", "offload"),
    )  # fmt: skip
    warm()
    with hold_run_lock(switch_interfaces(config.workers, config.servers)) as lock:
        run_folder = create_run_folder(config.runs, config.target)
        lock.set_folder(run_folder)
        print(json.dumps(asyncio.run(run(config, run_folder))))


if __name__ == "__main__":
    main(*sys.argv[1:])
