"""One run from the first interface to the merged logs: what is set up, in which order, and torn down."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from analysis.record import FAST, RunRecord
from experiment.config import Config
from experiment.errors import AgentFailed, secondary
from experiment.health import Health
from experiment.machine import describe_machine
from experiment.phases.workload import choose_training, describe, make_trace
from experiment.progress import Reporter
from experiment.recovery import keep_switch
from foundation.concurrency import gather_or_cancel, in_thread
from foundation.designs.registry import DEFAULT
from foundation.logs.collector import Collector, collecting
from foundation.logs.merge import merge_logs
from foundation.protocol import addressing
from hosts.model.hyperparameters import Hyperparameters
from hosts.warm import warm
from hosts.workload.trace import Trace
from topologies.accounting import account, preserve_unreplayed_updates
from topologies.agents import CommandTarget, supervised
from topologies.calibrate import measure_agent_costs
from topologies.capture import capture
from topologies.fleet import provision
from topologies.machine import describe_versions
from topologies.mininet_api import CLI
from topologies.network import network
from topologies.placement import Placement, place
from topologies.recovery import Processes
from topologies.running_cluster import COLLECTOR, RunContext, RunningCluster, agent_cluster
from topologies.scripts.running_cluster import script_cluster
from topologies.signals import STOP

log = logging.getLogger(__name__)

_LISTEN_S = 0.05


def new_record(config: Config, placement: Placement) -> RunRecord:
    """The record of a run that begins."""
    return RunRecord(
        target=config.target,
        config=config.model_dump(mode="json"),
        machine=dict(describe_machine()),
        versions=describe_versions(config.target),
        placement=dict(placement.as_record()),
        seeds={"workload": config.seed, "order": config.seed, "faults": config.seed},
        jobs={arm.name: arm.job for arm in config.every_arm},
    )


async def experiment(
    config: Config, data: Trace | None, run: Path, reporter: Reporter, publish: Callable[[], None]
) -> None:
    """Do a run; its folder has the merged logs and `run.json` also when the run fails or is interrupted.

    `publish` reports a run whose logs are merged, before the command line opens.
    """
    placement = place(config.placement, config.servers, config.workers)
    record, health = new_record(config, placement), Health()
    with _kept(run, record, reporter) as keep:
        trained = None if config.script else await _workload(config, data, run, record, reporter)
        # Set-up has done it for the default; of scripts there are many, which would all do it at once.
        if config.design != DEFAULT or config.script:
            with reporter.phase("compile"):
                await in_thread(warm, config.design)
        # Workers that push together are answered when all have: one alone cannot be measured.
        if config.codec != FAST and not config.is_lockstep:
            with reporter.phase("slowness"):
                record.agents = await in_thread(measure_agent_costs, config)
        with ExitStack() as stack:
            with reporter.phase("network"):
                net = stack.enter_context(network(config, placement, run / "logs"))
                if config.pcap:
                    interfaces = addressing.switch_interfaces(config.workers, config.servers)
                    stack.enter_context(capture(interfaces, run / "pcap"))
                await provision(net.address, config)
                record.datapath = (net.switch.counters() or {}).get("datapath")
            context = RunContext(config, run, record, reporter, placement, net, health)
            async with (
                collecting(run / "parts", COLLECTOR) as collector,
                agent_cluster(context, *trained) if trained else script_cluster(context) as participants,
            ):
                session = participants.session
                # What may come back does so until all is accounted for, also behind a worker's death.
                servers = (server.until_it_dies() for server in session.servers)
                deaths = [keep_switch(Processes(session)), *servers]
                await supervised(_measured(participants, collector), deaths)
                if config.cli:
                    keep()
                    publish()
                    # A signal that came meanwhile is heard only while the loop runs.
                    await asyncio.sleep(_LISTEN_S)
                    with STOP.for_a_command_line():
                        CLI(net.mininet)


async def _workload(
    config: Config, data: Trace | None, run: Path, record: RunRecord, reporter: Reporter
) -> tuple[Trace, Hyperparameters | None]:
    """What our own workers train on, and how."""
    trace = await make_trace(config, data, run / "trace", reporter)
    training = await in_thread(choose_training, config, trace)
    known = trace.space.size if config.data is not None else config.workload.parameters
    record.workload = dict(describe(trace, training, known, config.is_lockstep))
    return trace, training


async def _measured(participants: RunningCluster, collector: Collector) -> None:
    """All phases, and the accounting, also of a run that a worker's death ends."""
    session = participants.session
    try:
        await supervised(participants.traffic(), [worker.until_it_dies() for worker in session.workers])
    except AgentFailed:
        if not all(worker.alive for worker in session.workers):
            with secondary():
                await _account_for_survivors(participants, collector)
        raise
    finally:
        with secondary():
            session.record.switch = session.network.switch.counters()
            session.record.memory_mb = session.peak_memory_mb()
    session.record.accounting = await account(session, participants.space, collector)


async def _account_for_survivors(participants: RunningCluster, collector: Collector) -> None:
    """After a worker's death its unanswered pushes are unknown; all others must still add up.

    Where workers wait for each other, the rest are in the middle of a step, and nothing can be said."""
    session = participants.session
    if session.config.is_lockstep:
        return
    await gather_or_cancel(_come_to_rest(worker) for worker in session.workers)
    session.record.accounting = await account(session, participants.space, collector)


async def _come_to_rest(worker: CommandTarget) -> None:
    """Let a worker end what it does, unless it has died."""
    try:
        await worker.settle()
    except AgentFailed:
        if worker.alive:
            raise


@contextmanager
def _kept(run: Path, record: RunRecord, reporter: Reporter) -> Iterator[Callable[[], None]]:
    """Leave a run folder that can be read, whatever happens; yields what keeps a run before its end."""
    record.error = "it was killed"
    record.write(run)
    is_kept = False

    def keep() -> None:
        nonlocal is_kept
        is_kept = True
        # Should the logs not be merged to the end, this has all that they lack.
        record.error = None
        _merge(run, record, reporter)

    try:
        yield keep
    except BaseException as error:
        record.error = _name(error)
        with secondary():
            preserve_unreplayed_updates(run, record)
        shutil.rmtree(run / "trace", ignore_errors=True)
        with secondary():
            if not is_kept:
                _merge(run, record, reporter)
            shutil.rmtree(run / "parts")
        raise
    shutil.rmtree(run / "trace", ignore_errors=True)
    if not is_kept:
        keep()
    shutil.rmtree(run / "parts")


def _name(error: BaseException) -> str:
    if isinstance(error, asyncio.CancelledError):
        return "interrupted"
    return str(error) or type(error).__name__


def _merge(run: Path, record: RunRecord, reporter: Reporter) -> None:
    record.write(run)
    with reporter.phase("logs"):
        merge_logs(run / "parts", run, record.repeated())
    record.phases_s = reporter.durations
    record.write(run)
