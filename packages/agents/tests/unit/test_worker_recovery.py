"""A worker after a loss of its switch: its questions, its replay, and its log as a file."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from foundation.protocol import control
from foundation.protocol.codec import Caller
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.hashing import ps_of
from foundation.protocol.header import Header, Op, unpack
from foundation.protocol.leaf_spine import ServerHomes
from foundation.protocol.rows import ONE_VALUE, RowRange, RowRanges
from hosts import replay
from hosts.keys import KeySpace
from hosts.ledger import LedgerError
from hosts.replay import NO_SWITCHES, ReplayLog, read_unacked
from hosts.replay_words import UNDO_WORDS
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps, plain_ops
from switch_harness.wording import mentions
from tests.harness import wire

SIZE, CAPACITY, JOB = 40, 20, 3
SPACE = KeySpace(SIZE)
MS = 1_000_000


class Bench:
    """A worker and the one PS; tests play the network and the switch."""

    def __init__(self, ops: AnyWorkerOps, window: int = 64) -> None:
        self.now = 1_000 * MS
        self.log = ReplayLog.in_memory(np.zeros(SIZE + UNDO_WORDS, np.int64), KeySpace(SIZE), SIZE)
        self.worker = HotsetClient(
            Caller(JOB, 1, 10), 1, SPACE, lambda: self.now, window, ops=ops, log=self.log
        )
        self.ps = ParameterServer[str](0, 1, SPACE, {JOB: 5}, lambda: self.now, has_replay_logs=True)
        self.answered = np.zeros(SIZE, np.bool_)

    def push(self, *keys: int, value: int = 1) -> list[bytes]:
        self.answered[:] = False
        self.worker.push(1, np.array(keys), np.full(len(keys), value, np.uint32), self.answered)
        return self.sent()

    def sent(self) -> list[bytes]:
        return wire.sent(self.worker)

    def by_ps(self, request: bytes) -> bytes:
        answer = self.ps.handle(request, self.now, self.now, "worker")
        assert answer is not None
        return answer[1]

    def by_switch(self, request: bytes) -> bytes:
        """Return the switch's answer with all lanes served."""
        h = unpack(request)
        return wire.reply(h, served=h.live)

    def take(self, answer: bytes) -> None:
        self.worker.receive(answer, self.now, self.now)

    def finish(self) -> list[Header]:
        """Let the PS answer all requests until the replay has ended; return them."""
        asked = []
        for _ in range(50):
            for request in self.sent():
                asked.append(unpack(request))
                self.take(self.by_ps(request))
            if self.worker.idle:
                if not self.worker.has_unreplayed:
                    return asked
                self.worker.replay()
                continue
            self.now += 200 * MS
            self.worker.wake(self.now)
        raise AssertionError("does not end")

    def held(self) -> list[int]:
        values: list[int] = self.ps.stores[JOB].contents().values.tolist()
        return values


@pytest.fixture(params=[COMPILED, plain_ops()], ids=["compiled", "plain"])
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param)


def test_updates_that_only_the_lost_switch_had_are_pushed_again(bench: Bench) -> None:
    for request in bench.push(1, 2, value=7):
        bench.take(bench.by_switch(request))
    for request in bench.push(2, 3, value=100):
        bench.take(bench.by_ps(request))
    assert bench.worker.idle and not bench.worker.has_unreplayed
    assert bench.log.acknowledged.nonzero()[0].tolist() == [1, 2] and bench.held()[1:4] == [0, 100, 100]
    bench.worker.renew(11)
    assert bench.worker.has_unreplayed and not bench.log.acknowledged.any()
    asked = bench.finish()
    assert {each.epoch for each in asked} == {11} and {each.op for each in asked} == {Op.PUSH}
    assert bench.held()[1:4] == [7, 107, 100]
    assert not bench.log.words.any() and not bench.worker.has_unreplayed


def test_a_push_that_reached_its_server_is_queried_and_not_added_again(bench: Bench) -> None:
    requests = bench.push(*range(20), value=3)
    reached = requests[: len(requests) // 2] or requests
    for request in reached:
        bench.by_ps(request)  # the answer is lost with the switch
    bench.worker.renew(11)
    asked = bench.finish()
    questions = [each for each in asked if each.op == Op.EMPTY]
    assert sorted(each.iteration for each in questions) == sorted(unpack(each).seq for each in requests)
    assert {each.t0 for each in questions} == {10}
    assert bench.held()[:21] == [3] * 20 + [0] and bench.answered[:20].all()
    # A late copy of what has been asked about adds nothing any more.
    for request in requests:
        bench.by_ps(request)
    assert bench.held()[:21] == [3] * 20 + [0]


def test_only_lanes_that_the_switch_had_are_pushed_again(bench: Bench) -> None:
    """The answer is lost: the PS knows its lanes, those of the switch are gone."""
    (request,) = bench.push(1, 2, 3, value=5)
    h = unpack(request)
    first = h.live & -h.live
    marked = bytearray(request)
    marked[28:32] = first.to_bytes(4, "big")
    bench.by_ps(bytes(marked))
    bench.worker.renew(11)
    bench.finish()
    assert bench.held()[1:4] == [5, 5, 5]
    assert not bench.log.words.any()


def test_a_second_switch_may_be_lost_during_queries_about_the_first(bench: Bench) -> None:
    requests = bench.push(*range(12), value=2)
    for request in requests:
        bench.by_ps(request)
    bench.worker.renew(11)
    questions = bench.sent()
    for question in questions:
        bench.by_ps(question)
    bench.worker.renew(12)
    asked = bench.finish()
    again = [each for each in asked if each.op == Op.EMPTY]
    # What is asked is still what became of the push, not of the question.
    assert {(each.iteration, each.t0) for each in again} == {(unpack(each).seq, 10) for each in requests}
    assert bench.held()[:13] == [2] * 12 + [0]


def test_updates_acknowledged_by_the_new_switch_are_not_replayed(bench: Bench) -> None:
    for request in bench.push(1, value=7):
        bench.take(bench.by_switch(request))
    requests = bench.push(2, value=9)
    bench.worker.renew(11)
    for question in bench.sent():
        bench.take(bench.by_ps(question))
    bench.now += 200 * MS
    bench.worker.wake(bench.now)
    for request in bench.sent():
        bench.take(bench.by_switch(request))  # the new one has the key by now
    assert bench.worker.idle and requests
    assert (bench.log.acknowledged[2], bench.log.unreplayed[1], bench.log.unreplayed[2]) == (9, 7, 0)
    bench.finish()
    assert bench.held()[1:3] == [7, 0] and bench.log.acknowledged[2] == 9


@pytest.mark.parametrize("seed", range(20))
def test_the_plain_twin_leaves_the_same_bytes(seed: int) -> None:
    """Answers and failures of the switch are random."""
    random = Random(seed)
    twins = [Bench(ops, window=4) for ops in (COMPILED, plain_ops())]
    epoch = 100
    for _ in range(60):
        chance, choice = random.random(), random.getrandbits(32)
        epoch += 1 + choice % 1000
        keys = random.sample(range(SIZE), 9)
        waiting = [bench.sent() for bench in twins]
        assert waiting[0] == waiting[1]
        for bench, requests in zip(twins, waiting, strict=True):
            for k, request in enumerate(requests):
                if choice >> k & 1:
                    is_hot = choice >> (k + 8) & 1 and unpack(request).op != Op.EMPTY
                    bench.take(bench.by_switch(request) if is_hot else bench.by_ps(request))
            if chance < 0.15:
                bench.worker.renew(epoch)
            elif bench.worker.idle and bench.worker.has_unreplayed:
                bench.worker.replay()
            elif bench.worker.idle:
                bench.push(*keys, value=choice % 1000)
            else:
                bench.now += 200 * MS
                bench.worker.wake(bench.now)
        states: list[Any] = [twin.worker.state for twin in twins]
        for one, other in zip(*states, strict=True):
            assert one.tobytes() == other.tobytes()
        assert twins[0].held() == twins[1].held()


# -- the PS's books


def renewed(ps: ParameterServer[str], epoch: int, seq: int) -> None:
    command = Control(Command.RENEW, JOB, 0, epoch=1, seq=seq, keys=np.array([epoch], np.uint64))
    ps.handle(control.build(command), 0, 0, "controller")
    ((answer, _),) = ps.control_answers()
    assert control.parse(answer).status is Status.OK


@pytest.mark.parametrize("has_replay_logs", [True, False])
def test_a_server_reclaims_the_values_that_the_switch_held(has_replay_logs: bool) -> None:
    """Workers push again what the switch returned beyond what it was given, if they replay."""
    ps = ParameterServer[str](0, 1, SPACE, {JOB: 5}, lambda: 0, has_replay_logs=has_replay_logs)
    store = ps.stores[JOB]
    at = store.locate(np.array([1, 2], np.uint64))
    store.release(at)
    store.reclaim(at, np.array([10, 20], np.uint32))  # which is what workers have added there
    store.release(at[:1])
    assert store.values(at).tolist() == [0, 20] and store.is_owned(at).tolist() == [False, True]
    renewed(ps, 5, seq=0)  # the switch that it knows
    assert store.values(at).tolist() == [0, 20] and store.is_owned(at).tolist() == [False, True]
    for seq in (4, 8):  # another one, and what is asked twice
        renewed(ps, 6, seq)
        assert store.values(at).tolist() == ([0, 0] if has_replay_logs else [10, 20])
        assert store.is_owned(at).tolist() == [True, True]


# -- the log as a file


def test_the_log_outlives_the_process(tmp_path: Path) -> None:
    first = ReplayLog.in_file(KeySpace(SIZE), CAPACITY, (0,), tmp_path / "log")
    assert first.acknowledged.shape == first.unreplayed.shape == (SIZE,) and not first.has_unreplayed
    first.acknowledged[3], first.unreplayed[4] = 30, 40
    again = ReplayLog.in_file(KeySpace(SIZE), CAPACITY, (0,), tmp_path / "log")
    assert (again.acknowledged[3], again.unreplayed[4], again.has_unreplayed) == (30, 40, True)


def test_updates_that_an_earlier_switch_held_are_unreplayed(tmp_path: Path) -> None:
    first = ReplayLog.in_file(KeySpace(SIZE), CAPACITY, (0,), tmp_path / "log")
    first.acknowledged[3], first.unreplayed[3] = 30, 2**32 - 10
    first.set_switch(1)
    assert ReplayLog.in_file(KeySpace(SIZE), CAPACITY, (1,), tmp_path / "log").acknowledged[3] == 30
    again = ReplayLog.in_file(KeySpace(SIZE), CAPACITY, (2,), tmp_path / "log")
    assert (again.acknowledged[3], again.unreplayed[3]) == (0, 20)
    once = ReplayLog.in_file(KeySpace(SIZE), CAPACITY, (2,), tmp_path / "log")
    assert once.unreplayed[3] == 20
    worker = HotsetClient(Caller(JOB, 1, 10), 1, SPACE, lambda: 0, log=once)
    assert worker.has_unreplayed and once.has_unreplayed


@pytest.mark.parametrize("ranges", [ONE_VALUE, (RowRange(0, 1), RowRange(10, 4))])
@pytest.mark.parametrize("lost_homes", [(), (0,), (1,), (0, 1), (2,), (0, 2)])
@pytest.mark.parametrize("homes", [((1, 0, 1),), ((1, 0, 1), (2, 2, 2))], ids=["a level", "two levels"])
def test_a_lost_home_makes_the_updates_of_its_servers_alone_unreplayed(
    tmp_path: Path, ranges: RowRanges, lost_homes: tuple[int, ...], homes: ServerHomes
) -> None:
    """Three servers have two homes, and perhaps a third. A restarted worker and a reader find the same."""
    space, n_homes = KeySpace(SIZE, None, ranges), 1 + max(map(max, homes))
    home_of_value = [
        of_servers[ps_of(key, len(of_servers))]
        for of_servers in homes
        for key, dim in enumerate(space.dims_at(np.arange(SIZE)).tolist())
        for _ in range(dim)
    ]
    numbers = (4, 7, 1)[:n_homes]
    log = ReplayLog.in_file(space, CAPACITY, numbers, tmp_path / "log", homes)
    log.acknowledged[:] = deltas = np.arange(1, len(home_of_value) + 1, dtype=np.uint32)
    expected = np.where(np.isin(home_of_value, lost_homes), deltas, 0)
    switches = tuple(number + (home in lost_homes) for home, number in enumerate(numbers))
    in_memory = ReplayLog.in_memory(log.words.copy(), space, CAPACITY, homes)
    in_memory.restore((0,) * n_homes)
    in_memory.acknowledged[:] = deltas
    in_memory.restore(tuple(home in lost_homes for home in range(n_homes)))
    assert (in_memory.unreplayed == expected).all()
    for unreplayed in (log.unacked(switches).lost, read_unacked(tmp_path / "log", switches).lost):
        assert (unreplayed == expected.reshape(len(homes), -1).sum(axis=0)).all()
    again = ReplayLog.in_file(space, CAPACITY, switches, tmp_path / "log", homes)
    assert (again.unreplayed == expected).all() and (again.acknowledged == deltas - expected).all()
    assert again.switch_numbers == switches
    every = deltas.reshape(len(homes), -1).sum(axis=0)
    assert (read_unacked(tmp_path / "log", NO_SWITCHES).lost == every).all()


@pytest.mark.parametrize("answered", range(4))
def test_the_log_of_a_worker_that_dies_in_a_replay_tells_its_unreplayed_updates(
    bench: Bench, answered: int
) -> None:
    """Acknowledged lanes are removed, all others are unknown; no held sum is forgotten."""
    for request in bench.push(1, 2, 3, value=7):
        bench.take(bench.by_switch(request))
    replay.renew(bench.worker, bench.log, 11, switch=1)
    owed = bench.log.unacked((1,))
    assert owed.lost[:5].tolist() == [0, 7, 7, 7, 0] and not owed.unknown.any()
    bench.worker.replay()
    (request,) = bench.sent()
    lanes = unpack(request).live
    taken = sum([1 << k for k in range(32) if lanes >> k & 1][:answered])
    answer = bytearray(bench.by_ps(request))
    answer[32:36] = (lanes & ~taken).to_bytes(4, "big")  # refused
    bench.take(bytes(answer))
    owed = bench.log.unacked((1,))
    assert not owed.lost.any()
    assert sorted(owed.unknown[1:4].tolist()) == [0] * answered + [7] * (3 - answered)
    # With another switch, the updates that this one holds are unreplayed, too.
    bench.log.acknowledged[9] = 5
    assert bench.log.unacked((2,)).lost.nonzero()[0].tolist() == [9]


def test_a_part_noted_in_the_log_is_unreplayed_until_its_removal(bench: Bench) -> None:
    """The worker is killed in the middle of the second of two writes."""
    bench.log.unreplayed[:4] = 1, 2, 3, 4
    bench.log.note(np.array([0, 1, 2]), np.array([1, 2, 3], np.uint32))
    bench.log.unreplayed[:2] = 0
    owed = bench.log.unacked((0,))
    assert owed.lost[:5].tolist() == [1, 2, 3, 4, 0] and not owed.unknown.any()
    bench.log.restore((0,))
    assert bench.log.unreplayed[:5].tolist() == [1, 2, 3, 4, 0]


def test_repeated_and_late_renewals_replay_nothing(bench: Bench) -> None:
    replay.renew(bench.worker, bench.log, 11, switch=1)
    bench.finish()
    for request in bench.push(1, value=7):
        bench.take(bench.by_switch(request))
    replay.renew(bench.worker, bench.log, 11, switch=1)
    assert not bench.worker.has_unreplayed and bench.log.acknowledged[1] == 7
    replay.renew(bench.worker, bench.log, 12, switch=2)
    assert bench.worker.has_unreplayed and bench.log.unreplayed[1] == 7
    bench.finish()
    replay.renew(bench.worker, bench.log, 11, switch=1)
    assert not bench.worker.has_unreplayed and bench.log.switch_numbers == (2,)
    assert [unpack(request).epoch for request in bench.push(1, value=7)] == [12]


LOG_BYTES = 8 * 8 + 8 + 8 * (SIZE + UNDO_WORDS) + (8 + 8 + 4 + 1) * CAPACITY


def test_an_invalid_replay_log_is_refused(tmp_path: Path) -> None:
    ReplayLog.in_file(KeySpace(SIZE), CAPACITY, (0,), tmp_path / "log")
    with pytest.raises(LedgerError, match=mentions("log", 41, LOG_BYTES + 8, LOG_BYTES)):
        ReplayLog.in_file(KeySpace(SIZE + 1), CAPACITY, (0,), tmp_path / "log")
    (tmp_path / "zeros").write_bytes(bytes(LOG_BYTES))
    with pytest.raises(LedgerError, match=mentions("zeros", "replay")):
        read_unacked(tmp_path / "zeros", (0,))
    with pytest.raises(LedgerError, match=mentions("nowhere", "read")):
        read_unacked(tmp_path / "nowhere", (0,))
    with pytest.raises(LedgerError, match=mentions("zeros", "replay")):
        ReplayLog.in_file(KeySpace(SIZE), CAPACITY, (0,), tmp_path / "zeros")
