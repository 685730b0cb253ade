"""A rendezvous, with workers of several threads that are interrupted and leave, and a plain model of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hotline_scripts.embedding_tables import EmbeddingTables
from hotline_scripts.rendezvous import Rendezvous
from hotline_scripts.script_session import Terms
from switch_harness.effort import examples

SIZE = 3
TABLES = {"a": [3, 1, 1.0], "b": [2, 1, 1.0]}
RANKS, NAMES = st.integers(0, SIZE - 1), st.sampled_from(sorted(TABLES))


class Backend:
    size = SIZE

    async def begin(self, tables: EmbeddingTables) -> Terms:
        return Terms(1, 1, "none", 1, [], [("", 0)] * SIZE, "here", 1)

    async def end(self) -> None: ...

    def limit_silence(self, servers: Sequence[int]) -> None: ...

    async def publish(self) -> None:
        await asyncio.sleep(0)


class Client:
    """A worker's connection, without a socket: a reader that the test feeds, and a writer that it reads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.reader = asyncio.StreamReader(loop=loop)
        self.answers: dict[int, dict[str, Any]] = {}

    def ask(self, request_id: int | None, command: str, /, **values: object) -> None:
        line = {"cmd": command, **values} | ({} if request_id is None else {"id": request_id})
        self.reader.feed_data(json.dumps(line).encode() + b"\n")

    def write(self, data: bytes) -> None:
        message = json.loads(data)
        if "id" in message:
            assert message["id"] not in self.answers, "a request has one answer"
            self.answers[message.pop("id")] = message

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    async def wait_closed(self) -> None: ...

    def get_extra_info(self, name: str) -> Any: ...


@dataclass
class Model:
    """What a rendezvous does: a barrier is a set of ranks, and a table has one setter."""

    joined: set[int] = field(default_factory=set)
    has_departed: bool = False
    waiting: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Request -> its rank, and what it waits for: "barrier" or a table."""
    setters: dict[str, int] = field(default_factory=dict)
    set_tables: set[str] = field(default_factory=set)
    failed_tables: set[str] = field(default_factory=set)
    answers: dict[int, object] = field(default_factory=dict)
    """Request -> its answer, or "gone"."""

    def join(self, rank: int) -> None:
        self.joined.add(rank)

    def barrier(self, request: int, rank: int) -> None:
        if self.has_departed:
            self.answers[request] = "gone"
            return
        self.waiting[request] = rank, "barrier"
        if {rank for rank, event in self.waiting.values() if event == "barrier"} == set(range(SIZE)):
            self._answer_waiting("barrier", None)

    def init(self, request: int, rank: int, table: str) -> None:
        setter = self.setters.setdefault(table, rank)
        if table in self.failed_tables:
            self.answers[request] = "gone"
        elif table in self.set_tables:
            self.answers[request] = False
        elif setter == rank:
            self.answers[request] = True
        else:
            self.waiting[request] = rank, table

    def set(self, rank: int, table: str) -> None:
        if self.setters.get(table) == rank and table not in self.failed_tables:
            self.set_tables.add(table)
            self._answer_waiting(table, False)

    def interrupt(self, request: int) -> None:
        self.waiting.pop(request, None)

    def leave(self, rank: int, is_in_order: bool) -> None:
        self.joined.discard(rank)
        self.has_departed = True
        self.failed_tables |= set(self.setters) - self.set_tables
        for request, (waiting_rank, _) in self.waiting.items():
            if waiting_rank != rank or is_in_order:
                self.answers[request] = "gone"
        self.waiting.clear()

    def _answer_waiting(self, event: str, answer: object) -> None:
        for request, (_, awaited) in [*self.waiting.items()]:
            if awaited == event:
                del self.waiting[request]
                self.answers[request] = answer


class RendezvousMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.rendezvous = Rendezvous(Backend())
        self.clients: dict[int, Client] = {}
        self.requests: dict[int, Client] = {}
        self.model = Model()
        self.last_request = 0

    def teardown(self) -> None:
        self.loop.run_until_complete(self.rendezvous.close_connections())
        self.loop.close()

    def _settle(self) -> None:
        async def pass_turns() -> None:
            for _ in range(30):
                await asyncio.sleep(0)

        self.loop.run_until_complete(pass_turns())

    def _ask(self, rank: int, command: str, /, **values: object) -> int:
        self.last_request += 1
        client = self.requests[self.last_request] = self.clients[rank]
        client.ask(self.last_request, command, **values)
        return self.last_request

    @initialize()
    def join_two(self) -> None:
        self.join()
        self.join()

    @precondition(lambda self: not self.model.has_departed and len(self.clients) < SIZE)
    @rule()
    def join(self) -> None:
        rank = len(self.clients)
        client = self.clients[rank] = Client(self.loop)
        self.loop.run_until_complete(self._connect(client))
        request = self._ask(rank, "join", tables=TABLES, rank=rank)
        self.model.join(rank)
        self.model.answers[request] = "joined"

    async def _connect(self, client: Client) -> None:
        self.task = asyncio.ensure_future(self.rendezvous.serve_connection(client.reader, client))

    @rule(rank=RANKS)
    def barrier(self, rank: int) -> None:
        if rank in self.model.joined:
            self.model.barrier(self._ask(rank, "barrier"), rank)

    @rule(rank=RANKS, table=NAMES)
    def init(self, rank: int, table: str) -> None:
        if rank in self.model.joined:
            self.model.init(self._ask(rank, "init", table=table), rank, table)

    @rule(rank=RANKS, table=NAMES)
    def set(self, rank: int, table: str) -> None:
        if rank in self.model.joined and self.model.setters.get(table) == rank:
            self.model.set(rank, table)
            self.model.answers[self._ask(rank, "set", table=table)] = None

    @precondition(lambda self: self.model.waiting)
    @rule(data=st.data())
    def interrupt(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.model.waiting)))
        self.requests[request].ask(None, "cancel", request=request)
        self.model.interrupt(request)

    @rule(rank=RANKS, is_in_order=st.booleans())
    def leave(self, rank: int, is_in_order: bool) -> None:
        # The last worker's leave ends the session, and the machine has one session.
        if rank not in self.model.joined or len(self.model.joined) == 1 or self.last_request < 12:
            return
        self.model.leave(rank, is_in_order)
        if is_in_order:
            self.model.answers[self._ask(rank, "leave")] = None
        else:
            self.clients[rank].reader.feed_eof()

    @invariant()
    def the_answers_are_the_models(self) -> None:
        self._settle()
        found: dict[int, object] = {}
        for request, client in self.requests.items():
            if (answer := client.answers.get(request)) is not None:
                found[request] = "gone" if answer.get("gone") else answer.get("is_first")
                found[request] = "joined" if "rank" in answer else found[request]
                assert "error" not in answer or answer.get("gone"), answer
        left = {request for request in found if request not in self.model.answers}
        assert not left, "requests of a worker that has left"
        assert found == self.model.answers
        session = self.rendezvous._session
        waiting = sorted(rank for rank, event in self.model.waiting.values() if event == "barrier")
        if session is not None:
            assert sorted(session.barrier.waiting if session.barrier else []) == waiting


TestRendezvous = RendezvousMachine.TestCase
TestRendezvous.settings = settings(max_examples=examples(160), stateful_step_count=40, deadline=None)
