"""One simulated run: the phases of a real one, in virtual time, and the same run folder."""

from __future__ import annotations

import math
import platform
import random
import shutil
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from analysis.record import Accounting, RunRecord, Simulation, least_capacity
from common.concurrency import in_thread
from designs.hotset import PROFILE
from designs.registry import design
from hosts.workload.trace import Trace
from logs.merge import merge_logs
from simulator.config import SimulationConfig
from simulator.session import SimulatedSession
from simulator.warm import warm
from topologies.machine import describe_machine
from topologies.phases.accounting import Lanes, served_pushes, settle
from topologies.phases.calibrate import take_capacity
from topologies.phases.measure import measure
from topologies.phases.profile import steps_to_profile
from topologies.phases.select_load import select
from topologies.phases.workload import choose_training, describe, generate_trace
from topologies.progress import Reporter

_LEAST_TO_CALIBRATE, _ALL_TO_CALIBRATE = 4, 100
"""Steps of each worker, of which the first and the last do not count, and of all: no noise has to be waited
for but what costs are drawn from."""
_PACKAGES = ("llvmlite", "numba", "numpy", "polars", "scipy")


async def simulate(config: SimulationConfig, data: Trace | None, run: Path, reporter: Reporter) -> RunRecord:
    """Do a run in virtual time; its folder has the merged logs and `run.json` of a real one."""
    with reporter.phase("compile"):
        await in_thread(warm, config.design)
    begun = time.monotonic()
    record = RunRecord(
        target="simulated",
        config=config.model_dump(mode="json"),
        machine=dict(describe_machine()),
        versions={"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        placement={},
        seeds={"workload": config.seed, "order": config.seed, "faults": config.seed},
        jobs={arm.name: arm.job for arm in config.every_arm},
    )
    with reporter.phase("workload", 1.0) as phase:
        trace = data or generate_trace(config, phase.update)
    training = choose_training(config, trace)
    known = trace.space.size if config.data is not None else config.workload.parameters
    record.workload = dict(describe(trace, training, known))
    nobody: Any = None
    session = SimulatedSession(config, run, nobody, [nobody] * config.workers, [], record, reporter)
    with reporter.phase("network"):
        others = [arm for arm in config.every_arm if not arm.is_measured]
        session.build(config, [*others, *config.measured], trace, training)
    if design(config.design).has_hot_set:
        await _profile(session, trace)
        _load(session, await select(session))
    with reporter.phase("calibrate"):
        take_capacity(session, await _capacities(session, config))
    record.offered_rate.update(config.offered)
    if config.most_load is not None:
        most = config.most_load * least_capacity(record.capacity)
        record.offered_rate = {load: min(rate, most) for load, rate in record.offered_rate.items()}
    await measure(session, _nothing)
    with reporter.phase("accounting"):
        session.flush()
        record.accounting = _account(session, trace)
    record.simulation = Simulation(
        rpcs=session.rpcs(),
        packet_passes=sum(int(arm.network.world.me.passes) for arm in session.arms.values()),
        events=sum(int(arm.network.world.me.delivered) for arm in session.arms.values()),
        virtual_s=session.now_ns / 1e9,
        real_s=time.monotonic() - begun,
        loop_s=sum(arm.network.loop_ns for arm in session.arms.values()) / 1e9,
        arms=session.simulated_arms(),
    )
    record.write(run)
    with reporter.phase("logs"):
        merge_logs(run / "parts", run, record.repeated())
    shutil.rmtree(run / "parts")
    record.phases_s = reporter.durations
    record.write(run)
    return record


async def _capacities(session: SimulatedSession, config: SimulationConfig) -> dict[str, float]:
    """Arm -> steps/s of all workers in a closed loop.

    Workers that compute begin at unlike times of that, as they would be after a while.
    """
    steps = max(_LEAST_TO_CALIBRATE, math.ceil(_ALL_TO_CALIBRATE / config.workers))
    first, chance = session.take_steps(steps), random.Random(config.seed)
    offsets = [chance.randrange(config.worker.compute_ns + 1) for _ in range(config.workers)]
    found = {}
    for arm in config.measured:
        await session.run_steps(arm, first, steps, offsets_ns=offsets)
        found[arm.name] = session.rate_of(arm)
    return found


async def _profile(session: SimulatedSession, trace: Trace) -> None:
    """Train the profile job over as many pushed lanes as configured, and write what servers have counted."""
    with session.reporter.phase(PROFILE.name):
        steps = steps_to_profile(session.config, trace)
        await session.run_steps(PROFILE, session.take_steps(steps), steps)
        session.flush()


def _load(session: SimulatedSession, keys: list[int]) -> None:
    """Have the hot set in the switch for the offloaded arms, and hint their workers."""
    wanted = np.array(keys, np.uint64)
    arms = session.config.offloaded
    with session.reporter.phase("load", len(arms)) as phase:
        for done, arm in enumerate(arms, start=1):
            network = session.arms[arm.name].network
            session.arms[arm.name].board.load(arm.job, keys)
            for store in network.stores:
                at = store.locate(wanted)
                store.give_away(at[store.known(at)])
            for client in network.clients:
                client.hint(wanted)
            phase.update(done)


async def _nothing() -> None:
    """Capacity is the same all the time."""


def _account(session: SimulatedSession, trace: Trace) -> Accounting:
    """Compare what workers have pushed with what servers and switch hold, key by key."""
    sent, at_servers, mismatched = 0, 0, 0
    for arm in session.arms.values():
        held = arm.board.held(arm.network.arm.job, trace.space)
        for store in arm.network.stores:
            mine = store.held()
            held[trace.space.positions(mine.keys)] += mine.values
            at_servers += int(mine.updates.sum())
        mismatched += int((held != arm.book.sums).sum())
        sent += arm.book.lanes
    found = settle(Lanes(sent, 0, at_servers, served_pushes(session.parts), mismatched), is_logged=True)
    found.overflows = sum(
        arm.board.overflows() for arm in session.arms.values() if arm.network.arm.settings.aggregates
    )
    return found
