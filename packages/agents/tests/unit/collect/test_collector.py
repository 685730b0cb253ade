"""Servers of design `collect`, beside a plain model of the switch."""

from __future__ import annotations

import numpy as np
import pytest

from foundation.optimisers import Adagrad, Optimiser, TableOptimiser
from foundation.protocol import codec, control
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.header import COLLECTOR_BASE, KEYS, LANES, PS_BITS, REPLAY, SET, VALUES, Op
from hosts.keys import KeySpace
from hosts.scapy.rows import split_rows
from hotline_agents.collect import CollectingServer, schedule
from hotline_agents.collect.state import AGES, DEFAULT_MAX_SUM, IDLE, Collector
from hotline_agents.collect.store import CollectStore
from nativekit.plain import plain
from nativekit.records import one_record
from packages.agents.tests.unit.collect.switch_model import Row, SwitchModel, add
from tests.harness.wire import MODULUS, rpc

JOB, EPOCH = 1, 5
SPACE = KeySpace(64)
MINE = [key for key in range(64) if ps_of(key, 2) == 0]
MS = 1_000_000
upper_age_of, bin_of, interval = schedule.upper_age_of, plain(schedule.bin_of), plain(schedule.interval)
on_grid = plain(schedule.on_grid)


class Bench:
    """PS 0 of 2 with one job, and the switch of each home."""

    def __init__(
        self, optimiser: Optimiser | None = None, journal_bytes: int = 0, as_plain: bool = True,
        space: KeySpace = SPACE, max_sum: int = DEFAULT_MAX_SUM, homes: int = 1,
    ) -> None:  # fmt: skip
        self.now, self.space, self.max_sum = 1, space, max_sum
        self.switches = [SwitchModel() for _ in range(homes)]
        self.epoch, self.seq = EPOCH, 0
        self.tables = [TableOptimiser(first=0, scale=1.0, optimiser=optimiser)] if optimiser else []
        self.as_plain, self.journal_bytes = as_plain, journal_bytes
        self.ps = self._made()
        self.journal: list[bytes] = []

    def _made(self) -> CollectingServer[str]:
        ps: CollectingServer[str] = CollectingServer(
            0, 2, self.space, {JOB: EPOCH}, lambda: self.now, self.as_plain,
            journal_bytes=self.journal_bytes, has_replay_logs=True, tables=self.tables,
            homes=len(self.switches),
        )  # fmt: skip
        ps.server.state.collectors.max_sum = self.max_sum
        return ps

    @property
    def switch(self) -> SwitchModel:
        """The switch of the first home."""
        return self.switches[0]

    @property
    def store(self) -> CollectStore:
        return self.ps.stores[JOB]

    def command(self, command: Command, keys: list[int], home: int = 0) -> Status:
        """Have the server execute a command of a home's controller, and return its status."""
        self.seq += 4
        ps = home << PS_BITS
        request = control.build(Control(command, JOB, ps, 3, self.seq, np.array(keys, np.uint64)))
        self.ps.handle(request, self.now, self.now, "controller")
        self.persist()
        for _ in range(1000):
            self.exchange()
            for datagram, _ in self.ps.control_answers():
                return control.parse(datagram).status
            self.advance(MS)
        raise AssertionError(f"{command.name} was not answered")

    def advance(self, ns: int) -> None:
        self.now += ns
        self.ps.server._ops.wake(self.ps.server.reference, self.now)
        self.ps.wake(self.now)
        self.persist()

    def persist(self) -> None:
        if self.ps.server.notes:
            self.journal.append(self.ps.server.notes)
            self.ps.server.forget_notes()

    def sent(self) -> list[bytes]:
        """Return the RPCs of collections that are to be sent now."""
        server, ops = self.ps.server, self.ps.server._ops
        found = []
        while (s := ops.transmit(server.reference, self.now)) >= 0:
            found.append(server.state.requests[s].tobytes()[: ops.octets(server.reference, s)])
        return found

    def deliver(self, answer: bytes) -> None:
        if codec.parse(answer).header.worker >= COLLECTOR_BASE:
            assert self.ps.handle(answer, self.now, self.now, "switch") is None
        else:
            self.ps.receive_rpc_answer(answer, self.now)
        self.persist()

    def answer_of_switch(self, datagram: bytes) -> bytes | None:
        return self.switches[codec.parse(datagram).header.ps >> PS_BITS].answer(datagram)

    def exchange(self) -> int:
        """Pass RPCs to the switches and back until there are no more; return their number."""
        rpcs = 0
        while datagrams := [*self.sent(), *(bytes(each) for each in self.ps.transmit())]:
            for datagram in datagrams:
                rpcs += 1
                if (answer := self.answer_of_switch(datagram)) is not None:
                    self.deliver(answer)
        return rpcs

    def run(self, ms: int, step_ms: int = 1) -> None:
        for _ in range(0, ms, step_ms):
            self.advance(step_ms * MS)
            self.exchange()

    def worker(
        self, op: Op, keys: list[int], values: list[int] | None = None, **fields: int
    ) -> codec.Message:
        self.seq += 64
        fields = {"job": JOB, "worker": 7, "epoch": 2, "seq": self.seq, **fields}
        out = self.ps.handle(rpc(op, keys, values, **fields), self.now, self.now, "worker")
        assert out is not None
        self.persist()
        return codec.parse(bytes(out[1]))

    def sums(self) -> dict[int, int]:
        """Return the first value of each row's sum."""
        return {key: row[0] for key, row in self.row_sums().items()}

    def row_sums(self) -> dict[int, Row]:
        held = self.store.contents()
        dims = self.space.dims_at(self.space.positions(held.keys)).tolist()
        rows = dict(zip(held.keys.tolist(), split_rows(held.sums.tolist(), dims), strict=True))
        for switch in self.switches:
            rows |= {key: add(rows[key], row) for key, row in switch.pending_rows.items()}
        return rows

    def restart(self) -> None:
        """Kill the server, and restore it from its journal."""
        self.ps = self._made()
        self.ps.recover({}, self.journal)


def seeded(keys: list[int], optimiser: Optimiser | None = None, journal_bytes: int = 0) -> Bench:
    bench = Bench(optimiser, journal_bytes)
    bench.switch.hot.update(keys)
    assert bench.command(Command.SEED, keys) is Status.OK
    return bench


def test_a_sum_is_read_applied_and_published() -> None:
    bench = seeded(MINE[:3])
    bench.switch.push(MINE[0], 5)
    bench.switch.push(MINE[1], MODULUS - 2)
    bench.run(60)
    assert {key: bench.switch.published[key] for key in MINE[:3]} == {
        MINE[0]: 5, MINE[1]: MODULUS - 2, MINE[2]: 0,
    }  # fmt: skip
    assert bench.sums()[MINE[0]] == 5


def test_keys_in_the_switch_are_refused_until_collected() -> None:
    bench = seeded(MINE[:2])
    assert bench.worker(Op.PUSH, MINE[:1], [4]).header.refused == 1
    bench.switch.push(MINE[0], 7)
    assert bench.command(Command.COLLECT, MINE[:1]) is Status.OK
    assert bench.switch.pending[MINE[0]] == 0
    assert bench.worker(Op.PUSH, MINE[:1], [4]).header.refused == 0
    assert bench.sums()[MINE[0]] == 11
    bench.switch.push(MINE[1], 1)
    bench.run(60)
    assert bench.sums()[MINE[1]] == 1 and bench.switch.published[MINE[1]] == 1


def test_an_optimiser_is_applied_to_collected_sums() -> None:
    bench = seeded(MINE[:1], Adagrad(lr=0.5, eps=1e-10))
    bench.switch.push(MINE[0], 3)
    bench.run(60)
    published = np.array([bench.switch.published[MINE[0]]], np.uint32).view(np.float32)
    assert published[0] == pytest.approx(-0.5)
    bench.switch.push(MINE[0], 4)
    bench.run(60)
    published = np.array([bench.switch.published[MINE[0]]], np.uint32).view(np.float32)
    assert published[0] == pytest.approx(-0.5 - 0.5 * 4 / 5)


def test_nothing_is_applied_before_all_replays_are_settled() -> None:
    bench = seeded(MINE[:1], Adagrad(lr=0.5, eps=1e-10))
    bench.switch.push(MINE[0], 3)
    bench.run(60)
    bench.switch.push(MINE[0], 4)  # is lost with the switch, and replayed with the 3
    bench.switches = [SwitchModel()]
    assert bench.command(Command.RENEW, [9]) is Status.OK
    value = bench.store.contents().values[0]
    answer = bench.worker(Op.PUSH, MINE[:1], [7], flags=KEYS | VALUES | REPLAY)
    assert answer.header.refused == 0
    bench.run(60)
    assert bench.store.contents().values[0] == value
    assert bench.command(Command.SETTLE, [8]) is Status.OK  # of another switch
    assert bench.store.contents().values[0] == value
    assert bench.command(Command.SETTLE, [9]) is Status.OK
    found = bench.store.contents().values[:1].view(np.float32)[0]
    assert found == pytest.approx(-0.5 - 0.5 * 4 / 5)
    assert bench.sums()[MINE[0]] == 7


def test_a_restored_server_repeats_the_collections_that_were_under_way() -> None:
    bench = seeded(MINE[:2], journal_bytes=1 << 20)
    bench.switch.push(MINE[0], 5)
    bench.advance(60 * MS)
    for step in range(2):
        bench.advance(4 * MS)  # longer than a row waits for others that are published with it
        [datagram] = bench.sent()
        answer = bench.switch.answer(datagram)
        assert answer is not None
        bench.restart()  # the answer is lost
        [repeated] = bench.sent()
        assert repeated == datagram, step
        bench.deliver(bench.switch.answer(repeated) or b"")
    assert bench.switch.published[MINE[0]] == 5
    assert bench.ps.server.state.collections.phase.tolist() == [IDLE] * 16
    bench.restart()
    bench.switch.push(MINE[1], 2)
    bench.run(120)
    assert bench.switch.published[MINE[1]] == 2


def test_held_collections_leave_sums_in_the_switch() -> None:
    bench = seeded(MINE[:1])
    assert bench.command(Command.HOLD, []) is Status.OK
    bench.switch.push(MINE[0], 5)
    bench.run(120)
    assert bench.switch.published[MINE[0]] == 0 and bench.store.contents().sums.sum() == 0
    assert bench.command(Command.PUBLISH, []) is Status.OK
    assert bench.switch.published[MINE[0]] == 5 and bench.sums()[MINE[0]] == 5


def test_a_journal_of_many_collections_is_replayed_within_the_queues() -> None:
    bench = seeded(MINE[:2], journal_bytes=1 << 20)
    for number in range(60):
        bench.switch.push(MINE[0], number)
        bench.run(50, step_ms=10)
    bench.restart()
    state = bench.ps.server.state
    assert state.queue_sizes.sum() == 2
    assert bench.sums()[MINE[0]] == sum(range(60))


def test_keys_leave_only_between_collections() -> None:
    bench = seeded(MINE[:2])
    bench.switch.push(MINE[0], 5)
    bench.advance(60 * MS)
    [pull] = bench.sent()
    leave = control.build(Control(Command.COLLECT, JOB, 0, 3, 99, np.array(MINE[:1], np.uint64)))
    bench.ps.handle(leave, bench.now, bench.now, "controller")
    assert list(bench.ps.transmit()) == []
    bench.deliver(bench.switch.answer(pull) or b"")
    bench.exchange()
    bench.run(2)
    assert bench.switch.pending[MINE[0]] == 0 and bench.sums()[MINE[0]] == 5
    assert not control.parse(next(bench.ps.control_answers())[0]).status


def test_an_age_is_in_the_class_below_its_limit() -> None:
    for age in (8, 15, 16, 1_000, 999_999, 50_000_000, 3_000_000_000):
        limit = float(upper_age_of(np.array([bin_of(age)]))[0])
        assert age < limit <= age * 1.13 + 1
    assert bin_of(0) == bin_of(8) and bin_of(1 << 62) == AGES - 1


def test_fast_changing_keys_are_collected_sooner() -> None:
    collector = one_record(Collector)
    collector.staleness, collector.pace = 50 * MS, 10.0 * MS
    assert [interval(collector, change) for change in (0.0, 0.01, 0.25, 4.0, 1e6)] == [
        50 * MS * 7 // 8, 50 * MS * 7 // 8, 20 * MS, 5 * MS, MS,
    ]  # fmt: skip


@pytest.mark.parametrize(("share", "apart_us"), [(1.0, 8), (0.25, 32)])
def test_collecting_takes_its_share_of_the_servers_time(share: float, apart_us: int) -> None:
    """An RPC has 1 µs to encode, 1 µs to read and 6 µs in the kernel; 5 ms may be spent at once."""
    server = seeded(MINE[:1]).ps.server.state
    collector = server.collectors[0]
    server.jobs[0].proc_cpu_ns, server.jobs[0].rpcs = 100_000, 100
    collector.share, collector.budget_start, collector.next_start = share, 0, 0
    now, apart = 1_000 * MS, apart_us * 1_000
    in_one_burst = 5 * MS // apart
    for _ in range(in_one_burst):
        assert collector.next_start <= now
        plain(schedule.delay_next_rpc)(server, server.collections[0], now)
    plain(schedule.delay_next_rpc)(server, server.collections[0], now)
    assert now < collector.budget_start <= now + apart
    assert collector.next_start == collector.budget_start + 7 * apart  # the next eight begin together


def test_only_large_sums_are_cleared() -> None:
    """So most rows take a read and a place in a SET, and no RPC that clears them."""
    bench = seeded(MINE[:2])
    for total in (5, DEFAULT_MAX_SUM - 1):
        bench.switch.push(MINE[0], total - bench.switch.pending.get(MINE[0], 0))
        bench.run(60)
        assert bench.switch.pending[MINE[0]] == total == bench.switch.published[MINE[0]]
    bench.switch.push(MINE[0], 1)
    bench.switch.push(MINE[1], MODULUS - DEFAULT_MAX_SUM)
    bench.run(60)
    assert bench.switch.pending == {MINE[0]: 0, MINE[1]: 0}
    assert bench.switch.published == {MINE[0]: DEFAULT_MAX_SUM, MINE[1]: MODULUS - DEFAULT_MAX_SUM}
    assert bench.sums()[MINE[0]] == DEFAULT_MAX_SUM


def test_changed_rows_of_two_reads_share_a_set() -> None:
    lanes: dict[int, list[int]] = {}
    for key in range(4096):
        if ps_of(key, 2) == 0 and len(lanes.setdefault(lane_of(key), [])) < 2:
            lanes[lane_of(key)].append(key)
    bench = Bench(space=KeySpace(4096))
    keys = sorted(key for keys_of_lane in lanes.values() for key in keys_of_lane)
    bench.switch.hot.update(keys)
    assert bench.command(Command.SEED, keys) is Status.OK
    for lane, keys_of_lane in lanes.items():
        bench.switch.push(keys_of_lane[lane % 2], lane + 1)
    bench.advance(50 * MS)
    reads = bench.sent()
    assert [codec.parse(read).header.op for read in reads] == [Op.PULL] * 2
    for read in reads:
        bench.deliver(bench.switch.answer(read) or b"")
    bench.advance(0)
    [published] = bench.sent()
    assert codec.parse(published).header.flags & SET
    bench.deliver(bench.switch.answer(published) or b"")
    assert {key: bench.switch.published[keys_of_lane[key % 2]] for key, keys_of_lane in lanes.items()} == {
        lane: lane + 1 for lane in range(LANES)
    }


def test_a_changed_row_waits_a_sixteenth_of_the_bound_at_most() -> None:
    bench = seeded(MINE[:2])
    bench.run(60)
    bench.switch.push(MINE[0], 5)
    for _ in range(50):
        if bench.store.collector.n_changed:
            break
        bench.run(1)
    read_time = bench.now
    assert bench.store.collector.n_changed and bench.switch.published[MINE[0]] == 0
    bench.run(2)
    assert bench.switch.published[MINE[0]] == 0
    bench.run(3)
    assert bench.switch.published[MINE[0]] == 5 and bench.now - read_time > 50 * MS // 16


def test_due_times_of_rows_are_on_a_grid() -> None:
    collector = one_record(Collector)
    for staleness, grid in ((32 * MS, MS // 2), (1_000 * MS, MS), (1, 1)):
        collector.staleness = staleness
        for due in (6 * grid + 1, 7 * grid):
            assert on_grid(collector, due) == 7 * grid
