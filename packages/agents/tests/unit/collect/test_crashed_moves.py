"""A server of design `collect` is killed at each step of moves into and out of the switch, and restarted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

import numpy as np
import pytest

from foundation.protocol import control
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.header import PS_BITS, Op
from foundation.protocol.rows import RowRange
from hosts.keys import KeySpace
from packages.agents.tests.unit.collect.switch_model import Row, add
from packages.agents.tests.unit.collect.test_collector import JOB, MINE, MS, SPACE, Bench
from tests.harness.wire import MODULUS

A, B, C, D, E = MINE[:5]
SPACES = {
    "scalars": SPACE,
    "rows of 16": KeySpace(SPACE.size, None, (RowRange(0, 16),)),
    "rows of 1, 16 and 64": KeySpace(SPACE.size, None, (RowRange(0, 1), RowRange(B, 16), RowRange(D, 64))),
}


class Wire(Enum):
    """What happens to the datagrams that are under way when the server is killed."""

    LOST = "lost"
    LATE = "late"
    """They reach the switch or the restarted server."""


class CrashingBench(Bench):
    """A server that is killed at the steps in `kills`, and started from its checkpoint and journal.

    Steps are before and after the switch handles a datagram, and before the controller gets an answer.
    """

    def __init__(self, space: KeySpace, kills: frozenset[int], wire: Wire, homes: int = 1) -> None:
        super().__init__(journal_bytes=1 << 20, as_plain=False, space=space, homes=homes)
        self.kills, self.wire, self.steps = kills, wire, 0
        self.parts: dict[str, bytes] = {}
        self.request = b""  # of the controller, which repeats it until it is answered
        self.pushed: dict[int, Row] = {}

    def command(self, command: Command, keys: list[int], home: int = 0) -> Status:
        self.seq += 4
        ps = home << PS_BITS
        self.request = control.build(Control(command, JOB, ps, 3, self.seq, np.array(keys, np.uint64)))
        for attempt in range(10_000):
            if attempt % 10 == 0:
                self._send_request()
            self.exchange()
            for answer, _ in list(self.ps.control_answers()):
                if self._is_killed() and self.wire is Wire.LOST:
                    break
                return control.parse(answer).status
            self.advance(MS)
        raise AssertionError(f"{command.name} was not answered")

    def _send_request(self) -> None:
        self.ps.handle(self.request, self.now, self.now, "controller")
        self.persist()

    def exchange(self) -> int:
        n = 0
        while datagrams := [*self.sent(), *map(bytes, self.ps.transmit())]:
            for datagram in datagrams:
                n += 1
                if self._is_killed() and self.wire is Wire.LOST:
                    break
                answer = self.answer_of_switch(datagram)
                if self._is_killed() and self.wire is Wire.LOST:
                    break
                if answer is not None:
                    self.deliver(answer)
        return n

    def _is_killed(self) -> bool:
        self.steps += 1
        if self.steps not in self.kills:
            return False
        self.restart()
        return True

    def restart(self) -> None:
        self.ps = self._made()
        self.ps.recover(self.parts, self.journal)

    def checkpoint(self) -> None:
        self.parts = dict(self.ps.checkpoint())
        self.journal.clear()

    def push(self, *keys: int, home: int = 0) -> None:
        """Add rows of different values: to sums in the switch of a worker's home, or at the server."""
        switch = self.switches[home]
        for key in keys:
            dim = int(self.space.dims_at(np.array([key]))[0])
            row = tuple((7 * key + v + 1 + len(self.pushed)) % MODULUS for v in range(dim))
            if key in switch.hot:
                switch.push(key, *row)
            else:
                answer = self.worker(Op.PUSH, [key], list(row), dim=dim, ps=home << PS_BITS)
                assert not answer.header.refused
            self.pushed[key] = add(self.pushed.get(key, (0,) * dim), row)

    def enter(self, *keys: int, home: int = 0) -> None:
        self.switches[home].hot |= set(keys)
        assert self.command(Command.SEED, list(keys), home) is Status.OK

    def leave(self, *keys: int, home: int = 0) -> None:
        assert self.command(Command.COLLECT, list(keys), home) is Status.OK
        self.switches[home].hot -= set(keys)

    def check(self) -> None:
        """Check that each row has its pushes once, and that neither a move nor a collection is left over."""
        assert {key: row for key, row in self.row_sums().items() if any(row)} == self.pushed
        assert self.ps.is_idle
        for store in self.store.by_home:
            collector = store.collector
            assert (collector.hold_reasons, collector.n_in_flight, collector.n_wanted) == (0, 0, 0)


def moves(bench: CrashingBench) -> Iterator[None]:
    """Move keys out and in, with and without collections under way; yield where the server is idle."""
    bench.enter(A, B, C, D, E)
    yield
    bench.push(A, B, C, D, E)
    bench.advance(60 * MS)  # collections begin
    bench.leave(A, D)  # waits for them
    yield
    bench.push(A, B, C, D, E)
    bench.leave(B)
    yield
    bench.push(B, C)
    bench.leave(C)
    yield
    bench.push(C, E)
    bench.enter(A, C)
    bench.push(A, C)
    assert bench.command(Command.HOLD, []) is Status.OK
    yield
    bench.push(A, E)
    bench.leave(E)
    assert bench.command(Command.PUBLISH, []) is Status.OK
    yield
    bench.push(A, B, C, D, E)
    bench.run(60)
    bench.leave(A, C)


def moves_of_homes(bench: CrashingBench) -> Iterator[None]:
    """Move keys between a server and two homes, which have some in common."""
    bench.enter(A, B, C)
    bench.enter(B, C, D, home=1)
    yield
    for home in (0, 1):
        bench.push(A, B, C, D, E, home=home)
    bench.advance(60 * MS)  # collections begin at both
    bench.leave(B)
    yield
    for home in (0, 1):
        bench.push(A, B, C, D, home=home)
    bench.leave(B, C, home=1)
    yield
    bench.push(B, C, home=1)
    bench.enter(B, home=1)
    assert bench.command(Command.HOLD, [], home=1) is Status.OK
    yield
    for home in (0, 1):
        bench.push(A, B, C, D, home=home)
    bench.run(60)
    assert bench.command(Command.PUBLISH, [], home=1) is Status.OK
    yield
    bench.push(A, B, C, D, home=1)
    bench.leave(A, C)
    yield
    bench.run(60)
    bench.leave(B, D, home=1)


CHECKPOINTS = 6
"""Number of moments at which `moves` yields, so that a checkpoint can be taken."""


def play(space: KeySpace, kills: Iterable[int], wire: Wire, checkpoint: int | None, homes: int = 1) -> int:
    """Move rows while the server is killed; return the number of steps."""
    bench = CrashingBench(space, frozenset(kills), wire, homes)
    for number, _ in enumerate((moves if homes == 1 else moves_of_homes)(bench)):
        if number == checkpoint:
            bench.checkpoint()
    bench.check()
    return bench.steps


@pytest.mark.parametrize("homes", [1, 2])
@pytest.mark.parametrize("wire", Wire)
@pytest.mark.parametrize("name", ["scalars", "rows of 1, 16 and 64"])
def test_a_server_killed_at_steps_of_moves_loses_and_doubles_nothing(
    name: str, wire: Wire, homes: int
) -> None:
    """Each step has its play, in which the server is killed there and at every 13th step after it."""
    steps = play(SPACES[name], [], wire, None, homes)
    for first in range(1, 14):
        play(SPACES[name], range(first, steps, 13), wire, first % CHECKPOINTS, homes)


@pytest.mark.soak
@pytest.mark.parametrize("checkpoint", [None, *range(CHECKPOINTS)])
@pytest.mark.parametrize("wire", Wire)
@pytest.mark.parametrize("name", SPACES)
def test_a_server_killed_at_any_step_of_a_move_loses_and_doubles_nothing(
    name: str, wire: Wire, checkpoint: int | None
) -> None:
    for step in range(1, 1 + play(SPACES[name], [], wire, checkpoint)):
        play(SPACES[name], [step], wire, checkpoint)
