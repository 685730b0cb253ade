"""What a run that ended early has left in files, brought server: to the servers' own, by their own code.

Servers recover from their files and take server what the switch had of them, which is gone; workers' replay
logs are pushed. Nobody else is there: an RPC is answered before anything else happens.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from pydantic import BaseModel

from foundation.designs.registry import design
from foundation.protocol import control
from foundation.protocol.codec import Caller
from foundation.protocol.control import Command, Control
from hosts.agent import load_config
from hosts.designs import AGENTS
from hosts.errors import AgentConfigError
from hosts.keys import KeySpace
from hosts.ps.config import PsConfig
from hosts.ps.core import Core
from hosts.ps.durable import Durable
from hosts.ps.journal import JOURNAL_BYTES
from hosts.udp import BURST
from hosts.worker import ledger, replay
from hosts.worker.client import BaseClient
from hosts.worker.config import WorkerConfig
from hosts.worker.ledger import mismatches
from hosts.worker.replay import ReplayLog
from hosts.worker.trainer import Replay

M = TypeVar("M", bound=BaseModel)
FOLDER = "owed"
"""Of a run, for what its agents persist: files of servers, and of workers their replay logs and ledgers."""
KEYS = "keys.npy"
_AGENTS = "logs"
"""Of a run, with the agents' configurations."""


class Unreplayed(NamedTuple):
    """What a worker's file unreplayed the servers in a job."""

    worker: str
    job: int
    keys: int


class CrashedRun:
    """The files of a run; `AgentConfigError` where it has left none."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        if not (run / "run.json").is_file():
            raise AgentConfigError(f"{run}: not a run folder, there is no run.json")
        if not self.folder.is_dir():
            raise AgentConfigError(f"{run}: has no folder {FOLDER}: of this run nothing is owed")
        self.servers = _configs(run, "ps-*.json", PsConfig)
        self.workers = _configs(run, "worker-*.json", WorkerConfig)
        first = self.servers[0]
        self.space = KeySpace(first.parameters) if first.parameters else KeySpace.load(self.folder / KEYS)
        self.jobs = [job.job for job in first.jobs]

    def unreplayed(self) -> list[Unreplayed]:
        """Return the updates that a lost switch leaves unreplayed, without empty ones."""
        found = []
        for config in self.workers:
            name = f"worker-{config.number}"
            for job in self.jobs:
                owed = replay.read_unacked(self.folder / replay.file_name(name, job), replay.NO_SWITCH)
                found.append(Unreplayed(name, job, int(np.count_nonzero(owed.sure))))
        return [each for each in found if each.keys]

    def recover(self) -> int:
        """Give the servers all that is owed; how many keys differ then from what workers have pushed.

        All is done to copies, which take the place of the files at the end.
        """
        partial, before = (self.folder.with_suffix(f".{name}") for name in ("partial", "before"))
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(self.folder, partial)
        with ExitStack() as stack:
            servers = [
                stack.enter_context(closing(_OfflineServer(config, self.space, partial)))
                for config in self.servers
            ]
            for config in self.workers:
                for job in config.jobs:
                    _replay(servers, config, job.job, self.space, partial)
            differ = sum(self._differing(servers, job) for job in self.jobs)
        self.folder.rename(before)
        partial.rename(self.folder)
        shutil.rmtree(before)
        return differ

    def _differing(self, servers: list[_OfflineServer], job: int) -> int:
        held = np.zeros(self.space.size, np.uint32)
        for server in servers:
            mine = server.core.stores[job].held()
            held[self.space.positions(mine.keys)] += mine.values
        ledgers = [ledger.read(file) for file in self._of_job("ledger", job)]
        logs = (replay.read_unacked(file, replay.NO_SWITCH) for file in self._of_job("replay", job))
        uncertain = [*(sums.unknown for sums in ledgers), *(np.negative(log.unknown) for log in logs)]
        return mismatches([sums.sent for sums in ledgers], uncertain, held)

    def _of_job(self, kind: str, job: int) -> list[Path]:
        return sorted(self.folder.glob(f"{kind}-worker-*-job-{job}*.bin"))


class _OfflineServer:
    """A server in the middle of nowhere, which has taken server what its switch had."""

    def __init__(self, config: PsConfig, space: KeySpace, folder: Path) -> None:
        if config.durable is None:
            raise AgentConfigError(f"PS {config.ps} of this run kept nothing (recovery.durable)")
        epochs = {job.job: job.epoch for job in config.jobs}
        self.core: Core[None] = AGENTS.of(design(config.design)).core(
            config.ps, config.n_ps, space, epochs, time.monotonic_ns,
            journal_bytes=JOURNAL_BYTES, replayed=config.recovery.replay_log,
        )  # fmt: skip
        kept = config.durable
        self._file = Durable(
            folder / kept.file.name, config.identity(), config.fsync, round(kept.checkpoint_mb * 2**20)
        )
        self.core.recover(self._file.parts(), self._file.notes())
        now = time.time_ns() // 1_000_000 % 2**32
        for job in epochs:
            renewal = Control(Command.RENEW, job, config.ps, now, 0, np.array([now], np.uint64))
            self.core.command(control.build(renewal), None)
        self.persist()

    def answer(self, datagram: bytes) -> bytes:
        """The answer to an RPC, of which all that it changes is kept."""
        now = time.monotonic_ns()
        answered = self.core.server.handle(datagram, now, now)
        assert answered is not None, "an RPC of ours is well-formed, and of a job that is known"
        if self.core.server.state.header.noted > JOURNAL_BYTES // BURST:
            self.persist()
        return answered[1]

    def persist(self) -> None:
        """Keep what has been noted."""
        self._file.append(self.core.server.notes)
        self.core.server.forget_notes()

    def close(self) -> None:
        """Keep it all, and close the file."""
        self.persist()
        self._file.close()


def _replay(
    servers: list[_OfflineServer], config: WorkerConfig, job: int, space: KeySpace, folder: Path
) -> None:
    """Push what a worker's log has, as the worker would; afterwards it unreplayed nothing."""
    path = folder / replay.file_name(f"worker-{config.number}", job)
    log = ReplayLog.reopen(path, replay.NO_SWITCH)
    # An epoch that none of its own RPCs can have had.
    caller = Caller(job, config.number, time.time_ns() // 1_000_000 % 2**32)
    make = AGENTS.of(design(config.design)).client
    client: BaseClient = make(caller, config.n_ps, space, time.monotonic_ns, largest=log.capacity, log=log)
    driver = Replay(client)
    while not driver.finished:
        driver.wake(time.monotonic_ns())
        for ps, request in _sent(client):
            now = time.monotonic_ns()
            client.receive(servers[ps].answer(request), now, now)


def _sent(client: BaseClient) -> Iterator[tuple[int, bytes]]:
    while (out := client.transmit()) is not None:
        yield out[1], bytes(out[0])


def _configs(run: Path, files: str, model: type[M]) -> list[M]:
    return [load_config(file, model) for file in sorted((run / _AGENTS).glob(files))]
