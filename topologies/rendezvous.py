"""Where the workers of somebody's scripts meet: ranks, tables, barriers, and who is gone.

JSON lines over a Unix socket. A request has an `id`, which its answer repeats; an answer has an `error` where
it failed, and with `gone` that is for good. Lines without an `id` are news: `gone`, for everybody.

The first that joins declares the tables, and servers are started for them. When the last has left, the
session is over, and what it trained is gone with the servers: the next that joins begins another.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from foundation.errors import HotlineError
from topologies.embedding_tables import Tables, declare
from topologies.joined_worker import JoinedWorker, Message, send

log = logging.getLogger(__name__)

DEFAULT_SOCKET = Path("/run/hotline/up.sock")
SOCKET_VARIABLE = "HOTLINE_CONNECT"
"""Names another place."""
RANK_VARIABLE = "HOTLINE_RANK"
"""Rank of a worker that names none."""
_CREDENTIALS = struct.Struct("3i")


class Refused(HotlineError):
    """A request that is not done; who asked may go on."""


class Over(HotlineError):
    """A request that cannot be done in this session any more."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What all workers of a session are told."""

    job: int
    epoch: int
    design: str
    window: int
    peers: list[tuple[str, int]]
    """Where each server is reached."""
    workers: list[tuple[str, int]]
    """Where each worker binds its socket, by rank."""
    arm: str
    seed: int
    parts: str | None = None
    """Folder of the workers' logs, in a run, which also orders when their calls are let through."""


class Cluster(Protocol):
    """Switch and servers, as sessions use them."""

    @property
    def size(self) -> int:
        """Workers of a session."""
        ...

    async def begin(self, parameters: int) -> Terms:
        """Start servers with so many parameters, all 0; raises `HotlineError`."""
        ...

    async def end(self) -> None:
        """End them; the next session's are fresh. Raises `HotlineError`."""
        ...


@dataclass(eq=False, slots=True)
class _Session:
    """From the first that joins until the last has left."""

    tables: Tables
    terms: Terms
    joined_workers: dict[int, JoinedWorker] = field(default_factory=dict)
    given: set[int] = field(default_factory=set)
    """Ranks that somebody has, or had."""
    gone: str | None = None
    """Why barriers cannot be reached any more."""
    broken: str | None = None
    """Why nobody can go on."""
    barrier: list[asyncio.Future[None]] = field(default_factory=list)
    """Who waits in it."""
    setters: dict[str, int] = field(default_factory=dict)
    """Table -> the rank that sets it."""
    set: dict[str, asyncio.Future[None]] = field(default_factory=dict)
    """Table -> done when it is set."""

    def cannot_go_on(self, why: str) -> None:
        """Let nobody wait in vain."""
        waiting = [*self.barrier, *self.set.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(Over(why))
                future.exception()  # nobody may be waiting, and that is no error
        self.barrier.clear()


class Rendezvous:
    """One session at a time, of `cluster.size` workers at most.

    `told` gets what workers report, `joined` each worker that has joined.
    """

    def __init__(
        self,
        cluster: Cluster,
        told: Callable[[Message], None] = lambda report: None,
        joined: Callable[[JoinedWorker], None] = lambda worker: None,
    ) -> None:
        self._cluster = cluster
        self._told = told
        self._joined = joined
        self._session: _Session | None = None
        self._changing = asyncio.Lock()
        """Held while servers are started."""
        self._ending: asyncio.Future[None] | None = None
        """Of the last session's servers."""
        self._connections: set[asyncio.Task[None]] = set()
        self.ended = asyncio.Event()
        """Somebody has asked for the end."""

    @asynccontextmanager
    async def at(self, place: Path) -> AsyncIterator[None]:
        """Answer at a Unix socket, which whoever is on this machine may use; at the end it is removed."""
        place.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._connected, place)
        try:
            place.chmod(0o666)
            yield
        finally:
            server.close()
            place.unlink(missing_ok=True)
            for connection in self._connections:
                connection.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
            if self._ending is not None:
                await self._ending

    def broken(self, why: str) -> None:
        """A server or the switch has ended: tell everybody."""
        session = self._session
        if session is None or session.broken:
            return
        log.warning("%s", why)
        session.broken = f"{why}; close all workers and start them again: what was trained is lost"
        session.cannot_go_on(session.broken)
        for worker in session.joined_workers.values():
            send(worker.writer, {"gone": session.broken})

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        conversation = _Conversation(self, reader, writer)
        try:
            await conversation.run()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            self.leave(conversation.worker, "has ended without leaving")
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def join(self, tables: Tables, rank: int | None, writer: asyncio.StreamWriter) -> JoinedWorker:
        """Take a worker into the session, or begin one with it."""
        async with self._changing:
            if self._ending is not None:
                await asyncio.shield(self._ending)
            session = self._session
            if session is None:
                _check_rank(rank, set(), self._cluster.size)
                session = _Session(tables, await self._cluster.begin(tables.size))
                self._session = session
                told = (f"{name}: {each}" for name, each in tables.items())
                log.info("a session begins: %s", "; ".join(told))
            elif difference := tables.differs_from(session.tables):
                raise Refused(difference)
            elif why := session.broken or session.gone:
                raise Refused(
                    f"a session is under way that cannot go on ({why}): end all of its workers first"
                )
            else:
                _check_rank(rank, session.given, self._cluster.size)
            taken = min(set(range(self._cluster.size)) - session.given) if rank is None else rank
            session.given.add(taken)
            worker = session.joined_workers[taken] = JoinedWorker(taken, writer)
            log.info("worker %d has joined", taken)
            self._joined(worker)
            return worker

    def leave(self, worker: JoinedWorker | None, how: str | None = None) -> None:
        """Let a worker go; the others are told `how`, if that was not in order."""
        session = self._session
        if worker is None or session is None or session.joined_workers.get(worker.rank) is not worker:
            return
        del session.joined_workers[worker.rank]
        worker.leave(is_in_order=how is None)
        log.info("worker %d %s", worker.rank, how or "has left")
        session.gone = session.gone or f"worker {worker.rank} {how or 'has left'}"
        if how is None:
            session.cannot_go_on(f"{session.gone}, and is not waited for; let all workers call barrier alike")
        else:
            session.cannot_go_on(f"{session.gone}; close this worker, and start all of them again")
        if not session.joined_workers:
            self._session = None
            self._ending = asyncio.ensure_future(self._end_session())

    async def _end_session(self) -> None:
        log.info("the session is over")
        try:
            await self._cluster.end()
        except HotlineError as error:
            log.warning("%s", error)
            self.ended.set()

    async def barrier(self, worker: JoinedWorker) -> None:
        """Wait until all workers are in it."""
        session = self._of(worker)
        if session.gone:
            raise Over(f"{session.gone}; close this worker, and start all of them again")
        here = asyncio.get_running_loop().create_future()
        session.barrier.append(here)
        if len(session.barrier) == self._cluster.size:
            for each in session.barrier:
                each.set_result(None)
            session.barrier.clear()
        await here

    async def init(self, worker: JoinedWorker, name: str) -> bool:
        """Whether this worker is to set a table; if not, wait until who does has done it."""
        session = self._of(worker)
        session.tables.named(name)
        if name not in session.setters:
            session.setters[name] = worker.rank
            session.set[name] = asyncio.get_running_loop().create_future()
            return True
        setter = session.setters[name]
        if setter not in session.joined_workers and not session.set[name].done():
            raise Over(f"worker {setter}, which was to set table {name}, is gone; start all workers again")
        await asyncio.shield(session.set[name])
        return False

    def has_set(self, worker: JoinedWorker, name: str) -> None:
        """A table is set."""
        session = self._of(worker)
        if session.setters.get(name) != worker.rank:
            raise Refused(f"table {name} is not set by worker {worker.rank}")
        if not session.set[name].done():
            session.set[name].set_result(None)

    def report(self, worker: JoinedWorker, values: Message) -> None:
        """Hand on what a worker tells of its training."""
        self._told({"rank": worker.rank, "report": worker.reports, **values})
        worker.reports += 1

    def terms_for(self, worker: JoinedWorker) -> Message:
        """What a worker is told when it has joined."""
        session = self._of(worker)
        terms = session.terms
        return {
            "rank": worker.rank,
            "size": self._cluster.size,
            "job": terms.job,
            "epoch": terms.epoch,
            "design": terms.design,
            "window": terms.window,
            "peers": terms.peers,
            "arm": terms.arm,
            "seed": terms.seed,
            "parts": terms.parts,
            "address": terms.workers[worker.rank],
        }

    @property
    def workers(self) -> int:
        """That are in the session."""
        return 0 if self._session is None else len(self._session.joined_workers)

    def _of(self, worker: JoinedWorker) -> _Session:
        session = self._session
        if session is None or session.joined_workers.get(worker.rank) is not worker:
            raise Over("the session of this worker is over")
        if session.broken:
            raise Over(session.broken)
        return session


class _Conversation:
    """With one connection: a worker's, or that of who asks for the end."""

    def __init__(
        self, rendezvous: Rendezvous, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._rendezvous, self._reader, self._writer = rendezvous, reader, writer
        self.worker: JoinedWorker | None = None
        self._answering: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until the other side closes it. Requests that wait do not hold up those behind them."""
        try:
            while line := await self._reader.readline():
                task = asyncio.ensure_future(self._answer(line))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
        except ValueError:  # a line without an end
            return
        finally:
            for task in self._answering:
                task.cancel()

    async def _answer(self, line: bytes) -> None:
        number = None
        try:
            request = json.loads(line)
            number, command = request.pop("id", None), request.pop("cmd", None)
            answer = await self._do(command, request)
        except Over as error:
            answer = {"error": str(error), "gone": True}
        except HotlineError as error:
            answer = {"error": str(error)}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            answer = {"error": f"not understood: {line[:80].decode(errors='replace').strip()} ({error})"}
        if number is not None:
            send(self._writer, {"id": number, **answer})

    async def _do(self, command: object, given: Message) -> Message:
        rendezvous = self._rendezvous
        if command == "who":
            return {"pid": os.getpid(), "workers": rendezvous.workers}
        if command == "down":
            _check_owner(self._writer)
            rendezvous.ended.set()
            return {"pid": os.getpid(), "workers": rendezvous.workers}
        if command == "join":
            if self.worker is not None:
                raise Refused(f"this is worker {self.worker.rank} already")
            self.worker = await rendezvous.join(declare(given["tables"]), given.get("rank"), self._writer)
            return rendezvous.terms_for(self.worker)
        if self.worker is None:
            raise Refused(f"{command!r}: join first")
        return await self._do_for(self.worker, command, given)

    async def _do_for(self, worker: JoinedWorker, command: object, given: Message) -> Message:
        rendezvous = self._rendezvous
        if command == "barrier":
            await rendezvous.barrier(worker)
        elif command == "init":
            return {"mine": await rendezvous.init(worker, given["table"])}
        elif command == "set":
            rendezvous.has_set(worker, given["table"])
        elif command == "report":
            rendezvous.report(worker, given)
        elif command == "steps":
            worker.tells(int(given["steps"]))
        elif command == "done":
            worker.has_done(given.pop("order"), given)
        elif command == "leave":
            for name, values in given.get("saturated", {}).items():
                log.warning("worker %d: %d values of table %s were saturated", worker.rank, values, name)
            worker.last = given
            rendezvous.leave(worker)
        else:
            raise Refused(f"{command!r} is no request")
        return {}


def _check_rank(rank: int | None, given: set[int], size: int) -> None:
    if rank is not None and (not isinstance(rank, int) or not 0 <= rank < size):
        raise Refused(f"rank = {rank!r}: this session has the ranks 0..{size - 1}; `workers` sets how many")
    if rank in given:
        raise Refused(f"rank = {rank}: another worker has it, or had it; ranks are given once in a session")
    if len(given) == size:
        raise Refused(
            f"all {size} ranks of this session are given; wait until its workers have left, or set `workers`"
        )


def _check_owner(writer: asyncio.StreamWriter) -> None:
    """Only who started it may end it, and root."""
    sock = writer.get_extra_info("socket")
    _, user, _ = _CREDENTIALS.unpack(
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    )
    if user not in (0, os.getuid()):
        raise Refused("it was started by root, who alone may end it: `sudo ./hotline down`")
