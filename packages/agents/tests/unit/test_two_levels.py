"""A server whose rows are at one of two homes, its leaf and a spine, in design hotset, and its workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from foundation.protocol import codec, control
from foundation.protocol.codec import Caller, Message
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.header import (
    MAX_EPOCHS,
    PS_BITS,
    PS_CALLER_BASE,
    PS_MASK,
    WINDOW_BITS,
    Op,
    unpack,
)
from foundation.protocol.leaf_spine import LEVELS, LeafSpine
from hosts.keys import KeySpace
from hosts.replay import ReplayLog
from hosts.replay_words import UNDO_WORDS
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps, plain_ops
from switch_harness.effort import examples
from tests.harness import wire
from tests.harness.wire import MODULUS, reply, rpc

JOB, EPOCH, MS = 1, 5, 1_000_000
SPACE, SERVERS = KeySpace(64), 2
KEYS_OF_MODEL = [key for key in range(64) if ps_of(key, SERVERS) == 0][:4]
A, B = KEYS_OF_MODEL[:2]
JOURNAL_BYTES = 1 << 20


class Homes:
    """Server 0, and the rows of its two homes as plain values."""

    def __init__(self) -> None:
        self.ps = self._new_server()
        self.rows: list[dict[int, int]] = [{} for _ in range(LEVELS)]
        self._checkpoint: dict[str, bytes] = {}
        self._seqs, self._worker_seq = [0] * LEVELS, 0

    @staticmethod
    def _new_server() -> ParameterServer[str]:
        return ParameterServer(
            0, SERVERS, SPACE, {JOB: EPOCH}, lambda: 0, journal_bytes=JOURNAL_BYTES, has_replay_logs=True,
            homes=LEVELS,
        )  # fmt: skip

    def restart(self) -> None:
        """Kill the server, and recover it from its checkpoint and journal."""
        notes = self.ps.server.notes
        self.ps = self._new_server()
        self.ps.recover(self._checkpoint, [notes])
        self._checkpoint = dict(self.ps.checkpoint())
        self.ps.server.forget_notes()

    def command(self, command: Command, keys: list[int], level: int, controller: int = 3) -> Status:
        """Have the server execute a command of the controller of a home, which answers its RPCs."""
        self._seqs[level] += 4
        number = level << PS_BITS
        request = Control(command, JOB, number, controller, self._seqs[level], np.array(keys, np.uint64))
        assert self.ps.handle(control.build(request), 0, 0, "controller") is None
        while requests := [bytes(datagram) for datagram in self.ps.transmit()]:
            for datagram in requests:
                self.ps.receive_rpc_answer(self._at_home(codec.parse(datagram)), 0)
        [answer] = [control.parse(datagram) for datagram, _ in self.ps.control_answers()]
        return answer.status

    def _at_home(self, request: Message) -> bytes:
        header = request.header
        level = header.ps >> PS_BITS
        rows = self.rows[level]
        assert (header.ps, header.worker) == (level << PS_BITS, PS_CALLER_BASE | level << PS_BITS)
        assert request.keys is not None
        served, values = 0, [0] * header.count
        for lane, key in enumerate(request.keys.tolist()):
            if header.live >> lane & 1 and key in rows:
                served |= 1 << lane
                if header.op == Op.PUSH:
                    assert request.values is not None
                    rows[key] = (rows[key] + int(request.values[lane])) % MODULUS
                values[lane] = rows[key]
        return reply(header, values if header.op == Op.PULL else 0, served=served)

    def worker(self, op: Op, key: int, value: int, level: int) -> bool:
        """Send a row to the server through a home without the row; return whether the server refuses it."""
        self._worker_seq += 1
        request = rpc(
            op, [key], [value] if op == Op.PUSH else None, job=JOB, worker=7, epoch=2,
            seq=self._worker_seq << 6, ps=level << PS_BITS,
        )  # fmt: skip
        answered = self.ps.handle(request, 0, 0, "worker")
        assert answered is not None
        return bool(codec.parse(bytes(answered[1])).header.refused)

    def sum_of(self, key: int) -> int:
        contents = self.ps.stores[JOB].contents()
        held = int(contents.values[contents.keys.tolist().index(key)])
        return (held + sum(rows.get(key, 0) for rows in self.rows)) % MODULUS


def seeded(level: int, *keys: int) -> Homes:
    homes = Homes()
    homes.rows[level] |= dict.fromkeys(keys, 0)
    assert homes.command(Command.SEED, [*keys], level) is Status.OK
    return homes


@pytest.mark.parametrize("level", range(LEVELS))
def test_a_home_gets_no_row_of_the_other_home(level: int) -> None:
    homes, other = seeded(level, A), 1 - level
    homes.rows[level][A] = 9
    homes.rows[other] |= {A: 0, B: 0}
    for command in (Command.SEED, Command.VALUES):
        assert homes.command(command, [A, B], other) is Status.NOT_OWNED
    assert not homes.worker(Op.PUSH, B, 4, other)
    # Its entry may go, and nothing is taken from the home that has the row.
    assert homes.command(Command.COLLECT, [A], other) is Status.OK
    assert homes.rows[level] == {A: 9} and homes.worker(Op.PULL, A, 0, other)
    assert homes.command(Command.COLLECT, [A], level) is Status.OK
    assert homes.command(Command.SEED, [A, B], other) is Status.OK
    assert homes.rows == [{A: 0}, {A: 9, B: 4}][:: 1 if other else -1]


@pytest.mark.parametrize("lost", range(LEVELS))
def test_the_loss_of_a_home_gives_back_its_rows_alone(lost: int) -> None:
    homes, other = seeded(0, A), 1 - lost
    homes.rows[1][B] = 0
    assert homes.command(Command.SEED, [B], 1) is Status.OK
    homes.rows[lost] = {}
    assert homes.command(Command.RENEW, [EPOCH + 1], lost) is Status.OK
    of_lost, of_other = (A, B) if lost == 0 else (B, A)
    assert not homes.worker(Op.PULL, of_lost, 0, other)
    assert homes.worker(Op.PULL, of_other, 0, lost)


@pytest.mark.parametrize("restarted", range(LEVELS))
def test_restarts_of_one_home_displace_no_epoch_of_the_other_home(restarted: int) -> None:
    homes, kept = Homes(), 1 - restarted

    def push(level: int, epoch: int, turn: int) -> bool:
        seq = turn << WINDOW_BITS | 32 * level
        request = rpc(Op.PUSH, [A], [1], job=JOB, worker=7, epoch=epoch, seq=seq, ps=level << PS_BITS)
        return homes.ps.handle(request, 0, 0, "worker") is not None

    for n in range(1, 2 * MAX_EPOCHS):
        assert push(restarted, n, 1) and push(kept, 1, n)
    assert homes.sum_of(A) == 2 * (2 * MAX_EPOCHS - 1)


class TwoHomes(RuleBasedStateMachine):
    """Random pushes, moves, also between homes, kills of the server and restarts of homes, beside sums."""

    keys = st.sampled_from(KEYS_OF_MODEL)
    levels = st.integers(0, LEVELS - 1)

    def __init__(self) -> None:
        super().__init__()
        self.homes = Homes()
        self.sums: dict[int, int] = defaultdict(int)
        self.acknowledged: list[dict[int, int]] = [defaultdict(int) for _ in range(LEVELS)]
        """What each home has acknowledged since its start, which workers replay if it is lost."""
        self.epoch = EPOCH

    @rule(key=keys, value=st.integers(0, MODULUS - 1), level=levels)
    def push(self, key: int, value: int, level: int) -> None:
        rows = self.homes.rows[level]
        if key in rows:
            rows[key] = (rows[key] + value) % MODULUS
            self.acknowledged[level][key] += value
        else:
            is_refused = self.homes.worker(Op.PUSH, key, value, level)
            assert is_refused == (key in self.homes.rows[1 - level])
            if is_refused:
                return
        self.sums[key] += value

    @rule(keys=st.sets(keys, min_size=1), level=levels)
    def seed(self, keys: set[int], level: int) -> None:
        homes = self.homes
        new = keys - set(homes.rows[level])
        is_free = not keys & set(homes.rows[1 - level])
        homes.rows[level] |= dict.fromkeys(new, 0)
        status = homes.command(Command.SEED, sorted(keys), level)
        assert status is (Status.OK if is_free else Status.NOT_OWNED)
        if not is_free:
            for key in new:
                del homes.rows[level][key]

    @rule(keys=st.sets(keys, min_size=1), level=levels)
    def collect(self, keys: set[int], level: int) -> None:
        assert self.homes.command(Command.COLLECT, sorted(keys), level) is Status.OK
        for key in keys & set(self.homes.rows[level]):
            assert self.homes.rows[level].pop(key) == 0

    @rule(keys=st.sets(keys, min_size=1), level=levels)
    def move(self, keys: set[int], level: int) -> None:
        """Move rows from one home to the other: COLLECT, then SEED."""
        moved = keys & set(self.homes.rows[level])
        if moved:
            self.collect(moved, level)
            self.seed(moved, 1 - level)

    @rule()
    def kill_server(self) -> None:
        self.homes.restart()

    @rule(level=levels)
    def restart_home(self, level: int) -> None:
        hot, self.homes.rows[level] = set(self.homes.rows[level]), {}
        self.epoch += 1
        assert self.homes.command(Command.RENEW, [self.epoch], level) is Status.OK
        for key, value in self.acknowledged[level].items():
            # A row that the other home has got since is pushed there.
            other = self.homes.rows[1 - level]
            if key in other:
                other[key] = (other[key] + value) % MODULUS
                self.acknowledged[1 - level][key] += value
            else:
                assert not self.homes.worker(Op.PUSH, key, value % MODULUS, level)
        self.acknowledged[level].clear()
        if hot:
            self.seed(hot, level)

    @invariant()
    def each_push_is_added_once_where_its_row_is(self) -> None:
        for key in KEYS_OF_MODEL:
            assert self.homes.sum_of(key) == self.sums[key] % MODULUS
            for rows in self.homes.rows:
                assert rows.get(key, self.sums[key] % MODULUS) == self.sums[key] % MODULUS


TwoHomes.TestCase.settings = settings(max_examples=examples(60), deadline=None)
TestTwoHomes = TwoHomes.TestCase


# -- workers

NETWORK = LeafSpine(workers=1, servers=3, leaves=3, place="both")
LARGE = KeySpace(600)


def worker_with_log(ops: AnyWorkerOps = COMPILED) -> HotsetClient:
    words = np.zeros(LEVELS * LARGE.size + UNDO_WORDS, np.int64)
    log = ReplayLog.in_memory(words, LARGE, LARGE.size, NETWORK.home_indexes)
    worker = HotsetClient(Caller(JOB, 1, EPOCH), 3, LARGE, lambda: MS, ops=ops, log=log)
    worker.set_homes(NETWORK.home_indexes)
    return worker


class Network:
    """Three leaves and a spine with rows, and servers with all other rows, for one worker."""

    def __init__(self, upper: set[int], lower: set[int]) -> None:
        self.rows = [lower, upper]
        self.added: dict[int, list[int]] = defaultdict(list)
        """Key -> levels of the homes that have added the deltas of its pushes; -1 for a server."""

    def answer(self, request: bytes) -> bytes:
        message, header = codec.parse(request), unpack(request)
        level, ps, served, refused = header.ps >> PS_BITS, header.ps & PS_MASK, 0, 0
        assert message.keys is not None
        for lane, key in enumerate(message.keys.tolist()):
            if not header.live >> lane & 1:
                continue
            number = ps_of(key, 3) | level << PS_BITS
            is_here = NETWORK.home_of(number) == NETWORK.home_of(header.ps)
            if key in self.rows[level] and is_here and lane_of(key) == lane:
                served |= 1 << lane
                self.added[key].append(level)
            elif ps_of(key, 3) != ps or key in self.rows[0] | self.rows[1]:
                refused |= 1 << lane
            else:
                self.added[key].append(-1)
        return reply(
            header, [0] * header.count if header.op == Op.PULL else 0, served=served, refused=refused
        )

    def finish(self, worker: HotsetClient) -> Iterator[bytes]:
        """Answer all requests of an operation; yield them."""
        now = MS
        while not worker.idle:
            for request in wire.sent(worker):
                yield request
                worker.receive(self.answer(request), now, now)
            now += 100 * MS
            worker.wake(now)


partitions = st.lists(st.sampled_from(["upper", "lower", "server"]), min_size=600, max_size=600)


@pytest.mark.parametrize("ops", [COMPILED, plain_ops()], ids=["compiled", "plain"])
@settings(max_examples=examples(15), deadline=None)
@given(places=partitions, seed=st.integers(0, 2**32 - 1))
def test_a_worker_finds_each_row_at_either_level_and_keeps_to_the_level(
    ops: AnyWorkerOps, places: list[str], seed: int
) -> None:
    chance, worker = np.random.default_rng(seed), worker_with_log(ops)
    network = Network(*({key for key in range(600) if places[key] == name} for name in ("upper", "lower")))
    # Hints are wrong at first.
    hinted = chance.permutation(600)[: chance.integers(0, 600)].astype(np.uint64)
    worker.hint(hinted, int(chance.integers(0, len(hinted) + 1)))
    slots: dict[int, set[int]] = defaultdict(set)
    for n in range(2):
        network.added.clear()
        worker.push(n, np.arange(600), np.ones(600, np.uint32), np.zeros(600, np.bool_))
        requests = list(network.finish(worker))
        expected = {"upper": [1], "lower": [0], "server": [-1]}
        assert network.added == {key: expected[places[key]] for key in range(600)}
        for header in map(unpack, requests):
            slots[NETWORK.home_of(header.ps)].add(header.seq & 63)
    # All hints are right after the first push, so no row is refused in the second one, and none goes twice.
    assert sum(unpack(request).live.bit_count() for request in requests) == 600
    homes = [*slots.values()]
    assert all(not one & other for k, one in enumerate(homes) for other in homes[:k])


def test_a_lost_level_makes_its_part_alone_unreplayed_and_a_row_is_replayed_once() -> None:
    """A row that the leaf had acknowledged has moved to the spine, which has acknowledged more of it."""
    worker, key = worker_with_log(), 7
    for upper, lower, value in ((set[int](), {key}, 5), ({key}, set[int](), 9)):
        answered = np.zeros(600, np.bool_)
        worker.push(1, np.array([key]), np.array([value], np.uint32), answered)
        list(Network(upper, lower).finish(worker))
    log, homes = worker.log, NETWORK.homes
    assert log is not None and log.acknowledged[[key, 600 + key]].tolist() == [5, 9]
    spine, leaf = (homes.index(NETWORK.home_of(ps_of(key, 3) | level << PS_BITS)) for level in (1, 0))
    worker.renew(EPOCH + 1, spine)
    assert log.unreplayed.reshape(LEVELS, 600)[:, key].tolist() == [0, 9]
    worker.renew(EPOCH + 1, leaf)
    assert log.unreplayed.reshape(LEVELS, 600)[:, key].tolist() == [5, 9]
    worker.replay()
    replayed = Network(set(), set())
    [request] = replayed.finish(worker)
    message = codec.parse(request)
    assert message.values is not None and message.values.max() == 14 and not log.has_unreplayed


def test_a_replay_log_of_other_levels_is_refused() -> None:
    worker = worker_with_log()
    with pytest.raises(ValueError, match=r"expected 2 levels.*got 1"):
        worker.set_homes([[0, 1, 2]])
