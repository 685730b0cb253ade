"""Compare the updates that workers sent with the values that parameter servers and switch hold."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.record import Accounting, RunRecord
from controller.controller_ops import control_of
from experiment.errors import RunFailed
from experiment.phases.check_updates import Lanes, count_lanes_served_by_switch, reconcile
from foundation.concurrency import gather_or_cancel
from foundation.designs.registry import design
from foundation.text import pluralize
from hosts import ledger, replay
from hosts.keys import KeySpace
from hosts.succession import read_unsettled
from hosts.unreplayed import preserve_agent_files
from topologies.agents import CommandTarget, call_all
from topologies.session import RealSession
from topologies.testbed import UpdateCounter

log = logging.getLogger(__name__)

Values = npt.NDArray[np.uint32]
"""Values by place in the value space of the rows, uint32 (values,)."""
Arrays = dict[str, npt.NDArray[Any]]  # name -> array; their types differ


async def account(session: RealSession, space: KeySpace, collector: UpdateCounter) -> Accounting:
    """Have agents write all logs, and check that each push was applied once. No RPC may be outstanding."""
    return await session.retry_after_deaths(partial(_account_once, session, space, collector))


async def _account_once(session: RealSession, space: KeySpace, collector: UpdateCounter) -> Accounting:
    sent_lanes = unknown_lanes = mismatched_values = lanes_at_servers = 0
    unreplayed_updates = UnreplayedUpdates(session)
    answers = await session.flush_workers([worker for worker in session.workers if worker.alive])
    answers += await call_all([server for server in session.servers if server.alive], {"cmd": "flush"})
    dropped_rows = sum(answer["dropped_rows"] for answer in answers)
    changed_arms: list[str] = []  # arms whose settings in the switch are not the configured ones
    run_design = design(session.config.design)
    control, combination = control_of(run_design), run_design.combination
    with session.reporter.phase("accounting", len(session.config.every_arm)) as phase:
        is_lockstep = session.config.is_lockstep
        if control.stop_exchanges is not None:
            async with session.controller() as controller:
                for arm in session.config.every_arm:
                    # Servers no longer collect gradients from the switch, or publish values in it.
                    await control.stop_exchanges(controller, arm)
        session.record.staleness = await session.staleness()
        # In lockstep designs the workers hold the model, otherwise the servers and the switch.
        model_workers = session.workers if is_lockstep else []
        servers = [] if is_lockstep else session.servers
        for worker in model_workers:
            await worker.call({"cmd": "model", "file": str(_dump_file(worker, session))})
        await gather_or_cancel(
            server.call({"cmd": "dump", "file": str(_dump_file(server, session))}) for server in servers
        )
        await session.network.fetch_files("*")
        models = [_read_arrays(_dump_file(worker, session)) for worker in model_workers]
        dumps = [_read_arrays(_dump_file(server, session)) for server in servers]
        async with session.controller() as controller:
            switch_values: dict[str, Values] = {}
            if control.read_values is not None:
                switch_values = await control.read_values(controller, session.config.every_arm, space)
            for done_count, arm in enumerate(session.config.every_arm, start=1):
                if control.is_changed is not None and await control.is_changed(controller, arm):
                    changed_arms.append(arm.name)
                workers = session.workers if arm in session.arms_with_workers else []
                ledgers = [
                    each
                    for number in range(1, len(workers) + 1)
                    for each in _read_ledgers(session, number, arm.job)
                ]
                sent_lanes += sum(each.lanes_sent + each.lanes_unknown for each in ledgers)
                unknown_lanes += sum(each.lanes_unknown for each in ledgers)
                unreplayed_sum, unknown_replays = unreplayed_updates.read_job(arm.job, space.n_values)
                # Pushes without an answer may be among the values; replays without one may be missing.
                uncertain_updates = [
                    *(each.unknown for each in ledgers),
                    *(np.negative(each) for each in unknown_replays),
                ]
                switch_values_of_arm = switch_values.get(arm.name, np.zeros(space.n_values, np.uint32))
                final_values = [model[f"job{arm.job}"] for model in models]
                if not is_lockstep:
                    # An acknowledged update that only its worker's replay log has is not missing.
                    parts = (values_at_servers(dumps, arm.job, space), switch_values_of_arm, unreplayed_sum)
                    final_values = [reduce(combination.merge, parts)]
                sent_by_worker = [each.sent for each in ledgers]
                mismatched_values += sum(
                    ledger.count_mismatches(sent_by_worker, uncertain_updates, each, space, combination)
                    for each in final_values
                )
                unknown_lanes += sum(int(np.count_nonzero(each)) for each in unknown_replays)
                lanes_at_servers += sum(int(dump[f"job{arm.job}_updates"].sum()) for dump in dumps)
                phase.update(done_count)
            overflows = 0 if control.overflows is None else await control.overflows(controller)
            session.record.registers = {
                each.title: each.reduction.of(await controller.read_register(each.name))
                for each in run_design.registers
            }
    lanes = Lanes(
        sent_lanes,
        unknown_lanes,
        lanes_at_servers,
        count_lanes_served_by_switch(session.parts),
        mismatched_values,
    )
    restarts = session.restarts()
    # In lockstep designs a row of a log does not say which workers' lanes were added.
    is_logged = all(worker.alive for worker in session.workers) and not (
        dropped_rows or restarts or session.record.worker_changes or is_lockstep
    )
    accounting = reconcile(lanes, is_logged, combination)
    accounting.overflows = overflows
    accounting.changed_arms = changed_arms
    accounting.dropped_rows = dropped_rows
    accounting.restarts = restarts
    accounting.unreplayed = unreplayed_updates.keys_by_worker
    accounting.collected, accounting.uncollected = collector.updates, lanes_at_servers - collector.updates
    return accounting


class UnreplayedUpdates:
    """Updates that only the replay logs of dead workers have; none if workers keep no replay logs."""

    def __init__(self, session: RealSession) -> None:
        self._parts = session.parts
        has_logs = session.config.recovery.replay_log
        self._dead_workers = {
            worker.name: session.switch_numbers(number)
            for number, worker in enumerate(session.workers, start=1)
            if has_logs and not worker.alive
        }
        self._workers = [worker.name for worker in session.workers] if has_logs else []
        self.keys_by_worker: dict[str, int] = {}
        """Worker -> number of keys with unreplayed updates, over all jobs; never 0."""

    def read_job(self, job: int, size: int) -> tuple[Values, list[Values]]:
        """Return the sum of unreplayed updates [size], and each worker's unanswered replays [size]."""
        total, unknown_replays = np.zeros(size, np.uint32), []
        for name in self._workers:
            unknown_replays += read_unsettled(self._parts / replay.file_name(name, job))
        for name, switch_numbers in self._dead_workers.items():
            certain_updates, possible_updates = replay.read_unacked(
                self._parts / replay.file_name(name, job), switch_numbers
            )
            total += certain_updates
            unknown_replays.append(possible_updates)
            if keys := int(np.count_nonzero(certain_updates)):
                self.keys_by_worker[name] = self.keys_by_worker.get(name, 0) + keys
        return total, unknown_replays


def values_at_servers(
    dumps: Iterable[dict[str, npt.NDArray[np.generic]]], job: int, space: KeySpace
) -> Values:
    sums = np.zeros(space.n_values, dtype=np.uint32)
    for dump in dumps:
        positions = space.positions(dump[f"job{job}_keys"].astype(np.uint64))
        sums[space.value_places(positions)] += dump[f"job{job}_sums"].astype(np.uint32)
    return sums


def _read_ledgers(session: RealSession, worker: int, job: int) -> list[ledger.Sums]:
    """Read the ledgers of all processes that had a worker's rank."""
    first, *later = [
        session.parts / f"ledger-worker-{worker}-job-{job}-epoch-{epoch}.bin"
        for epoch in session.worker_epochs.begin_epochs(worker)
    ]
    if not first.exists():
        raise RunFailed(
            f"worker-{worker} has left no ledger, so which of its pushes were applied is unknown, and the "
            "run is not accounted for"
        )
    # A process that was killed before it was ready may have none, and has pushed nothing.
    return [ledger.read(file) for file in (first, *filter(Path.exists, later))]


def _dump_file(agent: CommandTarget, session: RealSession) -> Path:
    return session.parts / f"dump-{agent.name}.npz"


def _read_arrays(file: Path) -> Arrays:
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}


def preserve_unaccounted_updates(run: Path, record: RunRecord) -> None:
    """Preserve the files of durable servers, unless all updates are accounted for."""
    unreplayed = {} if record.accounting is None else record.accounting.unreplayed
    for worker, keys in unreplayed.items():
        log.warning("%s died with unreplayed updates of %s", worker, pluralize(keys, "key"))
    if (record.accounting is None or unreplayed) and preserve_agent_files(run):
        log.warning("`./hotline recover %s --apply` adds unreplayed updates to the servers' files", run)
