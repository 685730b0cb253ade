"""Coordinate the workers of scripts: ranks, tables, barriers, and news of lost processes.

The protocol is JSON lines over a Unix socket (`lines.py`). A request has an `id`, which its answer repeats;
what users name, such as metrics, is in fields of its own. An answer has an `error` if the request failed,
also if it had no `id`, and `gone` if it can never succeed in this session. A line with `gone` and without an
`id` goes to all workers. A line with `note` tells a worker why its request takes long. A `cancel` names a
`request` whose caller no longer waits: that request is withdrawn, and has no answer.

The first worker that joins declares the tables, and servers are started for them. When the last worker has
left, the session ends, and its model is lost with the servers unless a checkpoint has it (`checkpoints.py`).
The next worker that joins begins another session. `WorkersSession` says what a worker's death does to the
others. A worker that takes a rank which another has had is in a later epoch, so that neither switch nor
servers take the RPCs of one for the other's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from foundation.errors import HotlineError
from foundation.limits import wait_within
from hotline_scripts.embedding_tables import EmbeddingTables, parse_declaration
from hotline_scripts.joined_worker import JoinedWorker
from hotline_scripts.lines import (
    DEFAULT_SOCKET,
    MAX_LINE_BYTES,
    Message,
    RequestRefused,
    check_metrics,
    check_owner,
    check_rank,
    read_lines,
    send_line,
    socket_path,
)
from hotline_scripts.script_session import Backend, BarrierRound, SessionOver, TableSetting, WorkersSession
from topologies.script_command import SOCKET_VARIABLE
from topologies.testbed import LineWriter

log = logging.getLogger(__name__)
T = TypeVar("T")

REPORTS = "reports.jsonl"
NOTE_S = 5.0
"""Time after which a worker that waits for others gets a note with their names, in s."""
_TERMINATED = "was ended by SIGTERM"
_MAX_SHOWN_BYTES = 80  # of a request that is not understood


def down_command(machines: str | None) -> str:
    """Return the command that ends `hotline up` on this machine, or on those of a dask scheduler."""
    if machines is not None:
        return f"./hotline down MACHINES={machines}"
    path = socket_path()
    variable = "" if path == DEFAULT_SOCKET else f"{SOCKET_VARIABLE}={path} "
    return f"sudo {variable}./hotline down"


def append_report(path: Path, report: Message) -> None:
    with path.open("a") as file:
        file.write(json.dumps(report) + "\n")


class Rendezvous:
    """Accepts workers for one session at a time, at most `backend.size`; calls back for joins and reports."""

    def __init__(
        self,
        backend: Backend,
        on_report: Callable[[Message], None] = lambda report: None,
        on_join: Callable[[JoinedWorker], None] = lambda worker: None,
    ) -> None:
        self._backend = backend
        self._on_report = on_report
        self._on_join = on_join
        self._session: WorkersSession | None = None
        self._start_lock = asyncio.Lock()
        self._end_task: asyncio.Future[None] | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.vanished_workers = 0
        """Number of workers that have ended without leaving."""
        self.end_requested = asyncio.Event()

    @asynccontextmanager
    async def listen(self, path: Path) -> AsyncIterator[None]:
        """Serve at a Unix socket that all users of this machine may use; remove it at the end."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self.serve_connection, path)
        try:
            path.chmod(0o666)
            yield
        finally:
            server.close()
            path.unlink(missing_ok=True)
            await self.close_connections()

    async def close_connections(self) -> None:
        """End all connections, and wait until the session that ends with them is over."""
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._session is not None:  # which waits for successors
            self._begin_end(self._session)
        if self._end_task is not None:
            await self._end_task

    def mark_broken(self, reason: str) -> None:
        session = self._session
        if session is None or session.failure:
            return
        log.warning("%s", reason)
        session.failure = f"{reason}; close all workers and start them again: what was trained is lost"
        session.fail_waiters(session.failure)
        for worker in session.joined_workers.values():
            send_line(worker.writer, {"gone": session.failure})

    async def serve_connection(
        self, reader: asyncio.StreamReader, writer: LineWriter, machine_ranks: frozenset[int] | None = None
    ) -> None:
        """Serve a worker until its connection ends; `machine_ranks` are those that it may have, or None."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        handler = _ConnectionHandler(self, reader, writer, machine_ranks)
        try:
            await handler.run()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            self.leave(handler.worker, "has ended without leaving")
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def join(
        self,
        tables: EmbeddingTables,
        rank: int | None,
        writer: LineWriter,
        machine_ranks: frozenset[int] | None = None,
    ) -> JoinedWorker:
        async with self._start_lock:
            if self._end_task is not None:
                await asyncio.shield(self._end_task)
            session = self._session
            if session is None:
                check_rank(rank, set(), self._backend.size, machine_ranks)
                session = WorkersSession(
                    tables, await self._backend.begin(tables), self._backend.size, self._backend.after_death
                )
                if session.terms.pushes is not None:
                    session.mark_restored(session.terms.pushes)
                self._session = session
                sizes = (f"{name}: {table}" for name, table in tables.items())
                log.info("a session begins: %s", "; ".join(sizes))
            elif difference := tables.describe_difference(session.tables):
                raise RequestRefused(difference)
            elif reason := session.failure or (not session.vacant_ranks and session.departure):
                raise RequestRefused(
                    f"a session is under way that cannot go on ({reason}): end all of its workers first"
                )
            else:
                check_rank(rank, session.taken_ranks, self._backend.size, machine_ranks)
            if rank is None:
                ranks = range(self._backend.size) if machine_ranks is None else machine_ranks
                rank = min(session.vacant_ranks & set(ranks) or set(ranks) - session.taken_ranks)
            worker = JoinedWorker(rank, writer, session.begin_life(rank))
            await self._admit(session, worker)
            session.add(worker)
            log.info("worker %d has joined", rank)
            self._on_join(worker)
            return worker

    async def _admit(self, session: WorkersSession, worker: JoinedWorker) -> None:
        """Tell the switch of a worker whose rank another has had."""
        if worker.life == 0:
            return
        await self._backend.admit(worker.rank, session.epoch_of(worker))
        if self._session is not session or session.failure:
            raise RequestRefused(f"the session has ended while worker {worker.rank} joined it; join again")

    def leave(
        self, worker: JoinedWorker | None, abnormal_end: str | None = None, has_delivered: bool = False
    ) -> None:
        """Remove a worker; `abnormal_end` says how it ended if it did not leave in order.

        With `has_delivered`, servers have acknowledged its pushes, although its script has not ended.
        """
        session = self._session
        if worker is None or session is None or session.joined_workers.get(worker.rank) is not worker:
            return
        session.remove(worker, abnormal_end)
        worker.mark_left(is_in_order=abnormal_end is None or has_delivered)
        consequence = session.describe_end(worker)
        if abnormal_end is None:
            log.info("worker %d has left", worker.rank)
        elif has_delivered:
            log.info("worker %d %s; its pushes are delivered%s", worker.rank, abnormal_end, consequence)
        else:
            self.vanished_workers += 1
            # A run reports the lost worker itself.
            level = logging.WARNING if session.terms.parts is None else logging.INFO
            log.log(
                level, "worker %d %s: its last pushes may be lost%s", worker.rank, abnormal_end, consequence
            )
        if session.is_over:
            self._begin_end(session)
        else:
            self._release_complete_barrier(session)

    def _begin_end(self, session: WorkersSession) -> None:
        self._session = None
        self._end_task = asyncio.ensure_future(self._end_session(session))

    async def _end_session(self, session: WorkersSession) -> None:
        log.info("the session is over")
        try:
            await self._backend.end(session.complete_pushes)
        except HotlineError as error:
            log.warning("%s", error)
            self.end_requested.set()

    async def barrier(self, worker: JoinedWorker) -> None:
        session = self._require_session(worker)
        if session.departure:
            raise SessionOver(f"{session.departure}; close this worker, and start all of them again")
        if session.barrier is None:
            session.barrier = BarrierRound(asyncio.get_running_loop().create_future())
        barrier = session.barrier
        barrier.waiting.append(worker)
        try:
            self._release_complete_barrier(session)
            await self._wait_with_note(worker, barrier.release, WorkersSession.describe_barrier)
        finally:
            barrier.waiting.remove(worker)

    def _release_complete_barrier(self, session: WorkersSession) -> None:
        barrier = session.barrier
        if barrier is not None and barrier.release_task is None and session.is_barrier_complete:
            barrier.release_task = asyncio.ensure_future(self._release_barrier(session, barrier))

    async def _release_barrier(self, session: WorkersSession, barrier: BarrierRound) -> None:
        try:
            await self._backend.publish()
        except HotlineError as error:
            self.mark_broken(str(error))
        if not barrier.release.done():
            barrier.release.set_result(None)
            session.barrier = None

    async def _wait_with_note(
        self, worker: JoinedWorker, event: asyncio.Future[T], describe: Callable[[WorkersSession], str]
    ) -> T:
        """Wait for an event; after `NOTE_S`, except in a run, send the worker a note that names the event."""
        session = self._require_session(worker)
        done, _ = await asyncio.wait([event], timeout=NOTE_S)
        if not done and session.terms.parts is None:
            send_line(worker.writer, {"note": describe(session)})
        return await asyncio.shield(event)

    async def init(self, worker: JoinedWorker, name: str) -> Message:
        """Return whether this worker is to set the table; if not, when it is set, with its pushes so far.

        The worker that is to set it may ask again until it has.
        """
        self._require_session(worker).tables.find_table(name)
        while True:
            setting = self._require_session(worker).find_setting(name, worker.rank)
            if setting.setter == worker.rank and not setting.is_set.done():
                return {"is_first": True}
            if await self._wait_until_set(worker, name, setting):
                return {"is_first": False, "steps": self._require_session(worker).pushes[name]}

    async def _wait_until_set(self, worker: JoinedWorker, name: str, setting: TableSetting) -> bool:
        """Return True when a table is set, or False if another worker than `setting` says is to set it."""
        setter = setting.setter
        if setter not in self._require_session(worker).joined_workers and not setting.is_set.done():
            raise SessionOver(
                f"worker {setter}, which was to set table {name}, is gone; start all workers again"
            )
        return await self._wait_with_note(
            worker, setting.is_set, lambda _: f"init: waits until worker {setter} has set table {name}"
        )

    @property
    def complete_pushes(self) -> Mapping[str, int] | None:
        """The pushes to the tables of the session, as `WorkersSession` has them; None without a session."""
        return None if self._session is None else self._session.complete_pushes

    @property
    def unset_tables(self) -> list[str]:
        """The tables of the session that no worker has set."""
        return [] if self._session is None else self._session.unset_tables

    def count_pushes(self, pushes: Mapping[str, int]) -> None:
        """Note how many pushes to tables a worker has made, as far as tables have an optimiser."""
        if self._session is not None:
            self._session.count_pushes(pushes)

    def mark_table_set(self, worker: JoinedWorker, name: str, pushes: int) -> None:
        session = self._require_session(worker)
        setting = session.settings_by_table.get(name)
        if setting is None:
            raise RequestRefused(f"expected init before table {name} is set")
        if setting.setter != worker.rank:
            raise RequestRefused(
                f"expected table {name} to be set by worker {setting.setter}, got it from {worker.rank}"
            )
        if not setting.is_set.done():
            session.count_pushes({name: pushes})
            setting.is_set.set_result(True)

    async def wait_for_servers(self, worker: JoinedWorker, servers: Sequence[int]) -> None:
        """Wait until servers answer a worker again, which it reports with no `servers`; send it a note.

        The session is broken if the servers' processes could answer and do not.
        """
        if worker.answered is not None and not worker.answered.done():
            worker.answered.set_result(None)
        limit = self._backend.limit_silence(servers) if servers else None
        if limit is None:
            return
        names = "server " + ", ".join(map(str, servers))
        worker.answered = answered = asyncio.get_running_loop().create_future()
        await asyncio.wait([answered], timeout=limit.look_s)
        if not (answered.done() or await limit.is_exceeded()):
            send_line(worker.writer, {"note": f"{names} does not answer; waiting: {limit.describe_state()}"})
        if not await wait_within(limit, answered):
            self.mark_broken(f"{names} has not answered worker {worker.rank} {limit.describe()}")

    def report(self, worker: JoinedWorker, metrics: object) -> None:
        self._on_report({"rank": worker.rank, "report": worker.reports, "metrics": check_metrics(metrics)})
        worker.reports += 1

    def terms_for(self, worker: JoinedWorker) -> Message:
        session = self._require_session(worker)
        terms = asdict(session.terms)
        worker_addresses, server_addresses, _ = (terms.pop(name) for name in ("workers", "servers", "pushes"))
        return {
            "rank": worker.rank,
            "life": worker.life,
            "size": self._backend.size,
            "address": worker_addresses[worker.rank],
            "peers": server_addresses,
            **terms,
            "epoch": session.epoch_of(worker),
        }

    @property
    def workers(self) -> int:
        return 0 if self._session is None else len(self._session.joined_workers)

    def _require_session(self, worker: JoinedWorker) -> WorkersSession:
        session = self._session
        if session is None or session.joined_workers.get(worker.rank) is not worker:
            raise SessionOver("the session of this worker is over")
        if session.failure:
            raise SessionOver(session.failure)
        return session


class _ConnectionHandler:
    def __init__(
        self,
        rendezvous: Rendezvous,
        reader: asyncio.StreamReader,
        writer: LineWriter,
        machine_ranks: frozenset[int] | None,
    ) -> None:
        self._rendezvous, self._reader, self._writer = rendezvous, reader, writer
        self._machine_ranks = machine_ranks
        self.worker: JoinedWorker | None = None
        self._answer_tasks: set[asyncio.Task[None]] = set()
        self._tasks_by_request: dict[int | None, asyncio.Task[None] | None] = {}  # by the request's `id`

    async def run(self) -> None:
        """Answer requests until the worker closes; a waiting request does not delay later requests."""
        try:
            async for line in read_lines(self._reader):
                if line is None:
                    text = f"expected a request of at most {MAX_LINE_BYTES:,} bytes, got a longer one"
                    send_line(self._writer, {"error": text})
                    continue
                task = asyncio.ensure_future(self._answer(line))
                self._answer_tasks.add(task)
                task.add_done_callback(self._answer_tasks.discard)
        finally:
            for task in self._answer_tasks:
                task.cancel()

    async def _answer(self, line: bytes) -> None:
        request_id = None
        try:
            request = json.loads(line)
            request_id, command = request.pop("id", None), request.pop("cmd", None)
            self._tasks_by_request[request_id] = asyncio.current_task()
            answer = await self._execute(command, request)
        except SessionOver as error:
            answer = {"error": str(error), "gone": True}
        except (HotlineError, OSError) as error:
            answer = {"error": str(error)}
        except Exception as error:  # a client's mistake must not end the task without an answer
            text = line[:_MAX_SHOWN_BYTES].decode(errors="replace").strip()
            answer = {"error": f"not understood: {text} ({type(error).__name__}: {error})"}
        finally:
            self._tasks_by_request.pop(request_id, None)
        if request_id is not None:
            send_line(self._writer, {"id": request_id, **answer})
        elif "error" in answer:
            log.warning("%s", answer["error"])
            send_line(self._writer, answer)

    async def _execute(self, command: object, values: Message) -> Message:
        rendezvous = self._rendezvous
        if command == "who":
            return {"pid": os.getpid(), "workers": rendezvous.workers}
        if command == "down":
            check_owner(self._writer)
            rendezvous.end_requested.set()
            return {
                "pid": os.getpid(),
                "workers": rendezvous.workers,
                "vanished": rendezvous.vanished_workers,
            }
        if command == "cancel":
            if (task := self._tasks_by_request.get(values["request"])) is not None:
                task.cancel()
            return {}
        if command == "join":
            if self.worker is not None:
                raise RequestRefused(f"this connection has already joined as worker {self.worker.rank}")
            self.worker = await rendezvous.join(
                parse_declaration(values["tables"]), values.get("rank"), self._writer, self._machine_ranks
            )
            return rendezvous.terms_for(self.worker)
        if self.worker is None:
            raise RequestRefused(f"{command!r}: join first")
        return await self._execute_of_worker(self.worker, command, values)

    async def _execute_of_worker(self, worker: JoinedWorker, command: object, values: Message) -> Message:
        rendezvous = self._rendezvous
        if command == "barrier":
            rendezvous.count_pushes(values.get("pushes", {}))
            await rendezvous.barrier(worker)
        elif command == "init":
            return await rendezvous.init(worker, values["table"])
        elif command == "set":
            rendezvous.mark_table_set(worker, values["table"], values.get("steps", 0))
        elif command == "pushed":
            rendezvous.count_pushes(values["pushes"])
        elif command == "report":
            rendezvous.report(worker, values["metrics"])
        elif command == "steps":
            worker.report_steps(int(values["steps"]))
        elif command == "silence":
            await rendezvous.wait_for_servers(worker, [int(server) for server in values["servers"]])
        elif command == "done":
            worker.complete_command(values.pop("number"), values)
        elif command == "leave":
            for name, count in values.get("saturated", {}).items():
                log.warning("worker %d: %d values of table %s were saturated", worker.rank, count, name)
            rendezvous.count_pushes(values.pop("pushes", {}))
            is_terminated = values.pop("terminated", False)
            worker.final_report = values
            rendezvous.leave(worker, _TERMINATED if is_terminated else None, has_delivered=True)
        else:
            raise RequestRefused(f"{command!r} is not a known request")
        return {}
