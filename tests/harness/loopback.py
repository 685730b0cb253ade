"""Servers and a rendezvous in threads on loopback addresses, without root or a switch."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from experiment.worker_plan import AfterDeath
from foundation.designs.registry import design
from foundation.limits import WaitLimit, WallClockLimit
from foundation.protocol import addressing
from hotline_agents.designs import agents_of
from hotline_agents.ps.store import ShareContents
from hotline_scripts.embedding_tables import EmbeddingTables
from hotline_scripts.joined_worker import JoinedWorker
from hotline_scripts.keeper import Keeper, KeeperConfig
from hotline_scripts.kv import process_exit
from hotline_scripts.lines import Message
from hotline_scripts.rendezvous import Rendezvous
from hotline_scripts.script_session import Terms
from switch_harness.waiting import PATIENCE_S

T = TypeVar("T")
JOB = 7
N_PS, DESIGN = 2, "none"
NET = f"127.{os.getpid() % 250 + 1}.9"


class _Server:
    """A server in a thread; it ignores all datagrams while `mute`."""

    def __init__(self, ps: int, tables: EmbeddingTables, epoch: int) -> None:
        self.mute = False
        self._core = agents_of(design(DESIGN)).core(
            ps, N_PS, tables.space, {JOB: epoch}, time.monotonic_ns, tables=tables.optimisers
        )
        self._core.server.handle(b"", 0, 0)  # compiles, before a client waits for an answer
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._socket.getsockname()
        self._is_ending = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._is_ending = True
        self._socket.sendto(b"", self.address)  # ends the wait of the thread
        self._thread.join()
        self._socket.close()

    def contents(self) -> ShareContents:
        return self._core.stores[JOB].contents()

    def _run(self) -> None:
        while True:
            datagram, source = self._socket.recvfrom(2048)
            if self._is_ending:
                return
            if self.mute:
                continue
            now = time.monotonic_ns()
            answered = self._core.server.handle(datagram, now, now)
            if answered is not None:
                self._socket.sendto(answered[1], source)


class LoopbackCluster:
    """A `hotline_scripts.script_session.Backend` whose servers are threads."""

    def __init__(self, size: int) -> None:
        self.size, self.sessions = size, 0
        self.after_death: AfterDeath = "end"
        self.admitted: list[tuple[int, int]] = []
        """Rank and epoch of each worker that has taken another's rank."""
        self.servers: list[_Server] = []
        self._last_servers: list[_Server] = []
        self._tables = EmbeddingTables()
        self.parts: str | None = None
        self.checkpoint: Path | None = None
        """File from which sessions start, and to which they are written at their end."""
        self.keeper: Keeper | None = None
        self.silence_s = PATIENCE_S
        """Time in s after a worker's report of silent servers until the session is broken."""

    async def begin(self, tables: EmbeddingTables) -> Terms:
        self.sessions += 1
        self.servers = [_Server(ps, tables, self.sessions) for ps in range(N_PS)]
        self._last_servers, self._tables = self.servers, tables
        port = addressing.worker_udp_port(JOB)
        workers = [(f"{NET}.{rank + 1}", port) for rank in range(self.size)]
        peers = [server.address for server in self.servers]
        try:
            pushes = None if self.checkpoint is None else self._start_keeper(self.checkpoint, tables, peers)
        except BaseException:
            await self.end(None)
            raise
        return Terms(JOB, self.sessions, DESIGN, 32, peers, workers, "here", 1, self.parts, pushes)

    def _start_keeper(
        self, checkpoint: Path, tables: EmbeddingTables, peers: list[tuple[str, int]]
    ) -> Mapping[str, int] | None:
        address = (f"{NET}.{self.size + 1}", addressing.worker_udp_port(JOB))
        self.keeper = Keeper(
            KeeperConfig(
                rank=self.size, job=JOB, epoch=self.sessions, design=DESIGN, window=32, address=address,
                peers=peers, tables=tables.to_declaration(),
            )
        )  # fmt: skip
        return self.keeper.restore(str(checkpoint)) if checkpoint.exists() else None

    async def admit(self, rank: int, epoch: int) -> None:
        """Note the epoch; there is no switch."""
        self.admitted.append((rank, epoch))

    def limit_silence(self, servers: Sequence[int]) -> WaitLimit:
        return WallClockLimit(self.silence_s)

    async def publish(self) -> None:
        """Do nothing: without a switch, pulls return all updates."""

    async def end(self, pushes: Mapping[str, int] | None) -> None:
        if self.keeper is not None:
            if pushes is not None:
                self.keeper.save(str(self.checkpoint), dict(pushes))
            self.keeper.close()
            self.keeper = None
        for server in self.servers:
            server.end()
        self.servers = []

    def values(self) -> NDArray[np.uint32]:
        """Return the values of all tables, one after the other, at the servers of the last session."""
        space, tables = self._tables.space, self._tables.values()
        values = np.zeros(space.n_values, np.uint32)
        for server in self._last_servers:
            contents = server.contents()
            values[space.value_places(contents.keys.astype(np.int64))] = contents.values
        places = [space.value_places(table.positions(np.arange(table.rows))) for table in tables]
        return np.concatenate([table.strip(values[each]) for table, each in zip(tables, places, strict=True)])


class RunningRendezvous:
    """A rendezvous with its loop in a thread; `cluster` replaces the default `LoopbackCluster`."""

    def __init__(self, place: Path, size: int, cluster: Any = None) -> None:
        self.place = place
        self.cluster: LoopbackCluster = cluster or LoopbackCluster(size)
        self.reports: list[Message] = []
        self.joined_workers: list[JoinedWorker] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.rendezvous = self.do(self._make())
        self._open = self.rendezvous.listen(place)
        self.do(self._open.__aenter__())

    async def _make(self) -> Rendezvous:
        return Rendezvous(self.cluster, self.reports.append, self.joined_workers.append)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result()

    def send_command(self, joined: JoinedWorker, what: str, **values: object) -> Message | None:
        """Send a command and return its answer; None if the worker leaves first."""

        async def give() -> Message | None:
            return await asyncio.wait_for(joined.send_command(what, **values), PATIENCE_S)

        return self.do(give())

    @property
    def is_idle(self) -> bool:
        """Whether no session is under way, and the servers of the last one have ended."""
        end_task = self.rendezvous._end_task
        return self.rendezvous.workers == 0 and (end_task is None or end_task.done())

    @property
    def waiting_ranks(self) -> list[int]:
        """Ranks of the requests that wait at the barrier."""
        session = self.rendezvous._session
        return (
            []
            if session is None or session.barrier is None
            else [each.rank for each in session.barrier.waiting]
        )

    def break_session(self, reason: str) -> None:
        self._loop.call_soon_threadsafe(self.rendezvous.mark_broken, reason)

    def end(self) -> None:
        if self._loop.is_closed():
            return
        self.do(self._open.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def running_rendezvous(folder: Path, size: int = 2, cluster: Any = None) -> Iterator[RunningRendezvous]:
    made = RunningRendezvous(folder / "up.sock", size, cluster)
    try:
        yield made
    finally:
        made.end()
        process_exit.forget_losses()
