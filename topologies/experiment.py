from __future__ import annotations

import asyncio
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from analysis.record import COMPILED_CODEC, RunRecord
from experiment import members
from experiment.errors import AgentFailed, log_cleanup_errors
from experiment.liveness import Liveness
from experiment.phases.workload import choose_training, describe, make_trace
from experiment.progress import Reporter
from experiment.requirements import check_values_register
from experiment.run_config import Config
from experiment.switch_recovery import supervise_switch
from foundation.concurrency import gather_or_cancel, in_thread
from foundation.designs.recorded import RecordedDesign
from foundation.designs.registry import DEFAULT, design
from foundation.logs.merge import merge_logs
from hosts.compiled_agents import compiled_agents
from hosts.model.hyperparameters import Hyperparameters
from hosts.workload.trace import Trace
from topologies.agents import CommandTarget, supervise
from topologies.calibrate import measure_agent_costs
from topologies.disk import watch_disk
from topologies.fleet import RunContext, provision, provision_other_switches
from topologies.recovery import RecoverableRun
from topologies.running_cluster import RunningCluster, agent_cluster
from topologies.script_cluster import find_script_cluster
from topologies.signals import STOP
from topologies.testbed import TestbedKind, UpdateCounter
from topologies.update_comparison import account, preserve_unaccounted_updates

log = logging.getLogger(__name__)

_SIGNAL_WAIT_S = 0.05


def new_record(config: Config, kind: TestbedKind) -> RunRecord:
    record = RunRecord(
        target=config.target,
        recorded_design=RecordedDesign.of(design(config.design)),
        config=config.model_dump(mode="json"),
        machine={},
        versions={},
        placement={},
        seeds={"workload": config.seed, "order": config.seed, "faults": config.seed},
        jobs={arm.name: arm.job for arm in config.every_arm},
    )
    kind.describe(config, record)
    return record


async def run_experiment(
    config: Config,
    kind: TestbedKind,
    data: Trace | None,
    run: Path,
    reporter: Reporter,
    publish: Callable[[], None],
) -> None:
    """Run an experiment; leave merged logs and `run.json` in any case; `publish` writes the report."""
    record, liveness = new_record(config, kind), Liveness(run / "logs" / members.FILE)
    with _write_results_at_end(run, record, reporter) as write_results:
        workload = None if config.script else await _prepare_workload(config, data, run, record, reporter)
        # Set-up has compiled the default design; scripts would all compile at the same time.
        agents = compiled_agents()
        if agents is not None and (config.design != DEFAULT or config.script):
            with reporter.phase("compile"):
                await in_thread(agents.warm, config.design)
        # In lockstep designs a single worker gets no answer, and cannot be measured.
        if config.codec != COMPILED_CODEC and not config.is_lockstep:
            with reporter.phase("slowness"):
                record.agents = await in_thread(measure_agent_costs, config)
        async with kind.open(config, run, record, reporter) as testbed:
            network = testbed.network
            for switch in (network.switch, *network.other_switches):
                liveness.processes.register(switch.name, switch.activity)
            liveness.members.begin(config.switch_names or {network.address: ""})
            with reporter.phase("tables"):
                await provision(network.address, config, liveness.processes)
                await provision_other_switches(config, liveness.processes)
                record.datapath = (await network.switch.counters() or {}).get("datapath")
            context = RunContext(config, run, record, reporter, testbed.placement, network, liveness)
            opened = agent_cluster(context, *workload) if workload else find_script_cluster()(context)
            async with opened as cluster:
                session = cluster.session
                # Processes are restarted until the accounting is done, also after a worker's death.
                servers = (server.wait_until_failed() for server in session.servers)
                deaths = [
                    *(
                        supervise_switch(RecoverableRun(session, number))
                        for number in range(len(session.switches))
                    ),
                    watch_disk(run, liveness),
                    *(watch() for watch in testbed.watches),
                    *servers,
                ]
                await supervise(_measure_and_account(cluster, testbed.collector), deaths)
                if config.cli:
                    write_results()
                    publish()
                    # A signal that came in the meantime is handled only while the loop runs.
                    await asyncio.sleep(_SIGNAL_WAIT_S)
                    with STOP.leave_ctrl_c_to_command_line():
                        testbed.open_command_line()


async def _prepare_workload(
    config: Config, data: Trace | None, run: Path, record: RunRecord, reporter: Reporter
) -> tuple[Trace, Hyperparameters | None]:
    trace = await make_trace(config, data, run / "trace", reporter)
    check_values_register(config.design, trace.space.n_values)
    training = await in_thread(choose_training, config, trace)
    is_one_table = config.data is None and config.tables == "one"
    parameters = config.workload.parameters if is_one_table else trace.space.size
    record.workload = dict(describe(trace, training, parameters, config.is_lockstep, config.optimiser))
    return trace, training


async def _measure_and_account(cluster: RunningCluster, collector: UpdateCounter) -> None:
    session = cluster.session
    try:
        await supervise(cluster.traffic(), [worker.wait_until_failed() for worker in session.workers])
    except AgentFailed:
        if not all(worker.alive for worker in session.workers):
            with log_cleanup_errors():
                await _account_for_survivors(cluster, collector)
        raise
    finally:
        with log_cleanup_errors():
            session.record.switch = await session.network.switch.counters()
            session.record.memory_mb = await session.peak_memory_mb()
    session.record.accounting = await account(session, cluster.space, collector)


async def _account_for_survivors(cluster: RunningCluster, collector: UpdateCounter) -> None:
    """Account for a run with a dead worker, whose unanswered pushes are unknown; not for lockstep designs."""
    session = cluster.session
    if session.config.is_lockstep:
        return
    await gather_or_cancel(_settle_if_alive(worker) for worker in session.workers)
    session.record.accounting = await account(session, cluster.space, collector)


async def _settle_if_alive(worker: CommandTarget) -> None:
    try:
        await worker.settle()
    except AgentFailed:
        if worker.alive:
            raise


@contextmanager
def _write_results_at_end(run: Path, record: RunRecord, reporter: Reporter) -> Iterator[Callable[[], None]]:
    """Write the record and the merged logs in any case; yield a function that writes them early."""
    # This stays in the record if the process is killed.
    record.error = "it was killed"
    record.write(run)
    is_written = False

    def write_results() -> None:
        nonlocal is_written
        is_written = True
        # If the merge of the logs is interrupted, the record is complete nevertheless.
        record.error = None
        _merge_results(run, record, reporter)

    try:
        yield write_results
    except BaseException as error:
        is_interrupted = isinstance(error, asyncio.CancelledError)
        record.error = "interrupted" if is_interrupted else str(error) or type(error).__name__
        with log_cleanup_errors():
            # Nothing is removed until the files that are to be preserved are.
            preserve_unaccounted_updates(run, record)
            # The merge of the logs may need the space of the trace.
            _remove_and_free(run / "trace")
            if not is_written:
                _merge_results(run, record, reporter)
            shutil.rmtree(run / "parts")
        raise
    if not is_written:
        write_results()
    shutil.rmtree(run / "parts")


def _remove_and_free(folder: Path) -> None:
    """Remove a folder and free its disk space, even if this process has mapped its files."""
    with suppress(OSError):
        for file in folder.iterdir():
            os.truncate(file, 0)
    shutil.rmtree(folder, ignore_errors=True)


def _merge_results(run: Path, record: RunRecord, reporter: Reporter) -> None:
    record.write(run)
    with reporter.phase("logs"):
        merge_logs(run / "parts", run, record.repeated_spans_us())
    record.phases_s = reporter.durations
    record.write(run)
