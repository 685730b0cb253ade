"""Recover the updates that an aborted run left in its files, and apply them to the servers' stores."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel

from foundation.designs.registry import design
from foundation.errors import DataError
from foundation.folders import changed_copy, finish_replacement, hold_folder_lock
from foundation.protocol import control
from foundation.protocol.codec import Caller
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.header import PS_BITS, unpack
from hosts import ledger, replay
from hosts.agent import load_config
from hosts.agent_config import AgentConfigError
from hosts.keys import KeySpace
from hosts.ledger import count_mismatches
from hosts.ps_config import PsConfig
from hosts.replay import ReplayLog
from hosts.succession import read_unsettled
from hosts.unreplayed import KEYS_FILE, UNREPLAYED_FOLDER, has_agent_files
from hosts.worker_config import WorkerConfig
from hotline_agents.designs import agents_of
from hotline_agents.ps.durable import DurabilityPaused, DurableFile
from hotline_agents.ps.journal import JOURNAL_BYTES
from hotline_agents.ps.rpcs import WORKER_BITS
from hotline_agents.ps.server_core import ServerCore
from hotline_agents.udp import BURST
from hotline_agents.worker.client import BaseClient
from hotline_agents.worker.trainer import Replay

M = TypeVar("M", bound=BaseModel)
_MAX_UNPERSISTED_BYTES = JOURNAL_BYTES // BURST  # leaves room for the notes of a burst in the journal
_AGENT_CONFIGS = "logs"  # folder of a run with the agents' configurations
_CONTROLLER = "controller"  # destination of the answers to commands, which are read here
_MAGIC_BYTES = 8  # at the start of workers' files


class UnreplayedCount(NamedTuple):
    worker: str
    job: int
    keys: int


@contextmanager
def open_crashed_run(run: Path) -> Iterator[CrashedRun]:
    """Lock the files that a run left behind; raise `AgentConfigError` if there are none."""
    if not (run / "run.json").is_file():
        raise AgentConfigError(f"{run}: not a run folder, there is no run.json")
    with hold_folder_lock(run, "another `hotline recover`"):
        folder = run / UNREPLAYED_FOLDER
        finish_replacement(folder)
        if has_agent_files(run):
            raise AgentConfigError(
                f"{run}: this run is going on, or was killed; `make clean` or the next run tidies the folder "
                "of a killed run, and then it can be recovered"
            )
        if not folder.is_dir():
            raise AgentConfigError(
                f"{run}: found no folder {UNREPLAYED_FOLDER}: this run left no updates to recover"
            )
        yield CrashedRun(run)


class CrashedRun:
    """The files that a run left behind, locked by `open_crashed_run`."""

    def __init__(self, run: Path) -> None:
        self.folder = run / UNREPLAYED_FOLDER
        self.servers = _load_configs(run, "ps-*.json", PsConfig)
        self.workers = _load_configs(run, "worker-*.json", WorkerConfig)
        if not self.servers or len(self.servers) < self.servers[0].n_ps:
            raise AgentConfigError(
                f"{run / _AGENT_CONFIGS}: expected the configurations of all servers, "
                f"got {len(self.servers)}: the run ended before its workers began"
            )
        first_config = self.servers[0]
        if first_config.keys is not None:
            first_config = first_config.model_copy(update={"keys": self.folder / KEYS_FILE})
        self.space = first_config.key_space()
        self.jobs = [job.job for job in first_config.jobs]

    def unreplayed(self) -> list[UnreplayedCount]:
        """Return the number of keys with unreplayed updates in each replay log that has any."""
        counts = []
        for config in self.workers:
            name = f"worker-{config.number}"
            for job in self.jobs:
                for file in self._replay_logs(config, job):
                    lost_updates = replay.read_unacked(file, replay.NO_SWITCHES).lost
                    counts.append(UnreplayedCount(name, job, int(np.count_nonzero(lost_updates))))
        return [count for count in counts if count.keys]

    def recover(self) -> int:
        """Replay all unreplayed updates; return the number of keys whose sums differ from the ledgers.

        Raises `DataError`, and changes nothing, if the disk is full.
        """
        try:
            return self._recover()
        except DurabilityPaused as error:  # SQLite reports some full disks as I/O errors
            raise DataError(f"{self.folder}: not changed: {error}; the disk may be full") from error

    def _recover(self) -> int:
        with changed_copy(self.folder) as folder, ExitStack() as stack:
            servers = [
                stack.enter_context(closing(_OfflineServer(config, self.space, folder)))
                for config in self.servers
            ]
            for config in self.workers:
                for job in self.jobs:
                    for file in self._replay_logs(config, job):
                        _replay(servers, config, job, self.space, folder / file.name)
            for server in servers:
                for job in self.jobs:
                    server.settle(job)
            return sum(self._count_mismatches(servers, job, folder) for job in self.jobs)

    def _count_mismatches(self, servers: list[_OfflineServer], job: int, folder: Path) -> int:
        stored_sums = np.zeros(self.space.n_values, np.uint32)
        for server in servers:
            contents = server.core.stores[job].contents()
            places = self.space.value_places(self.space.positions(contents.keys))
            stored_sums[places] += contents.sums
        ledgers = [ledger.read(folder / file.name) for file in self._worker_files("ledger", job)]
        logs = [
            replay.read_unacked(folder / file.name, replay.NO_SWITCHES)
            for file in self._worker_files("replay", job)
        ]
        unknown_replays = [log.unknown for log in logs]
        for config in self.workers:
            unknown_replays += read_unsettled(folder / replay.file_name(f"worker-{config.number}", job))
        uncertain_deltas = [*(sums.unknown for sums in ledgers), *map(np.negative, unknown_replays)]
        return count_mismatches([sums.sent for sums in ledgers], uncertain_deltas, stored_sums, self.space)

    def _replay_logs(self, config: WorkerConfig, job: int) -> list[Path]:
        """Return the replay log of a worker, if it has one; raise `AgentConfigError` if it is missing."""
        worker = f"worker-{config.number}"
        files = self._worker_files("replay", job, worker)
        # A worker creates its ledger after its replay log.
        if config.recovery.replay_log and not files and self._worker_files("ledger", job, worker):
            file = self.folder / replay.file_name(worker, job)
            raise AgentConfigError(f"{file}: expected this replay log beside the worker's ledger, found none")
        return files

    def _worker_files(self, kind: str, job: int, worker: str = "worker-*") -> list[Path]:
        """Return the files of workers that had begun: others were killed while they created their files."""
        files = [*self.folder.glob(f"{kind}-{worker}-job-{job}.bin")]
        files += self.folder.glob(f"{kind}-{worker}-job-{job}-epoch-*.bin")
        return sorted(file for file in files if _has_magic_number(file))


class _OfflineServer:
    def __init__(self, config: PsConfig, space: KeySpace, folder: Path) -> None:
        if config.durable is None:
            raise AgentConfigError(
                f"PS {config.ps}: expected a run with recovery.journal_sync, got one without persisted state"
            )
        epochs = {job.job: job.epoch for job in config.jobs}
        self.core: ServerCore[str] = agents_of(design(config.design)).core(
            config.ps, config.n_ps, space, epochs, time.monotonic_ns,
            journal_bytes=JOURNAL_BYTES, has_replay_logs=config.recovery.replay_log,
            tables=config.tables, **({} if config.homes == 1 else {"homes": config.homes}),
        )  # fmt: skip
        durable = config.durable
        file, max_journal_bytes = folder / durable.file.name, round(durable.checkpoint_mb * 2**20)
        self._file = DurableFile(file, config.identity(), config.fsync, max_journal_bytes)
        self._homes = range(config.homes)
        self._switch_epochs: dict[tuple[int, int], int] = {}  # of the server, by job and home
        self._controller_epochs: dict[tuple[int, int], int] = {}  # of this controller, by job and home
        try:
            self._restore()
        except BaseException:
            self._file.close()
            raise

    def _restore(self) -> None:
        self.core.recover(self._file.parts(), self._file.notes())
        for job, home in product(self.core.stores, self._homes):
            # 0 is the epoch of a server that has no switch.
            self._switch_epochs[job, home] = (self.core.switch_epoch(job, home) + 1) % 2**32 or 1
            # A server answers when it has no row left at another home, to which it could not talk.
            self._command(job, home, Command.RENEW, is_answered=home == self._homes[-1])
        for job, home in product(self.core.stores, self._homes):
            self._command(job, home, Command.RENEW)
        self.persist()

    def settle(self, job: int) -> None:
        for home in self._homes:
            self._command(job, home, Command.SETTLE)

    def _command(self, job: int, home: int, command: Command, is_answered: bool = True) -> None:
        # The seq of a later command must be larger: SETTLE's is.
        epoch = self._controller_epochs.setdefault((job, home), secrets.randbits(32))
        keys = np.array([self._switch_epochs[job, home]], np.uint64)
        ps = self.core.ps | home << PS_BITS
        datagram = control.build(Control(command, job, ps, epoch, int(command), keys))
        self.core.command(datagram, source=_CONTROLLER)
        answers = [control.parse(answer) for answer, _ in self.core.control_answers()]
        statuses = [answer.status for answer in answers]
        if statuses == [Status.STALE]:  # the run's controller came before, and this one gets a later epoch
            self._controller_epochs[job, home] = int(answers[0].keys[0])
            self._command(job, home, command, is_answered)
        elif statuses != [Status.OK] and (statuses or is_answered):
            raise DataError(
                f"{self._file.file}: PS {self.core.ps} did not execute {command.name}: {statuses}"
            )

    def used_epochs(self, job: int, worker: int) -> set[int]:
        """Return the epochs of a worker whose RPCs the server has answered."""
        callers = self.core.server.state.callers
        workers = callers.caller & (1 << WORKER_BITS) - 1  # at all homes
        is_worker = (callers.in_use == 1) & (callers.job == job) & (workers == worker)
        return set(callers.epoch[is_worker].tolist())

    def answer(self, datagram: bytes) -> bytes:
        now = time.monotonic_ns()
        result = self.core.server.handle(datagram, arrival=now, read=now)
        assert result is not None, "expected an answer: the RPC is well-formed, and its job is known"
        if self.core.server.state.header.journal_length > _MAX_UNPERSISTED_BYTES:
            self.persist()
        _job, answer = result
        if unpack(answer).refused:
            raise DataError(f"{self._file.file}: PS {self.core.ps} refused keys that it had reclaimed")
        return answer

    def persist(self) -> None:
        self._file.append(self.core.server.notes)
        self.core.server.forget_notes()

    def close(self) -> None:
        with closing(self._file):
            self.persist()


def _replay(
    servers: list[_OfflineServer], config: WorkerConfig, job: int, space: KeySpace, file: Path
) -> None:
    log = ReplayLog.reopen(file, space, replay.NO_SWITCHES)
    used_epochs = set().union(*(server.used_epochs(job, config.number) for server in servers))
    epoch = max(used_epochs, default=0) + 1
    caller = Caller(job, config.number, epoch)
    make_client = agents_of(design(config.design)).client
    client: BaseClient = make_client(
        caller, config.n_ps, space, time.monotonic_ns, max_keys=log.capacity, log=log
    )
    client.set_home_index(config.home_index)
    replay_driver = Replay(client)
    while not replay_driver.finished:
        replay_driver.wake(time.monotonic_ns())
        for request, ps in iter(client.transmit, None):
            now = time.monotonic_ns()
            client.receive(servers[ps].answer(bytes(request)), arrival=now, read=now)


def _has_magic_number(file: Path) -> bool:
    with file.open("rb") as content:
        return any(content.read(_MAGIC_BYTES))


def _load_configs(run: Path, files: str, model: type[M]) -> list[M]:
    return [load_config(file, model) for file in sorted((run / _AGENT_CONFIGS).glob(files))]
