"""The PS: exactly once, refusals, served lanes, and moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from foundation.protocol import codec, control
from foundation.protocol.codec import Message
from foundation.protocol.control import Command, Control, Status
from foundation.protocol.hashing import ps_of
from foundation.protocol.header import NO_KEY, RESPONSE, Op, unpack
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.ps.store import ShareContents
from tests.harness.wire import reply, rpc

SPACE = KeySpace(64)
SPARSE = KeySpace(64, np.arange(64, dtype=np.uint64))
"""The same keys in a table."""
MINE = [key for key in range(64) if ps_of(key, 2) == 0][:4]
NOT_MINE = next(key for key in range(64) if ps_of(key, 2) == 1)


class Bench:
    """PS 0 of 2 with one job; `as_plain` runs the compiled functions as Python."""

    def __init__(self, as_plain: bool = False, space: KeySpace = SPACE) -> None:
        self.now = 0
        self.ps: ParameterServer[str] = ParameterServer(0, 2, space, {1: 5}, lambda: self.now, as_plain)
        self.counters = self.ps.server.counters[1]

    def contents(self, keys: list[int]) -> ShareContents:
        """Return the PS's state of these keys of its share."""
        contents = self.ps.stores[1].contents()
        at = [contents.keys.tolist().index(key) for key in keys]
        return ShareContents._make(column[at] for column in contents)

    def values(self, keys: list[int]) -> list[int]:
        return list(self.contents(keys).values)

    def owns(self, keys: list[int]) -> bool:
        return bool(self.contents(keys).owned.all())

    def call(
        self, op: Op, keys: list[int], seq: int, served: int = 0, values: list[int] | None = None
    ) -> Message | None:
        carried = values or range(1, len(keys) + 1) if op == Op.PUSH or served else None
        request = rpc(op, keys, carried, job=1, worker=7, epoch=2, seq=seq, served=served)
        out = self.ps.handle(request, self.now, self.now, "worker")
        if out is None:
            return None
        answer, header = codec.parse(bytes(out[1])), unpack(request)
        echoed = header._replace(flags=answer.header.flags, refused=answer.header.refused)
        assert answer.header == echoed and answer.header.flags & RESPONSE
        return answer

    def command(self, command: Command, keys: list[int], seq: int, epoch: int = 3) -> None:
        request = control.build(Control(command, 1, 0, epoch, seq, np.array(keys, dtype=np.uint64)))
        assert self.ps.handle(request, self.now, self.now, "controller") is None

    def answers(self) -> list[Control]:
        return [control.parse(datagram) for datagram, to in self.ps.control_answers() if to == "controller"]

    def registers(self, served: bool = True, value: int = 0) -> list[Message]:
        """Answer the PS's register RPCs as the switch would."""
        requests = [codec.parse(bytes(datagram)) for datagram in self.ps.transmit()]
        for header in (request.header for request in requests):
            self.ps.receive_rpc_answer(reply(header, value, served=header.live if served else 0), self.now)
        return requests


@pytest.mark.parametrize("as_plain", [False, True], ids=["compiled", "plain"])
@pytest.mark.parametrize("space", [SPACE, SPARSE], ids=["dense", "sparse"])
def test_a_pull_returns_the_pushed_sums(as_plain: bool, space: KeySpace) -> None:
    bench = Bench(as_plain, space)
    pushed = bench.call(Op.PUSH, [*MINE[:2], NO_KEY], 64, values=[5, 2**32 - 1, 0])
    assert pushed is not None and pushed.header.refused == 0 and pushed.values is None
    pulled = bench.call(Op.PULL, [MINE[1], MINE[0]], 65)
    assert pulled is not None and pulled.values is not None and pulled.values.tolist() == [2**32 - 1, 5]
    assert (bench.counters.applied_lanes, bench.counters.rpcs, bench.counters.packets) == (2, 2, 2)
    assert bench.contents(sorted(MINE[:2])).updates.tolist() == [1, 1]


def test_a_duplicate_adds_nothing_and_an_old_turn_is_dropped() -> None:
    bench = Bench()
    for _ in range(3):
        assert bench.call(Op.PUSH, MINE, 64 * 5) is not None
    assert bench.values(MINE) == [1, 2, 3, 4]
    assert bench.call(Op.PUSH, MINE, 64 * 4) is None
    assert bench.call(Op.PUSH, MINE, 0) is None
    assert (bench.counters.duplicates, bench.counters.stale) == (2, 2)


def test_foreign_keys_are_refused_in_duplicates_too() -> None:
    bench = Bench()
    keys = [MINE[0], MINE[1], NOT_MINE, NO_KEY - 1]
    store = bench.ps.stores[1]
    moved = store.locate(np.array(MINE[1:2], dtype=np.uint64))
    values = store.release(moved)
    first = bench.call(Op.PUSH, keys, 64)
    assert first is not None and first.header.refused == 0b1110
    store.reclaim(moved, values)
    again = bench.call(Op.PUSH, keys, 64)
    assert again is not None and again.header.refused == 0b1110
    assert store.contents().values.sum() == 1
    pull = bench.call(Op.PULL, keys, 65)
    assert pull is not None and pull.header.refused == 0b1100
    assert bench.counters.refused_lanes == 5


def test_a_server_neither_adds_nor_answers_lanes_that_the_switch_served() -> None:
    bench = Bench()
    bench.call(Op.PUSH, MINE, 64, served=0b0101)
    assert bench.values(MINE) == [0, 2, 0, 4]
    pulled = bench.call(Op.PULL, MINE, 65, served=0b0101, values=[70, 0, 90, 0])
    assert pulled is not None and pulled.values is not None
    assert pulled.values.tolist() == [70, 2, 90, 4] and pulled.header.refused == 0


def test_the_same_key_twice_in_an_rpc_adds_twice() -> None:
    bench = Bench()
    bench.call(Op.PUSH, [MINE[0], MINE[0]], 64)
    assert bench.values(MINE[:1]) == [3] and bench.contents(MINE[:1]).updates.tolist() == [2]


def test_answers_carry_queueing_and_processing_times() -> None:
    bench = Bench()
    request = rpc(Op.EMPTY, job=1, worker=7, epoch=2, seq=64, t0=9)
    bench.now = 500
    out = bench.ps.handle(request, arrival=100, read=300, source="worker")
    assert out is not None
    answer = codec.parse(bytes(out[1])).header
    assert (answer.ps_queue, answer.ps_proc, answer.t0, bench.counters.proc_wall_ns) == (200, 200, 9, 200)
    (connection_records,) = bench.ps.server.collect_connection_records()
    assert connection_records.tolist() == [(100, 7, 1)]
    assert [len(part) for part in bench.ps.server.collect_connection_records()] == [0]


def test_seed_gives_keys_to_the_switch_and_collect_takes_keys_back() -> None:
    bench = Bench()
    bench.call(Op.PUSH, MINE, 64)
    bench.command(Command.SEED, MINE[:2], 1)
    assert bench.values(MINE) == [0, 0, 3, 4]
    refused = bench.call(Op.PUSH, MINE, 65)
    assert refused is not None and refused.header.refused == 0b0011
    assert bench.answers() == []
    (push,) = bench.registers()
    assert push.header.worker == 0x8000 and push.header.epoch == 5
    assert push.values is not None and sorted(push.values[push.values > 0].tolist()) == [1, 2]
    assert [(answer.seq, answer.status) for answer in bench.answers()] == [(1, Status.OK)]

    bench.command(Command.COLLECT, MINE[:2], 2)
    (pull,) = bench.registers(value=40)
    assert pull.header.op == Op.PULL
    (push,) = bench.registers()
    assert push.values is not None and set(push.values.tolist()) == {0, 2**32 - 40}
    assert bench.values(MINE) == [40, 40, 6, 8] and bench.owns(MINE)
    assert [answer.status for answer in bench.answers()] == [Status.OK]


def test_a_command_that_is_repeated_is_not_done_again() -> None:
    bench = Bench()
    for _ in range(2):
        bench.command(Command.SEED, MINE, 1)
    assert len(bench.registers()) == 1 and len(bench.answers()) == 1
    bench.command(Command.SEED, MINE, 1)
    assert [answer.seq for answer in bench.answers()] == [1] and not bench.registers()
    bench.command(Command.SEED, MINE, 2)
    assert [answer.seq for answer in bench.answers()] == [2] and not bench.registers()


@pytest.mark.parametrize(("epoch", "seq"), [(2**32 - 1, 500), (3, 60)])
def test_a_late_command_does_not_undo_later_commands(epoch: int, seq: int) -> None:
    """A delayed COLLECT would give the keys a second owner."""
    bench = Bench()
    bench.command(Command.HELLO, [], 100)
    bench.command(Command.SEED, MINE, 101)
    bench.registers()
    assert len(bench.answers()) == 2
    bench.command(Command.COLLECT, MINE, seq, epoch)
    assert not bench.registers() and not bench.contents(MINE).owned.any()
    answers = bench.answers()
    assert [(each.status, each.identity) for each in answers] == [(Status.STALE, (epoch, seq))][: epoch != 3]
    bench.command(Command.COLLECT, MINE, 1, epoch=77)
    (refusal,) = bench.answers()
    assert refusal.status is Status.STALE and not bench.registers()
    bench.command(Command.COLLECT, MINE, 1, epoch=int(refusal.keys[0]))
    assert bench.registers()


def test_commands_in_a_command_slot_that_falls_behind_are_still_answered() -> None:
    bench = Bench()
    for turn in range(1, 100):
        for slot in range(1, control.SLOTS):
            bench.command(Command.HELLO, [], turn * control.SLOTS + slot)
    assert len(bench.answers()) == 99 * (control.SLOTS - 1)
    for _ in range(2):
        bench.command(Command.HELLO, [], control.SLOTS)
        assert [answer.seq for answer in bench.answers()] == [control.SLOTS]


def test_commands_are_executed_in_sequence() -> None:
    bench = Bench()
    bench.command(Command.SEED, MINE[:1], 1)
    bench.command(Command.VALUES, MINE, 2)
    bench.command(Command.HELLO, [], 3)
    assert bench.answers() == []
    bench.registers()
    values, hello = bench.answers()[1:]
    assert values.values is not None and values.values.tolist() == [0] * 4
    assert hello.command is Command.HELLO and hello.status is Status.OK


def busiest(bench: Bench, rank: int, maximum: int, seq: int) -> list[tuple[int, int]]:
    bench.command(Command.BUSIEST, [rank, maximum], seq)
    (answer,) = bench.answers()
    assert answer.command is Command.BUSIEST and answer.status is Status.OK and answer.values is not None
    return list(zip(answer.keys.tolist(), answer.values.tolist(), strict=True))


@pytest.mark.parametrize("space", [SPACE, SPARSE], ids=["dense", "sparse"])
def test_the_busiest_keys_count_updates_since_the_last_request(space: KeySpace) -> None:
    bench = Bench(space=space)
    a, b, c, _ = MINE
    for turn, keys in enumerate(([a, b, c], [b, c], [b]), 1):
        bench.call(Op.PUSH, keys, 64 * turn)
    assert busiest(bench, 0, 10, 1) == [(NO_KEY, 6), (b, 3), (c, 2), (a, 1)]
    bench.call(Op.PULL, [a], 64 * 4)
    assert busiest(bench, 0, 10, 2) == [(NO_KEY, 0)]
    for turn, keys in enumerate(([a, c], [a, b, c], [c]), 5):
        bench.call(Op.PUSH, keys, 64 * turn)
    assert busiest(bench, 0, 2, 3) == [(NO_KEY, 6), (c, 3), (a, 2)]


def test_updates_before_a_move_are_counted() -> None:
    """The switch counts from then on: no update is missing or counted twice."""
    bench = Bench()
    bench.call(Op.PUSH, MINE[:2], 64)
    bench.command(Command.SEED, MINE[:1], 1)
    bench.registers()
    assert bench.answers()[0].status is Status.OK
    bench.call(Op.PUSH, MINE[:2], 128)
    assert busiest(bench, 0, 10, 2) == [(NO_KEY, 3), (MINE[1], 2), (MINE[0], 1)]


def test_all_pages_of_the_busiest_keys_are_of_one_moment() -> None:
    bench = Bench(space=KeySpace(600))
    keys = [key for key in range(600) if ps_of(key, 2) == 0]
    assert len(keys) > 2 * control.MAX_VALUES_KEYS
    for turn in range(0, len(keys), 20):
        bench.call(Op.PUSH, keys[turn : turn + 20], 64 * (turn + 1))
    first = busiest(bench, 0, len(keys), 1)
    size = control.MAX_VALUES_KEYS
    assert len(first) == size and first[0] == (NO_KEY, len(keys))
    bench.call(Op.PUSH, keys[:1], 64 * 1000)
    # An answer that was lost is given again; the other pages are of the time of the first.
    assert busiest(bench, 0, len(keys), 1) == first
    rest = busiest(bench, size, 0, 2) + busiest(bench, 2 * size, 0, 3)
    assert sorted(first[1:] + rest) == [(key, 1) for key in keys]
    assert busiest(bench, len(keys) + 1, 0, 4) == busiest(bench, NO_KEY, 0, 5) == []
    assert busiest(bench, 0, 0, 6) == [(NO_KEY, 1)]


def test_a_lost_register_rpc_is_sent_again() -> None:
    bench = Bench()
    bench.command(Command.SEED, MINE, 1)
    (lost,) = [bytes(datagram) for datagram in bench.ps.transmit()]
    due = bench.ps.deadline()
    assert due is not None
    bench.now = due
    bench.ps.wake(due)
    (again,) = bench.registers()
    assert codec.build(again) == lost and bench.answers()[0].status is Status.OK


def test_without_an_entry_in_the_switch_the_value_stays() -> None:
    bench = Bench()
    bench.call(Op.PUSH, MINE, 64)
    bench.command(Command.SEED, MINE, 1)
    bench.registers(served=False)
    assert bench.answers()[0].status is Status.NO_ENTRY
    assert bench.values(MINE) == [1, 2, 3, 4] and bench.owns(MINE)


def test_an_entry_that_vanishes_during_a_collect_is_reported_as_missing() -> None:
    bench = Bench()
    bench.command(Command.SEED, MINE, 1)
    bench.registers()
    bench.command(Command.COLLECT, MINE, 2)
    bench.registers(value=9)
    bench.registers(served=False)
    assert [answer.status for answer in bench.answers()] == [Status.OK, Status.NO_ENTRY]
    assert bench.values(MINE) == [0] * 4 and not bench.owns(MINE)


def test_a_key_of_another_ps_changes_nothing() -> None:
    bench = Bench()
    for seq, command in enumerate((Command.SEED, Command.COLLECT, Command.VALUES)):
        bench.command(command, [MINE[0], NOT_MINE], seq)
        assert bench.answers()[0].status is Status.NOT_OWNED
    assert bench.owns(MINE) and not list(bench.ps.transmit())


def test_datagrams_for_other_servers_are_dropped_and_counted() -> None:
    bench = Bench()
    for field, value in (("job", 2), ("ps", 1), ("flags", RESPONSE)):
        fields: dict[str, Any] = {"job": 1, "seq": 64, field: value}
        assert bench.ps.handle(rpc(Op.EMPTY, **fields), 0, 0, "x") is None
    other = Control(Command.HELLO, 1, 1, 3, 1, np.empty(0, np.uint64))
    assert bench.ps.handle(control.build(other), 0, 0, "x") is None
    bench.ps.receive_rpc_answer(rpc(Op.EMPTY, job=2, seq=64), 0)
    assert bench.ps.server.misdirected == 5
    assert bench.ps.handle(b"", 0, 0, "x") is None
    assert bench.ps.malformed == 1
