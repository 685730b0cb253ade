"""A worker that is killed at any instruction: its ledger and its replay log count each key once.

The model is SIGKILL of a process, not a power failure.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import pytest

from foundation.protocol.codec import Caller
from foundation.protocol.header import unpack
from foundation.protocol.rows import ONE_VALUE, RowRange, RowRanges
from hosts import in_flight, ledger, replay
from hosts.keys import KeySpace
from hosts.ledger import Ledger
from hosts.replay_words import UNDO_WORDS
from hosts.succession import PredecessorPush
from hotline_agents.hotset.worker import client as client_module
from hotline_agents.none import AGENTS as NONE
from hotline_agents.worker import ops
from hotline_agents.worker.ops import COMPILED, plain_ops
from nativekit.plain import plain
from switch_harness.effort import seeds
from tests.harness import wire
from tests.harness.crashing_worker import JOB, MS, CrashingWorker, Step
from tests.harness.single_step import (
    killed_after,
    machine_states,
    source_states,
    storing_instructions,
)

ROOT = Path(__file__).parents[4]
SOURCES = [
    file for folder in ("hosts", "packages/agents/src") for file in sorted((ROOT / folder).rglob("*.py"))
]
N_KEYS = 5
"""Keys of a push that is killed."""


def entry(loop: object, worker: CrashingWorker) -> Any:
    """Return the compiled form of an operation for the worker's design."""
    return cast(Any, loop).entry_point_for(worker.client.state)


# What is killed. Each function prepares a worker, and returns the step.


def open_a_push(worker: CrashingWorker) -> Step:
    worker.push(N_KEYS)
    positions, deltas = worker.draw(N_KEYS)
    return Step(partial(worker.ledger.open, positions, deltas), (ledger._open_log,), N_KEYS)


def close_a_push(worker: CrashingWorker) -> Step:
    for request in worker.begin_push(N_KEYS):
        worker.receive(worker.answer(request, 0b10110))
    return Step(worker.ledger.close, (ledger._close_log,), 0)


def last_of_push(worker: CrashingWorker) -> bytes:
    """Begin a push; return the request with its widest rows after all others are answered."""
    *others, request = worker.begin_push(N_KEYS)
    for other in others:
        worker.receive(worker.answer(other, worker.random.getrandbits(32)))
    return request


def take_an_answer(worker: CrashingWorker) -> Step:
    """Take a push's answer: the switch has added some lanes, and the PS others."""
    request = last_of_push(worker)
    answer = worker.answer(request, worker.random.getrandbits(32))
    return Step(partial(worker.receive, answer), (entry(ops._receive, worker),), N_KEYS)


def take_an_answer_of_the_switch(worker: CrashingWorker) -> Step:
    request = last_of_push(worker)
    answer = worker.answer(request, 2**32 - 1)
    return Step(partial(worker.receive, answer), (entry(ops._receive, worker),), N_KEYS)


def take_an_answer_to_a_query(worker: CrashingWorker) -> Step:
    """Take the answer to a query about a push that its PS has added in part, after the loss of the switch."""
    request = last_of_push(worker)
    worker.answer(request, 0b01010)
    worker.lose_switch()
    worker.renew()
    query = wire.sent(worker.client)[-1]
    answer = worker.answer(query, 0)
    return Step(partial(worker.receive, answer), (entry(ops._receive, worker),), N_KEYS)


def retain_rows_without_an_answer(worker: CrashingWorker) -> Step:
    """End the push of a worker that was killed before it had sent the last request."""
    for request in worker.begin_push(N_KEYS)[1:]:
        worker.receive(worker.answer(request, worker.random.getrandbits(32)))
    push = worker.ledger.unfinished_push
    return Step(push.retain_unanswered, (ledger._close_answered, ledger._open_log), N_KEYS)


def renew_a_worker(worker: CrashingWorker) -> Step:
    worker.lose_switch()
    return Step(worker.renew, (client_module._renew, replay._commit), 0)


def renew_during_a_push(worker: CrashingWorker) -> Step:
    for request in worker.begin_push(N_KEYS):
        worker.answer(request, 0b01110)
    worker.lose_switch()
    return Step(worker.renew, (client_module._renew, replay._commit), N_KEYS)


def begin_a_push_after_a_loss(worker: CrashingWorker) -> Step:
    """Begin the push after one that has outlived its switch, in which other slots had requests before."""
    first, *others = worker.begin_push(N_KEYS)
    answer = worker.answer(first, 0b01110)
    for request in others:
        worker.answer(request, 0b01110)
    if others:  # rows of one value are all in one request, whose answer is lost
        worker.receive(answer)
    worker.lose_switch()
    worker.renew()
    while not worker.client.idle:
        worker.now += 200 * MS
        worker.client.wake(worker.now)
        for request in wire.sent(worker.client):
            worker.receive(worker.answer(request, worker.random.getrandbits(32)))
    worker.ledger.close()
    push = partial(worker.client.push, 2, *worker.open_push(N_KEYS))
    return Step(push, (entry(COMPILED.start, worker),), N_KEYS)


def note_a_part(worker: CrashingWorker) -> Step:
    """Write the next part of the unreplayed updates into the log, after a part that is done."""
    prepare_replay(worker)
    n = COMPILED.next_unreplayed(worker.client.reference)
    positions, deltas = unreplayed_rows(worker, n)
    return Step(partial(worker.log.note, positions, deltas), (replay._commit,), 0)


def take_a_part(worker: CrashingWorker) -> Step:
    prepare_replay(worker)
    functions = (replay._commit, entry(COMPILED.take_unreplayed, worker))
    return Step(worker.client.replay, functions, worker.capacity)


def take_an_answer_to_a_replay(worker: CrashingWorker) -> Step:
    prepare_replay(worker)
    worker.client.replay()
    (request, *others) = wire.sent(worker.client)
    for other in others:
        worker.receive(worker.answer(other, 0))
    answer = worker.answer(request, worker.random.getrandbits(32))
    return Step(partial(worker.receive, answer), (entry(ops._receive, worker),), worker.capacity)


def restore_after_a_kill_in_note(worker: CrashingWorker) -> Step:
    """Come back, after a kill that left part of a part among the unreplayed updates."""
    prepare_replay(worker)
    n = COMPILED.next_unreplayed(worker.client.reference)
    worker.log.note(*unreplayed_rows(worker, n))
    COMPILED.take_unreplayed(worker.client.reference, n // 2)
    return Step(partial(worker.log.restore, (worker.switch,)), (replay._restore,), 0)


def restore_with_another_switch(worker: CrashingWorker) -> Step:
    worker.lose_switch()
    return Step(partial(worker.log.restore, (worker.switch,)), (replay._restore,), 0)


def end_a_push_as_successor(worker: CrashingWorker) -> Step:
    """Take the answers to the requests of a killed worker that had received none."""
    requests = worker.begin_push(N_KEYS)
    answers = [worker.answer(request, worker.random.getrandbits(32)) for request in requests]
    ending = PredecessorPush(
        worker.ledger.unfinished_push, in_flight.reopen(worker.files.requests), worker.space, worker.log
    )
    functions = (replay._acknowledge, replay._remove_mark, in_flight._store)

    def receive_all() -> None:
        for answer in answers:
            ending.receive(answer)

    return Step(receive_all, functions, N_KEYS)


def return_rows_of_a_part(worker: CrashingWorker) -> Step:
    """Make rows of a part unreplayed again, of which no request was sent."""
    prepare_replay(worker)
    worker.client.replay()
    worker.client.state.in_flight[:] = 0
    part = worker.log.unfinished_part
    return Step(part.return_unanswered, (replay._return_unanswered,), worker.capacity)


def give_a_push_up(worker: CrashingWorker) -> Step:
    worker.begin_push(N_KEYS)
    worker.client.state.in_flight[:] = 0
    return Step(worker.ledger.unfinished_push.give_up, (ledger._give_up,), N_KEYS)


def unreplayed_rows(worker: CrashingWorker, n: int) -> tuple[Any, Any]:
    """Return the positions and deltas of the `n` rows that `next_unreplayed` has found."""
    positions = worker.client.state.positions[:n]
    return positions, worker.client.state.deltas[: worker.space.count_values(positions)]


def prepare_replay(worker: CrashingWorker) -> None:
    """Leave the worker with unreplayed updates, some acknowledged ones, and a part that is done."""
    worker.lose_switch()
    worker.renew()
    while worker.client.has_unreplayed:
        worker.client.replay()
        for request in wire.sent(worker.client):
            worker.receive(worker.answer(request, worker.random.getrandbits(32)))
    worker.push(N_KEYS)
    worker.lose_switch()
    worker.renew()


STEPS = [
    open_a_push,
    close_a_push,
    take_an_answer,
    take_an_answer_of_the_switch,
    take_an_answer_to_a_query,
    retain_rows_without_an_answer,
    renew_a_worker,
    renew_during_a_push,
    begin_a_push_after_a_loss,
    note_a_part,
    take_a_part,
    take_an_answer_to_a_replay,
    restore_after_a_kill_in_note,
    restore_with_another_switch,
    end_a_push_as_successor,
    return_rows_of_a_part,
    give_a_push_up,
]
Prepare = Callable[[CrashingWorker], Step]


SCALARS = ONE_VALUE
ROWS = (RowRange(0, 4), RowRange(3, 1), RowRange(6, 8))
"""Rows of four, one and eight values, with rows of each in almost every push."""


def prepared(
    folder: Path, seed: int, prepare: Prepare, ranges: RowRanges, size: int = 9, is_plain: bool = False
) -> Any:
    """Return a worker with unreplayed and acknowledged updates of the same keys, and the step to kill."""
    folder.mkdir()
    worker = CrashingWorker(folder, plain_ops() if is_plain else COMPILED, seed, size, size, ranges)
    worker.push(N_KEYS)
    worker.push(N_KEYS)
    worker.lose_switch()
    worker.renew()
    while not (worker.log.acknowledged.astype(bool) & worker.log.unreplayed.astype(bool)).sum() > 1:
        worker.push(N_KEYS)
    return worker, prepare(worker)


@cache
def compile_step(prepare: Prepare, ranges: RowRanges) -> None:
    with TemporaryDirectory() as folder:
        _, step = prepared(Path(folder) / "warm", 0, prepare, ranges)
        step.call()


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """Folder of the files as a killed worker left them."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("ranges", [SCALARS, ROWS], ids=["scalars", "rows"])
@pytest.mark.parametrize("prepare", STEPS)
@pytest.mark.parametrize("seed", seeds(16))
def test_after_each_instruction_the_files_count_each_row_once(
    tmp_path: Path, elsewhere: Path, prepare: Prepare, seed: int, ranges: RowRanges
) -> None:
    compile_step(prepare, ranges)
    worker, step = prepared(tmp_path / "killed", seed, prepare, ranges, size=9 + 4 * seed)
    states = machine_states(step.functions, step.call, worker.files)
    assert len(states) > 1, "expected changes of the files, found none"
    for contents in states:
        worker.judge(contents, elsewhere, step.uncertain_keys)
        worker.judge_successor(contents, elsewhere)


@pytest.mark.parametrize("ranges", [SCALARS, ROWS], ids=["scalars", "rows"])
@pytest.mark.parametrize("prepare", STEPS)
def test_after_each_operation_of_the_source_the_files_count_each_row_once(
    tmp_path: Path, elsewhere: Path, prepare: Prepare, ranges: RowRanges, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where ptrace cannot stop a child, and for what numpy writes between compiled functions."""
    for module, names in (
        (ledger, ("_open_log", "_close_log", "_close_answered", "_give_up")),
        (replay, ("_commit", "_restore", "_acknowledge", "_remove_mark", "_return_unanswered")),
        (in_flight, ("_store",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, plain(getattr(module, name)))
    worker, step = prepared(tmp_path / "killed", 1, prepare, ranges, is_plain=True)
    states = source_states(step.call, worker.files)
    assert len(states) > 1
    for contents in states:
        worker.judge(contents, elsewhere, step.uncertain_keys)
        worker.judge_successor(contents, elsewhere)


KILLS = 10_000


@pytest.mark.soak
@pytest.mark.parametrize("ranges", [SCALARS, ROWS], ids=["scalars", "rows"])
@pytest.mark.parametrize("prepare", STEPS)
def test_kills_at_random_instructions_leave_files_that_count_each_row_once(
    tmp_path: Path, elsewhere: Path, prepare: Prepare, ranges: RowRanges
) -> None:
    """Real kills; each step gets its share, half of it within a few instructions of a store to a file."""
    worker, step = prepared(tmp_path / "killed", 5, prepare, ranges, size=20)
    contents = [path.read_bytes() for path in worker.files]
    stores, random = storing_instructions(step.functions, step.call, worker.files), Random(7)
    judged, n_kills, share = set(), 0, -(-KILLS // len(STEPS))
    for k in range(share):
        near_a_store = random.choice(stores) + random.randint(-2, 2)
        instruction = random.randint(1, stores[-1]) if k % 2 else near_a_store
        for path, content in zip(worker.files, contents, strict=True):
            with path.open("r+b") as file:
                file.write(content)
        n_kills += killed_after(step.functions, step.call, max(instruction, 1))
        state = tuple(path.read_bytes() for path in worker.files)
        if state not in judged:
            worker.judge(state, elsewhere, step.uncertain_keys)
            worker.judge_successor(state, elsewhere)
            judged.add(state)
    assert n_kills > share * 9 // 10  # a few come after the last instruction
    assert len(judged) > 1


def test_unused_contents_of_the_undo_log_and_of_a_part_are_not_read(tmp_path: Path, elsewhere: Path) -> None:
    """So these arrays may be written in any order, and be torn."""
    worker, _ = prepared(tmp_path / "w", 3, renew_a_worker, ROWS)
    ledger_arrays, log_arrays = worker.ledger._arrays, worker.log._arrays
    of_ledger = [array for name, array in ledger_arrays._asdict().items() if name not in ("head", "sums")]
    of_log = [array for name, array in log_arrays._asdict().items() if name not in ("head", "words")]
    for array in (*of_ledger, *of_log, log_arrays.words[1 - UNDO_WORDS :]):
        array.view(np.uint8)[:] = 0xFF
    worker.judge(tuple(path.read_bytes() for path in worker.files), elsewhere)


# -- what else writes these files


def test_every_function_that_writes_a_mapped_file_is_tested_by_kills() -> None:
    mapped = {
        source.relative_to(ROOT).as_posix()
        for source in SOURCES
        if 'mode="r+"' in source.read_text() or "ACCESS_WRITE" in source.read_text()
    }
    assert mapped == {"hosts/ledger.py", "hosts/replay.py", "hosts/in_flight.py"}
    # Agents of Scapy have no recovery. Their ledger has one writer, plain Python, which stores in order.
    writers = {
        f"{source.relative_to(ROOT).as_posix()}: {name}"
        for source in SOURCES
        if source.parent.name != "scapy"
        for name in writers_of(ast.parse(source.read_text()), is_file=source.name in FILE_MODULES)
    }
    assert writers == {
        "hosts/ledger.py: open",  # what does not count yet
        "hosts/ledger.py: _open_log",
        "hosts/ledger.py: _close_log",
        "hosts/ledger.py: retain_unanswered",  # what does not count yet
        "hosts/ledger.py: _give_up",  # one store
        "hosts/ledger.py: _close_answered",
        "hosts/replay.py: in_memory",  # no file
        "hosts/replay.py: reset_head",  # of a log in memory
        "hosts/replay.py: note",  # what does not count yet
        "hosts/replay.py: _commit",
        "hosts/replay.py: _restore",
        "hosts/replay.py: _return_unanswered",
        "hosts/replay_words.py: acknowledge",
        "hosts/replay_words.py: mark_row",
        "hosts/replay_words.py: mark_logged",
        "hosts/replay_words.py: remove_mark",
        "hosts/replay_words.py: undo_marked_row",
        "hosts/replay_words.py: set_unreplayed",
        "hosts/replay_words.py: make_unreplayed",
        "hosts/in_flight.py: _store",  # one store: a request is in flight, or is not
        "hosts/succession.py: _settle",
        "hosts/succession.py: _mark_logged_row",  # one store
        "packages/agents/src/hotline_agents/worker/window.py: mark_in_flight",  # one store
        "packages/agents/src/hotline_agents/worker/window.py: vacate_slot",  # one store
        "packages/agents/src/hotline_agents/hotset/worker/recovery.py: mark_answered",
        "packages/agents/src/hotline_agents/hotset/worker/recovery.py: renew",
        "packages/agents/src/hotline_agents/hotset/worker/requests.py: forget_lost_requests",
        "packages/agents/src/hotline_agents/none/worker.py: receive",
    }


FILE_MODULES = ("ledger.py", "replay.py", "replay_words.py")
"""Modules whose arrays are those of mapped files."""


def writers_of(tree: ast.AST, is_file: bool) -> Iterator[str]:
    """Yield the functions that store items of `answered`, or of any attribute in a module of a file."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            targets: list[ast.expr] = []
            if isinstance(node, ast.Assign):
                targets = node.targets
            elif isinstance(node, ast.AugAssign):
                targets = [node.target]
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "store_item_release":
                yield function.name
            for target in targets:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    if not isinstance(part, ast.Subscript) or not isinstance(part.value, ast.Attribute):
                        continue
                    if is_file or part.value.attr == "answered":
                        yield function.name


def test_a_worker_without_a_switch_marks_only_lanes_that_its_server_has_added(tmp_path: Path) -> None:
    """The designs without a replay log: each answered lane is one store."""
    path, left = tmp_path / "ledger", tmp_path / "left"
    book = Ledger(JOB, 1, KeySpace(9), 9, path)
    client = NONE.client(Caller(JOB, 1, 1), 1, KeySpace(9), lambda: 0, max_keys=9)
    positions, deltas = np.array([1, 3, 5, 8]), np.array([1, 2**32 - 1, 7, 9], np.uint32)

    def begin_push() -> Callable[[], None]:
        client.push(1, positions, deltas, book.open(positions, deltas))
        (request,) = wire.sent(client)
        return partial(client.receive, wire.reply(unpack(request)), 0, 0)

    begin_push()()  # so that the function is compiled
    book.close()
    functions = [cast(Any, ops._receive).entry_point_for(client.state)]
    states = machine_states(functions, begin_push(), [path])
    assert len(states) == 1 + len(positions)
    for n, (content,) in enumerate(states):
        left.write_bytes(content)
        sums = ledger.read(left)
        assert (sums.lanes_sent, sums.lanes_unknown) == (len(positions) + n, len(positions) - n)
        assert (sums.sent + sums.unknown)[positions].tolist() == (2 * deltas).tolist()
