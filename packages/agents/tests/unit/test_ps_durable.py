"""A durable PS that is killed at any moment has all acknowledged updates after a restart."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
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
            (int(c.job), int(c.caller), int(c.epoch), slot): turn
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


def test_a_full_disk_is_waited_for_and_no_commit_is_kept_by_halves(
    file: PsFile, full_at: Callable[[int | None], None]
) -> None:
    durable = file.open("never")
    durable.append(b"x" * 100)
    full_at(5_000)
    with pytest.raises(DurabilityPaused, match=mentions("ps.db", "No space")):
        durable.append(b"y" * 100_000)
    assert list(file.open("never").notes()) == [b"x" * 100], "of a process that is killed now"
    pages = durable._connection.execute("PRAGMA page_count").fetchone()[0]
    durable._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(DurabilityPaused, match=mentions("ps.db", "database")):
        durable.checkpoint([("cells 0 0", b"z" * 100_000)])
    assert (list(durable.notes()), durable.parts()) == ([b"x" * 100], {})
    full_at(None)
    durable._connection.execute("PRAGMA max_page_count = 1000000")
    durable.append(b"y" * 100_000)
    assert [len(notes) for notes in file.open("never").notes()] == [100, 100_000]
    durable.checkpoint([("cells 0 0", b"z")])
    assert (list(durable.notes()), durable.parts()) == ([], {"cells 0 0": b"z"})


@pytest.fixture
def full_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Return a function that sets the size of a file at which the disk is full; None: there is room."""
    limits: list[int | None] = [None]
    write_parts, write_one = os.pwritev, os.pwrite

    def room(offset: int, data: bytes) -> bytes:
        if limits[0] is None:
            return data
        if offset >= limits[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return data[: limits[0] - offset]

    def pwritev(descriptor: int, parts: Sequence[bytes], offset: int) -> int:
        return write_parts(descriptor, [room(offset, b"".join(parts))], offset)

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        return write_one(descriptor, room(offset, data), offset)

    monkeypatch.setattr(os, "pwritev", pwritev)
    monkeypatch.setattr(os, "pwrite", pwrite)

    def set_limit(limit: int | None) -> None:
        limits[0] = limit

    return set_limit


@settings(max_examples=examples(60), deadline=None)
@given(
    actions=st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=40), st.just("checkpoint"), st.just("failed checkpoint"),
            st.just("restart"), st.tuples(st.binary(min_size=1, max_size=40), st.integers(0, 47)),
        ),
        max_size=25,
    )
)  # fmt: skip
def test_a_file_holds_the_last_checkpoint_and_the_commits_since(
    tmp_path_factory: pytest.TempPathFactory, actions: list[bytes | str | tuple[bytes, int]]
) -> None:
    """Journals of earlier generations are longer and shorter; a tuple is a commit cut off at some byte."""
    with PsFile(tmp_path_factory.mktemp("ps") / "ps.db") as file:
        durable = file.open("never")
        parts, notes = dict[str, bytes](), list[bytes]()
        for number, action in enumerate(actions):
            if isinstance(action, bytes):
                durable.append(action)
                notes.append(action)
            elif action == "checkpoint":
                durable.checkpoint([("part", str(number).encode())])
                parts, notes = {"part": str(number).encode()}, []
            elif action == "failed checkpoint":
                with pytest.raises(DurabilityError):
                    durable.checkpoint([("part", b"1"), ("part", b"2")])
            elif isinstance(action, tuple):
                data, cut = action[0] + b"\1", action[1]  # whose last byte is none that follows a cut
                end = durable._journal._end
                durable.append(data)
                kept = os.pread(durable._journal._descriptor, 48, end)[: min(cut, len(data) + 7)]
                os.pwrite(durable._journal._descriptor, kept + bytes(48 - len(kept)), end)
                durable = file.open("never")
                assert list(durable.notes()) == notes
            else:
                durable = file.open("never")
                assert (durable.parts(), list(durable.notes())) == (parts, notes)
        again = file.open("never")
        assert (again.parts(), list(again.notes())) == (parts, notes)


class FailingConnection:
    """A connection of SQLite whose commits fail, after or before they are made."""

    in_transaction = False

    def __init__(self, connection: sqlite3.Connection, is_made: bool) -> None:
        self._connection, self._is_made = connection, is_made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *values: Any) -> Any:
        if statement != "COMMIT":
            return self._connection.execute(statement, *values)
        self._connection.execute("COMMIT" if self._is_made else "ROLLBACK")
        raise sqlite3.OperationalError("disk I/O error")


@pytest.mark.parametrize("is_made", [False, True])
def test_commits_go_on_after_a_failed_checkpoint(
    file: PsFile, monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    durable = file.open("never")
    durable.checkpoint([("part", b"old")])
    durable.append(b"note")
    connection = durable._connection
    monkeypatch.setattr(durable, "_connection", FailingConnection(connection, is_made))
    with pytest.raises(DurabilityPaused):
        durable.checkpoint([("part", b"new")])
    if not is_made:
        # Before a commit to the journal, a transaction replaces what may be left of the failed one.
        with pytest.raises(DurabilityPaused):
            durable.append(b"another")
    monkeypatch.setattr(durable, "_connection", connection)
    durable.append(b"another")
    again = file.open("never")
    expected = ({"part": b"new"}, []) if is_made else ({"part": b"old"}, [b"note"])
    assert (again.parts(), list(again.notes())) == (expected[0], [*expected[1], b"another"])


def test_a_server_file_without_its_journal_is_refused(file: PsFile, tmp_path: Path) -> None:
    file.open("never").append(b"note")
    (tmp_path / "ps.db.notes").unlink()
    with pytest.raises(DurabilityError, match=mentions("ps.db", "ps.db.notes")):
        file.open("never")


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
def test_the_sync_policy_holds_for_sqlite_and_for_each_commit(
    file: PsFile, fsync: Fsync, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    durable = file.open(fsync)
    assert durable._connection.execute("PRAGMA synchronous").fetchone() == (number,)
    assert durable._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    durable.append(b"one")
    durable.append(b"two")
    assert synced == [durable._journal._descriptor] * (2 if fsync == "always" else 0)


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
        assert json.loads(connection.execute("SELECT identity FROM owner").fetchone()[0])


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
