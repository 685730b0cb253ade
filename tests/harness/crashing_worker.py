"""A worker that a test kills, with its files, and the plain model that judges what they say then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from foundation.protocol.codec import Caller, Values
from foundation.protocol.header import Op, offset_of, unpack
from foundation.protocol.rows import RowRanges
from hosts import in_flight, ledger, replay
from hosts.keys import KeySpace
from hosts.ledger import Ledger, UnfinishedPush, count_mismatches
from hosts.replay import ReplayLog, read_unacked
from hosts.succession import PredecessorPush
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.worker.ops import AnyWorkerOps
from tests.harness import wire
from tests.harness.single_step import Contents

JOB, MS = 3, 1_000_000


class Files(NamedTuple):
    ledger: Path
    log: Path
    requests: Path

    @classmethod
    def in_folder(cls, folder: Path) -> Files:
        return cls(folder / "ledger", folder / "log", folder / "requests")


class CrashingWorker:
    """A worker, its PS and its switch, whose registers are an array; the test plays the network."""

    def __init__(
        self, folder: Path, ops: AnyWorkerOps, seed: int, size: int, capacity: int, ranges: RowRanges
    ) -> None:
        self.random, self.now, self.size = Random(seed), 1_000 * MS, size
        self.files, self.switch = Files.in_folder(folder), 0
        self.space = space = KeySpace(size, None, ranges)
        self.ledger = Ledger(JOB, 10, space, capacity, self.files.ledger)
        self.log = ReplayLog.in_file(space, capacity, (self.switch,), self.files.log)
        self.client = HotsetClient(
            Caller(JOB, 1, 10), 1, space, lambda: self.now, ops=ops, max_keys=capacity, log=self.log
        )
        self.client.map_requests(in_flight.create(self.files.requests))
        self._answers: dict[bytes, bytes] = {}  # request -> its answer, also if the request is sent again
        self.ps = ParameterServer[str](0, 1, space, {JOB: 5}, lambda: self.now, has_replay_logs=True)
        self.at_switch = np.zeros(space.n_values, np.uint32)
        self.capacity = capacity

    @property
    def epoch(self) -> int:
        return 10 + self.switch

    @property
    def at_ps(self) -> Values:
        return np.array(self.ps.stores[JOB].contents().values)

    def open_push(self, n: int) -> tuple[Any, Values, Any]:
        """Open a push of `n` random keys in the ledger; return its positions, deltas and flags."""
        positions, deltas = self.draw(n)
        return positions, deltas, self.ledger.open(positions, deltas)

    def draw(self, n: int) -> tuple[Any, Values]:
        positions = np.array(self.random.sample(range(self.size), n))
        large_and_small = (1, 2**32 - 1, 2**31, self.random.getrandbits(32))
        n_values = self.space.count_values(positions)
        return positions, np.array(self.random.choices(large_and_small, k=n_values), np.uint32)

    def begin_push(self, n: int) -> list[bytes]:
        """Begin a push; return its requests."""
        positions, deltas, answered = self.open_push(n)
        self.client.push(1, positions, deltas, answered)
        return wire.sent(self.client)

    def answer(self, request: bytes, switch_lanes: int) -> bytes:
        """Return the answer: the switch adds the lanes of a bitmap, the PS the others."""
        answer = self._answers[bytes(request)] = self._execute(bytes(request), switch_lanes)
        return answer

    def _execute(self, request: bytes, switch_lanes: int) -> bytes:
        h = unpack(request)
        if h.op == Op.PUSH:
            served = h.live & switch_lanes
            keys, deltas = wire_lanes(request, h.count, h.dim)
            for lane in range(h.count):
                if served >> lane & 1:
                    self.at_switch[self.space.value_places(keys[lane : lane + 1])] += deltas[lane]
            if served == h.live:
                return wire.reply(h, served=served)
            at = offset_of("served")
            request = request[:at] + served.to_bytes(4, "big") + request[at + 4 :]
        answer = self.ps.handle(request, self.now, self.now, "worker")
        assert answer is not None
        return answer[1]

    def receive(self, answer: bytes) -> None:
        self.client.receive(answer, self.now, self.now)

    def push(self, n: int) -> None:
        """Push random keys, some into the switch."""
        for request in self.begin_push(n):
            self.receive(self.answer(request, self.random.getrandbits(32)))
        assert self.client.idle
        self.ledger.close()

    def lose_switch(self) -> None:
        """Lose the switch with its values; the worker is not renewed yet."""
        self.switch += 1
        self.at_switch[:] = 0

    def renew(self) -> None:
        replay.renew(self.client, self.log, self.epoch, self.switch)

    def judge(self, contents: Contents, folder: Path, uncertain_keys: int = 0) -> None:
        """Check that files which a killed worker left count each row once, whatever happens then.

        The switch survives, or is lost, too. The accounting may be uncertain about so many rows, each of them
        as a whole.
        """
        files = Files.in_folder(folder)
        _overwrite(files.ledger, contents[0])
        space = self.space
        sums, at_ps = ledger.read(files.ledger), self.at_ps
        assert self.count_rows(sums.unknown) <= uncertain_keys
        for number, held in ((self.switch, self.at_switch), (self.switch + 1, np.uint32(0))):
            _overwrite(files.log, contents[1])
            unacked = read_unacked(files.log, (number,))
            assert self.count_rows(unacked.unknown) <= uncertain_keys
            total = at_ps + held + unacked.lost
            assert not count_mismatches(
                [sums.sent], [sums.unknown, np.negative(unacked.unknown)], total, space
            )
            # The worker comes back, once or twice.
            for _ in range(2):
                again = ReplayLog.reopen(files.log, space, (number,)).unacked((number,))
                assert (again.lost == unacked.lost).all() and not again.unknown.any()

    def judge_successor(self, contents: Contents, folder: Path) -> None:
        """Check that a worker that takes the killed one's rank ends its push, with each row once.

        If the switch is lost, later or since the push began, each row is in the sums once or not at all.
        """
        files = Files.in_folder(folder)
        for file, content in zip(files, contents, strict=True):
            _overwrite(file, content)
        at_ps, at_switch = self.at_ps, self.at_switch.copy()
        push, log = UnfinishedPush.in_file(files.ledger), ReplayLog.of_killed_worker(files.log, self.space)
        ending = PredecessorPush(push, in_flight.reopen(files.requests), self.space, log)
        if log.switch_numbers != (self.switch,) or not ending.sent.is_complete:
            ending.give_up()
            self._check(at_ps + at_switch, files, unknown=[log.unacked((self.switch,)).unknown])
            return
        for request in list(ending.requests.values()):
            ending.receive(self._repeat(request, at_switch))
        remainder = ending.end()
        n_left = 0 if remainder is None else len(remainder.positions)
        assert self.count_rows(ledger.read(files.ledger).unknown) <= n_left  # deltas may be 0
        for number, held in ((self.switch, at_switch), (self.switch + 1, np.uint32(0))):
            unacked = log.unacked((number,))
            assert not unacked.unknown.any()
            assert (at_ps + held + unacked.lost == ledger.read(files.ledger).sent).all()

    def _repeat(self, request: bytes, at_switch: Values) -> bytes:
        """Return the answer to a request that is sent again; the switch adds one that it has not seen."""
        h = unpack(request)
        assert h.epoch == self.epoch, "a request to a switch that is lost never has an answer"
        if request not in self._answers:
            keys, deltas = wire_lanes(request, h.count, h.dim)
            for lane in (lane for lane in range(h.count) if h.live >> lane & 1):
                at_switch[self.space.value_places(keys[lane : lane + 1])] += deltas[lane]
            return wire.reply(h, served=h.live)
        return self._answers[request]

    def _check(self, held: Values, files: Files, unknown: list[Values]) -> None:
        sums = ledger.read(files.ledger)
        total = held + read_unacked(files.log, (self.switch,)).lost
        assert not count_mismatches(
            [sums.sent], [sums.unknown, *map(np.negative, unknown)], total, self.space
        )

    def count_rows(self, values: Values) -> int:
        """Return the number of rows with a value other than 0."""
        first = self.space.first_values(np.arange(self.size))
        return int(np.logical_or.reduceat(values != 0, first).sum())


def _overwrite(path: Path, content: bytes) -> None:
    """Replace a file's content by as many bytes; to truncate a file takes ten times as long."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(content)
    assert path.stat().st_size == len(content)


def wire_lanes(request: bytes, count: int, dim: int) -> tuple[Any, Any]:
    """Return the keys [count] and deltas [count, dim] of a push's lanes."""
    body = request[len(request) - (8 + 4 * dim) * count :]
    keys = np.frombuffer(body, ">u8", count).astype(np.int64)
    return keys, np.frombuffer(body, ">u4", count * dim, 8 * count).astype(np.uint32).reshape(count, dim)


class Step(NamedTuple):
    """A call that is killed."""

    call: Callable[[], object]
    functions: tuple[Any, ...]  # the compiled functions that it leads to
    uncertain_keys: int  # number of keys that may be uncertain
