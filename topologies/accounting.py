"""The books of a run's processes: ledgers of workers, dumps of servers, registers of the switch."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from analysis.record import Accounting, RunRecord
from controller.designs import CONTROL
from experiment.config import EPOCH
from experiment.phases.accounting import Lanes, served_pushes, settle
from foundation.designs.registry import design
from foundation.logs.collector import Collector
from foundation.words import counted
from hosts.home import FOLDER, KEYS
from hosts.keys import KeySpace
from hosts.worker import ledger, replay
from topologies.agents import CommandTarget, call_all
from topologies.session import RealSession

log = logging.getLogger(__name__)

_UNREPLAYED_FILES = ("ps-*.db*", "replay-worker-*.bin", "ledger-worker-*.bin")

Values = npt.NDArray[np.uint32]
"""By position in the key space: (parameters,)."""


async def account(session: RealSession, space: KeySpace, collector: Collector) -> Accounting:
    """Compare the books of workers, parameter servers and switch. No RPC may be outstanding.

    Every agent writes its logs before, and every PS sends its statistics to the log collector.
    """
    return await session.steadily(partial(_account, session, space, collector))


async def _account(session: RealSession, space: KeySpace, collector: Collector) -> Accounting:
    sent, unknown, mismatched, at_servers, debts = 0, 0, 0, 0, UnreplayedUpdates(session)
    living = [agent for agent in (*session.workers, *session.servers) if agent.alive]
    dropped = sum(answer["dropped_rows"] for answer in await call_all(living, {"cmd": "flush"}))
    changed: list[str] = []
    control = CONTROL.of(design(session.config.design))
    with session.reporter.phase("accounting", len(session.config.every_arm)) as phase:
        is_lockstep = session.config.is_lockstep
        models = [await _dump(worker, "model", session) for worker in session.workers if is_lockstep]
        dumps = [await _dump(server, "dump", session) for server in session.servers if not is_lockstep]
        async with session.controller() as controller:
            for done, arm in enumerate(session.config.every_arm, start=1):
                if await control.is_changed(controller, arm):
                    changed.append(arm.name)
                sums = [
                    ledger.read(session.parts / f"ledger-worker-{number}-job-{arm.job}-epoch-{EPOCH}.bin")
                    for number in range(1, len(session.workers) + 1)
                ]
                sent += sum(each.lanes_sent + each.lanes_unknown for each in sums)
                unknown += sum(each.lanes_unknown for each in sums)
                owed, again = debts.of_job(arm.job, space.size)
                # What was acknowledged, and is with nobody but its worker's file, is not missing.
                uncertain = [*(each.unknown for each in sums), *(np.negative(each) for each in again)]
                at_switch = held_by_switch(await control.held(controller, arm), space)
                held = [model[f"job{arm.job}"] for model in models]
                if not is_lockstep:
                    held = [held_by_servers(dumps, arm.job, space) + at_switch + owed]
                sent_by = [each.sent for each in sums]
                mismatched += sum(ledger.mismatches(sent_by, uncertain, each) for each in held)
                unknown += sum(int(np.count_nonzero(each)) for each in again)
                at_servers += sum(int(dump[f"job{arm.job}_updates"].sum()) for dump in dumps)
                phase.update(done)
            overflows = await control.overflows(controller)
    lanes = Lanes(sent, unknown, at_servers, served_pushes(session.parts), mismatched)
    restarts = session.restarts()
    # Where whole vectors are added, rows do not tell whose lanes these were.
    is_logged = all(worker.alive for worker in session.workers) and not (dropped or restarts or is_lockstep)
    found = settle(lanes, is_logged)
    found.overflows, found.changed_arms, found.dropped_rows = overflows, changed, dropped
    found.restarts = restarts
    found.owed = debts.found
    found.collected, found.uncollected = collector.updates, at_servers - collector.updates
    return found


class UnreplayedUpdates:
    """What the replay logs of workers that have died owe the servers, where these keep any."""

    def __init__(self, session: RealSession) -> None:
        self._switch = session.network.switch.restarts
        self._logs = session.parts
        dead = [worker.name for worker in session.workers if not worker.alive]
        self._dead = dead if session.config.recovery.replay_log else []
        self.found: dict[str, int] = {}
        """Worker -> keys that it owes something of, over all jobs; those that owe nothing are left out."""

    def of_job(self, job: int, size: int) -> tuple[Values, list[Values]]:
        """What is owed by position in the key space, and what each of them may have pushed again."""
        owed, again = np.zeros(size, np.uint32), []
        for name in self._dead:
            sure, unknown = replay.read_owed(self._logs / replay.file_name(name, job), self._switch)
            owed += sure
            again.append(unknown)
            if keys := int(np.count_nonzero(sure)):
                self.found[name] = self.found.get(name, 0) + keys
        return owed, again


def held_by_servers(dumps: Iterable[dict[str, npt.NDArray[np.generic]]], job: int, space: KeySpace) -> Values:
    """Values of a job in the dumps of all parameter servers."""
    held = np.zeros(space.size, dtype=np.uint32)
    for dump in dumps:
        held[space.positions(dump[f"job{job}_keys"].astype(np.uint64))] += dump[f"job{job}_values"].astype(
            np.uint32
        )
    return held


def held_by_switch(values: Mapping[int, int], space: KeySpace) -> Values:
    """Values of the keys that the switch holds, by key."""
    held = np.zeros(space.size, dtype=np.uint32)
    keys = np.array(list(values), dtype=np.uint64)
    held[space.positions(keys)] = np.array(list(values.values()), dtype=np.int64).astype(np.uint32)
    return held


async def _dump(agent: CommandTarget, command: str, session: RealSession) -> dict[str, npt.NDArray[Any]]:
    """What an agent holds of each job."""
    file = session.parts / f"{command}-{agent.name}.npz"
    await agent.call({"cmd": command, "file": str(file)})
    with np.load(file) as arrays:
        return {name: arrays[name] for name in arrays.files}


def preserve_unreplayed_updates(run: Path, record: RunRecord) -> None:
    """Keep the agents' files where something is owed, and servers have kept theirs."""
    owed = {} if record.accounting is None else record.accounting.owed
    parts, into = run / "parts", run / FOLDER
    for worker, keys in owed.items():
        log.warning("%s owes the servers what it had pushed to %s", worker, counted(keys, "key"))
    if not owed or not any(parts.glob(_UNREPLAYED_FILES[0])):
        return
    into.mkdir()
    for pattern in _UNREPLAYED_FILES:
        for file in parts.glob(pattern):
            file.rename(into / file.name)
    sparse = run / "trace" / KEYS
    if sparse.exists():
        shutil.copyfile(sparse, into / KEYS)
    log.warning("`./hotline owed %s --bring-home` gives it to the servers' files", run)
