"""A durable PS that is killed at any moment has all acknowledged updates after a restart."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.optimisers import TableOptimiser
from foundation.protocol import control
from foundation.protocol.control import Command, Control
from foundation.protocol.hashing import ps_ids_of, ps_of
from foundation.protocol.header import LAYOUT, SLOT_MASK, WINDOW_BITS, Header, Op, unpack
from hosts.agent_config import Fsync
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.ps.durable import DurabilityError, DurabilityPaused, DurableFile
from hotline_agents.ps.journal import (
    FROM_CONTROLLER,
    FROM_SWITCH,
    FROM_WORKER,
    JOURNAL_BYTES,
    add_note,
    read_note,
)
from packages.agents.tests.unit.test_ps_compiled import DENSE, JOBS, N_PS, PS, SPARSE
from switch_harness.effort import examples
from switch_harness.wording import mentions
from tests.harness.model_optimisers import table
from tests.harness.requests import random_request
from tests.harness.wire import reply, rpc

IDENTITY = {"ps": PS}


class PsFile(ExitStack):
    """The file of a PS. It is closed at the end only, as a PS that is killed closes nothing."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def open(self, fsync: Fsync, largest_journal: int = 1 << 30) -> DurableFile:
        return self.enter_context(closing(DurableFile(self._file, IDENTITY, fsync, largest_journal)))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[PsFile]:
    with PsFile(tmp_path / "ps.db") as file:
        yield file


class Kept:
    """A PS that commits its notes before it sends, as its loop does."""

    def __init__(self, space: KeySpace, durable: DurableFile, tables: Sequence[TableOptimiser] = ()) -> None:
        self.now = 0
        self.space, self.durable, self.tables = space, durable, tables
        self.core = self.made()
        self.core.recover(durable.parts(), durable.notes())

    def made(self) -> ParameterServer[str]:
        jobs = dict.fromkeys(JOBS, 1)
        return ParameterServer(
            PS, N_PS, self.space, jobs, lambda: self.now, journal_bytes=JOURNAL_BYTES, has_replay_logs=True,
            tables=self.tables,
        )  # fmt: skip

    def keep(self) -> list[bytes]:
        """Commit the notes; return the datagrams that may leave then."""
        server = self.core.server
        if server.state.header.journal_length:
            self.durable.append(server.notes)
            server.forget_notes()
        sent = [bytes(each) for each in self.core.transmit()]
        return sent + [answer for answer, _ in self.core.control_answers()]

    def standing(self) -> list[Any]:
        """Return the state that must survive a restart, except for turns of pulls."""
        state = self.core.server.state
        turns = {
            (int(c.job), int(c.worker), int(c.epoch), slot): turn
            for c in state.callers[state.callers.in_use == 1]
            for slot, turn in enumerate(zip(c.turns.tolist(), c.added.tolist(), strict=True))
        }
        return [state.cells.tobytes(), state.at_switch.tobytes(), turns]


def answered_by_switch(sent: bytes, random: Random) -> bytes:
    """Return the switch's answer to a register RPC, some of whose lanes have entries."""
    h = unpack(sent)
    served = h.live & random.getrandbits(32) if random.random() < 0.2 else h.live
    return reply(h, [random.getrandbits(32) for _ in range(h.count)], served=served)


def without_pulls(standing: list[Any], pulls: set[tuple[Any, ...]]) -> list[Any]:
    *values, turns = standing
    return [*values, {at: turn for at, turn in turns.items() if turn != (0, 0) and at not in pulls}]


@settings(max_examples=examples(25), deadline=None)
@given(
    seed=st.integers(0, 2**32), is_sparse=st.booleans(), fsync=st.sampled_from(["never", "checkpoint"]),
    optimiser=st.sampled_from([None, "sgd(lr=0.1)", "adagrad(initial=0.5)", "ftrl(l1=0.01)", "adam"]),
)  # fmt: skip
def test_a_restarted_ps_has_its_state(
    tmp_path_factory: pytest.TempPathFactory, seed: int, is_sparse: bool, fsync: Fsync, optimiser: str | None
) -> None:
    """Its values and its optimisers' states, to the bit."""
    tables = [table(0, optimiser, 1000.0), table(100, None, 1000.0)]
    with PsFile(tmp_path_factory.mktemp("ps") / "ps.db") as file:
        check_restart(Random(seed), SPARSE if is_sparse else DENSE, file, fsync, tables)


def check_restart(
    random: Random, space: KeySpace, file: PsFile, fsync: Fsync, tables: Sequence[TableOptimiser] = ()
) -> None:
    """Check that a PS that opens the file of one with random changes has its state, and goes on alike."""
    ps = Kept(space, file.open(fsync), tables)
    own = space.all()[ps_ids_of(space.all(), N_PS) == PS].tolist()
    pulls: set[tuple[Any, ...]] = set()
    waiting: list[bytes] = []
    for step in range(random.randrange(120)):
        chance = random.random()
        if chance < 0.7:
            datagram = random_request(random, space, PS, N_PS, JOBS)
            h = Header._make(LAYOUT.unpack_from(datagram))  # which may be malformed
            if h.op == Op.PULL or (h.op == Op.EMPTY and not h.iteration):
                pulls.add((h.job, h.worker, h.epoch, h.seq & SLOT_MASK))
            ps.core.handle(datagram, 0, 0, "worker")
        elif chance < 0.8:
            keys = np.array(random.sample(own, random.randint(1, 20)), np.uint64)
            command = random.choice([Command.SEED, Command.SEED, Command.COLLECT, Command.RENEW])
            if command is Command.RENEW:
                keys = np.array([random.choice([1, 2, 3])], np.uint64)
            asked = Control(command, JOBS[0], PS, epoch=9, seq=step, keys=keys)
            ps.core.handle(control.build(asked), 0, 0, "controller")
        elif chance < 0.97 and waiting:
            sent = waiting.pop(random.randrange(len(waiting)))
            ps.core.receive_rpc_answer(answered_by_switch(sent, random), 0)
        elif ps.core.is_idle:
            ps.keep()
            ps.durable.checkpoint(ps.core.checkpoint())
        waiting += [each for each in ps.keep() if unpack(each).op != Op.CONTROL]
    before = ps.standing()
    # Killed: nothing is closed, and another process opens the file.
    again = Kept(space, file.open(fsync), tables)
    assert without_pulls(again.standing(), pulls) == without_pulls(before, pulls)
    # Both go on alike.
    for each in (ps, again):
        each.core.wake(10**12)
    assert {unpack(sent).seq for sent in ps.keep()} == {unpack(sent).seq for sent in again.keep()}


MINE = next(key for key in range(200) if ps_of(key, N_PS) == PS)
PUSH = rpc(Op.PUSH, [MINE], [5], job=JOBS[0], worker=1, epoch=1, ps=PS, seq=1 << WINDOW_BITS)


def test_a_push_is_added_once_though_its_answer_was_lost_with_the_ps(file: PsFile) -> None:
    ps = Kept(DENSE, file.open("always"))
    assert ps.core.handle(PUSH, 0, 0, "w") is not None
    ps.keep()
    again = Kept(DENSE, file.open("always"))
    answered = again.core.handle(PUSH, 0, 0, "w")
    assert answered is not None and unpack(answered[1]).refused == 0
    held = again.core.stores[JOBS[0]].contents()
    assert held.values[held.keys == MINE].tolist() == [5] and held.updates[held.keys == MINE].tolist() == [1]


def test_updates_that_were_not_committed_are_absent_after_a_restart(file: PsFile) -> None:
    ps = Kept(DENSE, file.open("never"))
    ps.core.handle(PUSH, 0, 0, "w")
    again = Kept(DENSE, file.open("never"))
    assert not again.core.stores[JOBS[0]].contents().values.any()


def test_a_full_disk_is_waited_for_and_nothing_is_kept_by_halves(file: PsFile) -> None:
    durable = file.open("never")
    pages = durable._connection.execute("PRAGMA page_count").fetchone()[0]
    durable._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    durable.append(b"x" * 100)
    with pytest.raises(DurabilityPaused, match=mentions("ps.db", "database")):
        durable.append(b"y" * 100_000)
    with pytest.raises(DurabilityPaused):
        durable.checkpoint([("cells 0 0", b"z" * 100_000)])
    assert (list(durable.notes()), durable.parts()) == ([b"x" * 100], {})
    durable._connection.execute("PRAGMA max_page_count = 1000000")
    durable.append(b"y" * 100_000)
    durable.checkpoint([("cells 0 0", b"z")])
    assert (list(durable.notes()), durable.parts()) == ([], {"cells 0 0": b"z"})


def test_a_checkpoint_that_fails_changes_nothing(file: PsFile) -> None:
    durable = file.open("never")
    durable.checkpoint([("cells 0 0", b"old")])
    durable.append(b"note")
    with pytest.raises(DurabilityError, match=mentions("ps.db", "checkpoint")):
        durable.checkpoint([("cells 0 0", b"new"), ("cells 0 0", b"again")])
    durable.append(b"another")
    again = file.open("never")
    assert (list(again.notes()), again.parts()) == ([b"note", b"another"], {"cells 0 0": b"old"})


def test_a_journal_ends_in_a_checkpoint(file: PsFile) -> None:
    durable = file.open("never", 1000)
    durable.append(b"x" * 999)
    assert not durable.needs_checkpoint
    durable.append(b"x")
    assert durable.needs_checkpoint
    again = file.open("never", 1000)
    assert sum(map(len, again.notes())) == 1000 and again.needs_checkpoint
    again.checkpoint([])
    assert not again.needs_checkpoint


@pytest.mark.parametrize(("fsync", "number"), [("always", 2), ("checkpoint", 1), ("never", 0)])
def test_the_sync_policy_is_sqlites_synchronous_setting(file: PsFile, fsync: Fsync, number: int) -> None:
    durable = file.open(fsync)
    assert durable._connection.execute("PRAGMA synchronous").fetchone() == (number,)
    assert durable._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_files_of_another_server_are_refused(tmp_path: Path) -> None:
    DurableFile(tmp_path / "ps.db", {"ps": 1, "n_ps": 2}, "never", 1000).close()
    with pytest.raises(
        DurabilityError, match=r'expected the file of PS \{"n_ps": 3, "ps": 1\}, got that of \{"n_ps": 2'
    ):
        DurableFile(tmp_path / "ps.db", {"ps": 1, "n_ps": 3}, "never", 1000)
    (tmp_path / "text").write_text("nothing of the kind, but long enough to be read as something" * 10)
    with pytest.raises(DurabilityError, match=mentions("text", "database")):
        DurableFile(tmp_path / "text", IDENTITY, "never", 1000)
    with pytest.raises(DurabilityError, match=mentions("nowhere/ps.db", "database")):
        DurableFile(tmp_path / "nowhere" / "ps.db", IDENTITY, "never", 1000)
    with closing(sqlite3.connect(tmp_path / "ps.db")) as connection:
        assert json.loads(connection.execute("SELECT what FROM identity").fetchone()[0])


@given(
    st.lists(
        st.tuples(st.sampled_from([FROM_WORKER, FROM_CONTROLLER, FROM_SWITCH]), st.binary(max_size=1500)),
        max_size=20,
    )
)
def test_notes_of_the_journal_are_read_as_written(notes: list[tuple[int, bytes]]) -> None:
    journal, at = np.zeros(20 * 1600, np.uint8), 0
    for source, datagram in notes:
        at = add_note(journal, at, source, datagram)
    end, at, read = at, 0, []
    while at < end:
        *note, at = read_note(journal, at)
        read.append(tuple(note))
    assert (read, at) == (notes, end)
