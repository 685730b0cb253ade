"""Simulate a run, from its configuration to its logs and record."""

from __future__ import annotations

import asyncio
import math
import platform
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.console import Console

from analysis.record import RunRecord, SimulatedArm, Simulation, Staleness, min_capacity
from analysis.summary import Summary, summarise
from experiment.design_parts import hosts_of, prepare
from experiment.machine_description import describe_machine
from experiment.phases.measure import measure, record_capacity
from experiment.phases.workload import choose_training, describe, generate_trace
from experiment.progress import Reporter
from experiment.requirements import RunKind, check_design, check_values_register
from experiment.session import HOT_SET_FILE, PlannedBlock
from foundation.concurrency import in_thread
from foundation.designs.interface import Arm
from foundation.designs.recorded import RecordedDesign
from foundation.designs.registry import design
from foundation.logs.merge import merge_logs
from foundation.logs.parts import atomic_path
from hosts.workload.trace import Trace
from hotline_simulator.accounting import account, read_registers
from hotline_simulator.config import SimulationConfig
from hotline_simulator.costs import sources_of
from hotline_simulator.session import SimulatedSession, open_session
from hotline_simulator.warm import warm

_PACKAGES = ("llvmlite", "numba", "numpy", "polars", "scipy")
_MIN_STEPS, _MIN_TOTAL_STEPS = 4, 100
"""Minimum steps of each worker, of which the first and the last do not count, and of all workers. The
only noise to average out is that of drawn costs."""
_MAX_COLLECTING_S = 1.0
"""Longest bound on staleness, s, that the closed loop of an arm whose servers collect lasts for; with a
longer bound, collections take hardly any time."""


async def simulate(config: SimulationConfig, data: Trace | None, run: Path, reporter: Reporter) -> RunRecord:
    with reporter.phase("compile"):
        await in_thread(warm, config.design)
    begin_s = time.monotonic()
    config = config.model_copy(
        update={"hosts": config.hosts.model_copy(update={"sources": sources_of(config.hosts)})}
    )
    session = await _open_calibrated(config, data, run, reporter)
    record = session.record
    record.offered_rate.update(config.offered)
    if config.max_load is not None:
        limit = config.max_load * min_capacity(record.capacity)
        record.offered_rate = {load: min(rate, limit) for load, rate in record.offered_rate.items()}
    await measure(session, _skip_drift_check)
    with reporter.phase("accounting"):
        await session.write_updates()
        record.accounting = account(session)
        record.registers = read_registers(session)
    record.simulation = Simulation(
        rpcs=session.rpcs(),
        packet_passes=sum(int(arm.network.world.switches.passes.sum()) for arm in session.arms.values()),
        events=sum(int(arm.network.world.header.handled_events) for arm in session.arms.values()),
        virtual_s=session.now_ns / 1e9,
        real_s=time.monotonic() - begin_s,
        loop_s=sum(arm.network.loop_ns for arm in session.arms.values()) / 1e9,
        arms=session.simulated_arms(),
    )
    record.write(run)
    with reporter.phase("logs"):
        merge_logs(run / "parts", run, record.repeated_spans_us())
    shutil.rmtree(run / "parts")
    record.phases_s = reporter.durations
    record.write(run)
    return record


async def _open_calibrated(
    config: SimulationConfig,
    data: Trace | None,
    run: Path,
    reporter: Reporter,
    wants_logs: bool = True,
) -> SimulatedSession:
    """Return a session whose arms have their hot sets, and whose record has their capacities."""
    record = RunRecord(
        target="simulated",
        recorded_design=RecordedDesign.of(design(config.design)),
        config=config.model_dump(mode="json"),
        machine=dict(describe_machine()),
        versions=dict(_versions()),
        placement={},
        seeds={"workload": config.seed, "order": config.seed, "faults": config.seed},
        jobs={arm.name: arm.job for arm in config.every_arm},
    )
    with reporter.phase("workload", 1.0) as phase:
        trace = data or generate_trace(config, phase.update)
    check_values_register(config.design, trace.space.n_values)
    training = choose_training(config, trace)
    parameters = trace.space.size if config.data is not None else config.workload.parameters
    record.workload = dict(describe(trace, training, parameters, config.is_lockstep, config.optimiser))
    with reporter.phase("network"):
        session = open_session(config, run, record, reporter, trace, training, wants_logs)
    await prepare(design(config.design), session, trace)
    await _calibrate(session)
    return session


@cache
def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


async def _calibrate(session: SimulatedSession) -> None:
    config = session.config
    with session.reporter.phase("calibrate"):
        steps = max(_MIN_STEPS, math.ceil(_MIN_TOTAL_STEPS / config.workers))
        first_step, rng = session.take_steps(steps), random.Random(config.seed)
        offsets = tuple(rng.randrange(config.worker.compute_ns + 1) for _ in range(config.workers))
        capacities = {}
        for arm in config.measured_arms:
            async with session.active(arm):
                await session.run_steps(PlannedBlock(arm, first_step, steps, offsets_ns=offsets))
                if design(config.design).optimises and arm.settings.aggregates:
                    await _calibrate_collecting(session, arm, offsets)
            capacities[arm.name] = session.rate_of(arm)
    record_capacity(session, capacities)


async def _calibrate_collecting(session: SimulatedSession, arm: Arm, offsets: tuple[int, ...]) -> None:
    """Measure the closed loop of an arm whose servers collect again, for as long as values may be stale.

    An equally long one before it is not measured: at its beginning no value is old enough to be collected.
    """
    config = session.config
    seconds = min(config.collection.staleness_ms / 1e3, _MAX_COLLECTING_S)
    steps = max(_MIN_STEPS, math.ceil(seconds * session.rate_of(arm) / config.workers))
    for _ in range(2):
        await session.run_steps(PlannedBlock(arm, session.take_steps(steps), steps, offsets_ns=offsets))


async def _skip_drift_check() -> None:
    """Do not check for drift: the capacity of a simulated machine is constant."""


class TemporaryRun(NamedTuple):
    run: Path
    record: RunRecord
    summary: Summary


def quiet_reporter() -> Reporter:
    return Reporter(Console(quiet=True))


class ClosedLoopOfArm(NamedTuple):
    capacity: float  # steps/s
    arm: SimulatedArm
    staleness: Staleness | None  # of copies in switches


def simulate_closed_loops(
    config: SimulationConfig, data: Trace | None, reporter: Reporter, hot_set: Path | None
) -> dict[str, ClosedLoopOfArm]:
    """Return the capacity of each measured arm, and what limits it, without a measurement at a load.

    The design is not checked: a caller simulates it many times, after a `temporary_run`, which checks it.
    """
    with _run_folder(config, hot_set) as run:
        session = asyncio.run(_open_calibrated(config, data, run, reporter, wants_logs=False))
    arms, networks = session.simulated_arms(), session.arms
    return {
        name: ClosedLoopOfArm(capacity, arms[name], networks[name].network.staleness())
        for name, capacity in session.record.capacity.items()
    }


@contextmanager
def _run_folder(config: SimulationConfig, hot_set: Path | None, scratch: str | None = None) -> Iterator[Path]:
    with TemporaryDirectory(prefix="hotline-", dir=scratch) as folder:
        run = Path(folder)
        (run / "parts").mkdir()
        if hot_set is not None:
            with atomic_path(run / HOT_SET_FILE) as partial:
                shutil.copyfile(hot_set, partial)
        yield run


@contextmanager
def temporary_run(
    config: SimulationConfig,
    data: Trace | None,
    reporter: Reporter,
    scratch: str | None = None,
    hot_set: Path | None = None,
) -> Iterator[TemporaryRun]:
    check_design(config.design, RunKind.SIMULATED, hosts_of(config))
    with _run_folder(config, hot_set, scratch) as run:
        record = asyncio.run(simulate(config, data, run, reporter))
        yield TemporaryRun(run, record, summarise(run, record))
