"""Recover the updates that an aborted run left in its files, and apply them to the servers' stores."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel

from foundation.designs.registry import design
from foundation.protocol import control
from foundation.protocol.codec import Caller, Keys
from foundation.protocol.control import Command, Control
from hosts.agent import load_config
from hosts.config import AgentConfigError
from hosts.designs import agents_of
from hosts.keys import KeySpace
from hosts.ps.config import PsConfig
from hosts.ps.core import Core
from hosts.ps.durable import DurableFile
from hosts.ps.journal import JOURNAL_BYTES
from hosts.udp import BURST
from hosts.worker import ledger, replay
from hosts.worker.client import BaseClient
from hosts.worker.config import WorkerConfig
from hosts.worker.ledger import count_mismatches
from hosts.worker.replay import ReplayLog
from hosts.worker.trainer import Replay

M = TypeVar("M", bound=BaseModel)
UNREPLAYED_FOLDER = "unreplayed"
"""Folder of a run with the files of its servers, and the replay logs and ledgers of its workers."""
KEYS_FILE = "keys.npy"
_MAX_UNPERSISTED_BYTES = JOURNAL_BYTES // BURST  # leaves room for the notes of a burst in the journal
_AGENT_CONFIGS = "logs"  # folder of a run with the agents' configurations


class UnreplayedCount(NamedTuple):
    worker: str
    job: int
    keys: int


class CrashedRun:
    """The files that a run left behind; raise `AgentConfigError` if there are none."""

    def __init__(self, run: Path) -> None:
        self.folder = run / UNREPLAYED_FOLDER
        if not (run / "run.json").is_file():
            raise AgentConfigError(f"{run}: not a run folder, there is no run.json")
        if not self.folder.is_dir():
            raise AgentConfigError(
                f"{run}: found no folder {UNREPLAYED_FOLDER}: this run left no updates to recover"
            )
        self.servers = _load_configs(run, "ps-*.json", PsConfig)
        self.workers = _load_configs(run, "worker-*.json", WorkerConfig)
        first_config = self.servers[0]
        size = first_config.parameters
        self.space = KeySpace(size) if size else KeySpace.load(self.folder / KEYS_FILE)
        self.jobs = [job.job for job in first_config.jobs]

    def unreplayed(self) -> list[UnreplayedCount]:
        """Return the number of keys with unreplayed updates in each replay log that has any."""
        counts = []
        for config in self.workers:
            name = f"worker-{config.number}"
            for job in self.jobs:
                file = self.folder / replay.file_name(name, job)
                lost_updates = replay.read_unacked(file, replay.NO_SWITCH).lost
                counts.append(UnreplayedCount(name, job, int(np.count_nonzero(lost_updates))))
        return [count for count in counts if count.keys]

    def recover(self) -> int:
        """Replay all unreplayed updates; return the number of keys whose sums differ from the ledgers."""
        # All changes are made to copies, which replace the files at the end.
        partial_copy, backup = (self.folder.with_suffix(f".{name}") for name in ("partial", "before"))
        shutil.rmtree(partial_copy, ignore_errors=True)
        shutil.copytree(self.folder, partial_copy)
        with ExitStack() as stack:
            servers = [
                stack.enter_context(closing(_OfflineServer(config, self.space, partial_copy)))
                for config in self.servers
            ]
            for config in self.workers:
                for job_config in config.jobs:
                    _replay(servers, config, job_config.job, self.space, partial_copy)
            for server in servers:
                for job in self.jobs:
                    server.settle(job)
            n_mismatches = sum(self._count_mismatches(servers, job) for job in self.jobs)
        self.folder.rename(backup)
        partial_copy.rename(self.folder)
        shutil.rmtree(backup)
        return n_mismatches

    def _count_mismatches(self, servers: list[_OfflineServer], job: int) -> int:
        stored_sums = np.zeros(self.space.size, np.uint32)
        for server in servers:
            contents = server.core.stores[job].contents()
            stored_sums[self.space.positions(contents.keys)] += contents.sums
        ledgers = [ledger.read(file) for file in self._files_of_workers("ledger", job)]
        logs = (replay.read_unacked(file, replay.NO_SWITCH) for file in self._files_of_workers("replay", job))
        uncertain_deltas = [*(sums.unknown for sums in ledgers), *(np.negative(log.unknown) for log in logs)]
        return count_mismatches([sums.sent for sums in ledgers], uncertain_deltas, stored_sums)

    def _files_of_workers(self, kind: str, job: int) -> list[Path]:
        return sorted(self.folder.glob(f"{kind}-worker-*-job-{job}*.bin"))


class _OfflineServer:
    def __init__(self, config: PsConfig, space: KeySpace, folder: Path) -> None:
        if config.durable is None:
            raise AgentConfigError(
                f"PS {config.ps}: expected a run with recovery.journal_sync, got one without persisted state"
            )
        epochs = {job.job: job.epoch for job in config.jobs}
        self.core: Core[None] = agents_of(design(config.design)).core(
            config.ps, config.n_ps, space, epochs, time.monotonic_ns,
            journal_bytes=JOURNAL_BYTES, has_replay_logs=config.recovery.replay_log,
            **({"tables": config.tables} if config.tables else {}),
        )  # fmt: skip
        durable = config.durable
        file, max_journal_bytes = folder / durable.file.name, round(durable.checkpoint_mb * 2**20)
        self._file = DurableFile(file, config.identity(), config.fsync, max_journal_bytes)
        try:
            self._restore(epochs)
        except BaseException:
            self._file.close()
            raise

    def _restore(self, jobs: Iterable[int]) -> None:
        self.core.recover(self._file.parts(), self._file.notes())
        self._epoch = _new_epoch()
        for job in jobs:
            self._command(job, Command.RENEW, np.array([self._epoch], np.uint64))
        self.persist()

    def settle(self, job: int) -> None:
        self._command(job, Command.SETTLE, np.array([self._epoch], np.uint64))

    def _command(self, job: int, command: Command, keys: Keys) -> None:
        seq = int(command)  # SETTLE's is larger than RENEW's: a later command needs a later number
        datagram = control.build(Control(command, job, self.core.ps, self._epoch, seq, keys))
        self.core.command(datagram, source=None)

    def answer(self, datagram: bytes) -> bytes:
        now = time.monotonic_ns()
        result = self.core.server.handle(datagram, arrival=now, read=now)
        assert result is not None, "expected an answer: the RPC is well-formed, and its job is known"
        if self.core.server.state.header.journal_length > _MAX_UNPERSISTED_BYTES:
            self.persist()
        _job, answer = result
        return answer

    def persist(self) -> None:
        self._file.append(self.core.server.notes)
        self.core.server.forget_notes()

    def close(self) -> None:
        with closing(self._file):
            self.persist()


def _replay(
    servers: list[_OfflineServer], config: WorkerConfig, job: int, space: KeySpace, folder: Path
) -> None:
    path = folder / replay.file_name(f"worker-{config.number}", job)
    log = ReplayLog.reopen(path, replay.NO_SWITCH)
    caller = Caller(job, config.number, _new_epoch())
    make_client = agents_of(design(config.design)).client
    client: BaseClient = make_client(
        caller, config.n_ps, space, time.monotonic_ns, max_keys=log.capacity, log=log
    )
    replay_driver = Replay(client)
    while not replay_driver.finished:
        replay_driver.wake(time.monotonic_ns())
        for request, ps in iter(client.transmit, None):
            now = time.monotonic_ns()
            client.receive(servers[ps].answer(bytes(request)), arrival=now, read=now)


def _new_epoch() -> int:
    # The time in ms: no agent of the run can have used this epoch.
    return time.time_ns() // 1_000_000 % 2**32


def _load_configs(run: Path, files: str, model: type[M]) -> list[M]:
    folder = run / _AGENT_CONFIGS
    configs = [load_config(file, model) for file in sorted(folder.glob(files))]
    if not configs:
        raise AgentConfigError(
            f"{folder}: expected the configurations {files} of the run's agents, found none"
        )
    return configs
