"""A rendezvous, with workers of several threads that are interrupted, leave, die and join, and a model."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from experiment.worker_plan import AfterDeath
from hotline_scripts.embedding_tables import EmbeddingTables
from hotline_scripts.rendezvous import Rendezvous
from hotline_scripts.script_session import Terms
from switch_harness.effort import examples

SIZE, FIRST_EPOCH = 3, 1
TABLES = {"a": [3, 1, 1.0], "b": [2, 1, 1.0]}
Ending = Literal["in order", "terminated", "dead"]
ENDINGS: tuple[Ending, ...] = ("in order", "terminated", "dead")
RANKS, NAMES = st.integers(0, SIZE - 1), st.sampled_from(sorted(TABLES))


class Backend:
    size = SIZE

    def __init__(self, after_death: AfterDeath) -> None:
        self.after_death: AfterDeath = after_death
        self.admitted: list[tuple[int, int]] = []

    async def admit(self, rank: int, epoch: int) -> None:
        await asyncio.sleep(0)
        self.admitted.append((rank, epoch))

    async def begin(self, tables: EmbeddingTables) -> Terms:
        return Terms(1, FIRST_EPOCH, "none", 1, [], [("", 0)] * SIZE, "here", 1)

    async def end(self, pushes: Mapping[str, int] | None) -> None: ...

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

    after_death: AfterDeath
    joined: set[int] = field(default_factory=set)
    left: set[int] = field(default_factory=set)
    """Ranks that nobody can take again."""
    vacant: set[int] = field(default_factory=set)
    uncounted: set[int] = field(default_factory=set)
    has_departed: bool = False
    lives: Counter[int] = field(default_factory=Counter)
    waiting: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Request -> its rank, and what it waits for: "barrier" or a table."""
    orphans: set[int] = field(default_factory=set)
    """Requests of workers that have left with a message."""
    setters: dict[str, int] = field(default_factory=dict)
    set_tables: set[str] = field(default_factory=set)
    failed_tables: set[str] = field(default_factory=set)
    answers: dict[int, object] = field(default_factory=dict)
    """Request -> its answer, or "gone"."""

    def may_join(self, rank: int) -> bool:
        is_refused = self.has_departed and not self.vacant
        return rank not in self.joined | self.left and not is_refused

    def join(self, rank: int) -> int:
        self.joined.add(rank)
        self.vacant.discard(rank)
        self.uncounted.discard(rank)
        self.lives[rank] += 1
        return self.lives[rank] - 1

    def barrier(self, request: int, rank: int) -> None:
        if self.has_departed:
            self.answers[request] = "gone"
            return
        self.waiting[request] = rank, "barrier"
        self._release_barrier()

    def _release_barrier(self) -> None:
        requests = [request for request, (_, event) in self.waiting.items() if event == "barrier"]
        present = {self.waiting[request][0] for request in requests if request not in self.orphans}
        if requests and present >= set(range(SIZE)) - self.uncounted:
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

    def leave(self, rank: int, ending: Ending) -> None:
        self.joined.discard(rank)
        # Requests of an earlier worker of the rank, which has left with a message, wait on.
        of_rank = {request for request, (owner, _) in self.waiting.items() if owner == rank}
        own = of_rank - self.orphans
        if self.after_death == "end" or (self.after_death == "wait" and ending == "in order"):
            self.left.add(rank)
            self.has_departed = True
            self.failed_tables |= set(self.setters) - self.set_tables
            for request in self.waiting.keys() - (own if ending == "dead" else set()):
                self.answers[request] = "gone"
            self.waiting.clear()
            return
        (self.vacant if self.after_death == "wait" else self.uncounted).add(rank)
        if ending == "dead":
            for request in own:
                del self.waiting[request]
        else:
            self.orphans |= own
        for table in [name for name, setter in self.setters.items() if setter == rank]:
            if table not in self.set_tables | self.failed_tables:
                self._find_new_setter(table)
        self._release_barrier()

    def _find_new_setter(self, table: str) -> None:
        del self.setters[table]
        for request, (rank, awaited) in [*self.waiting.items()]:
            if awaited == table and request in self.orphans:
                del self.waiting[request]
                self.answers[request] = "gone"
            elif awaited == table and self.setters.setdefault(table, rank) == rank:
                del self.waiting[request]
                self.answers[request] = True

    def _answer_waiting(self, event: str, answer: object) -> None:
        for request, (_, awaited) in [*self.waiting.items()]:
            if awaited == event:
                del self.waiting[request]
                self.answers[request] = answer


class RendezvousMachine(RuleBasedStateMachine):
    after_death: AfterDeath = "end"

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.backend = Backend(self.after_death)
        self.rendezvous = Rendezvous(self.backend)
        self.clients: dict[int, Client] = {}
        self.requests: dict[int, Client] = {}
        self.model = Model(self.after_death)
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
        self.join(0)
        self.join(1)

    @rule(rank=RANKS)
    def join(self, rank: int) -> None:
        if not self.model.may_join(rank):
            return
        client = self.clients[rank] = Client(self.loop)
        self.loop.run_until_complete(self._connect(client))
        request = self._ask(rank, "join", tables=TABLES, rank=rank)
        self.model.answers[request] = f"joined in epoch {FIRST_EPOCH + self.model.join(rank)}"

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

    @rule(rank=RANKS, ending=st.sampled_from(ENDINGS))
    def leave(self, rank: int, ending: Ending) -> None:
        # The machine has one session, which ends with its last worker unless a successor is waited for.
        is_last = len(self.model.joined) == 1
        has_successor = self.after_death == "wait" and (self.model.vacant or ending != "in order")
        if rank not in self.model.joined or (is_last and not has_successor) or self.last_request < 12:
            return
        self.model.leave(rank, ending)
        if ending == "dead":
            self.clients[rank].reader.feed_eof()
        else:
            is_terminated = ending == "terminated"
            self.model.answers[self._ask(rank, "leave", terminated=is_terminated)] = None

    @invariant()
    def the_answers_are_the_models(self) -> None:
        self._settle()
        found: dict[int, object] = {}
        for request, client in self.requests.items():
            if (answer := client.answers.get(request)) is not None:
                found[request] = "gone" if answer.get("gone") else answer.get("is_first")
                if "rank" in answer:
                    found[request] = f"joined in epoch {answer['epoch']}"
                assert "error" not in answer or answer.get("gone"), answer
        left = {request for request in found if request not in self.model.answers}
        assert not left, "requests of a worker that has left"
        assert found == self.model.answers
        session = self.rendezvous._session
        waiting = sorted(rank for rank, event in self.model.waiting.values() if event == "barrier")
        if session is not None:
            at_barrier = session.barrier.waiting if session.barrier else []
            assert sorted(each.rank for each in at_barrier) == waiting
        assert self.backend.admitted == [*dict.fromkeys(self.backend.admitted)], "an epoch is issued once"
        assert set(self.backend.admitted) == {
            (rank, FIRST_EPOCH + life) for rank, lives in self.model.lives.items() for life in range(1, lives)
        }


class WaitingMachine(RendezvousMachine):
    after_death: AfterDeath = "wait"


class ContinuingMachine(RendezvousMachine):
    after_death: AfterDeath = "continue"


EFFORT = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
TestRendezvous = RendezvousMachine.TestCase
TestRendezvous.settings = EFFORT
TestWaiting = WaitingMachine.TestCase
TestWaiting.settings = EFFORT
TestContinuing = ContinuingMachine.TestCase
TestContinuing.settings = EFFORT


def test_a_left_workers_barrier_request_does_not_stand_for_a_successor() -> None:
    machine = ContinuingMachine()
    machine.last_request = 100  # so many that a worker may leave

    def play(*steps: Callable[[], None]) -> None:
        for step in steps:
            step()
            machine.the_answers_are_the_models()

    try:
        play(*(partial(machine.join, rank) for rank in range(SIZE)))
        play(partial(machine.barrier, 1), partial(machine.leave, 1, "in order"))
        play(partial(machine.join, 1), partial(machine.barrier, 0), partial(machine.barrier, 2))
        assert len(machine.model.waiting) == SIZE, "the new worker has not called barrier"
        play(partial(machine.barrier, 1))
        assert not machine.model.waiting
    finally:
        machine.teardown()
