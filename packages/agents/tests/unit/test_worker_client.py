"""The worker's calls: window, retransmission, refusals and hints. Tests set the time."""

from __future__ import annotations

import numpy as np
import pytest

from foundation.protocol import codec
from foundation.protocol.codec import Caller, Message
from foundation.protocol.hashing import lanes_of
from foundation.protocol.header import HEADER_BYTES, KEYS, Header, Op
from hosts.keys import KeySpace
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps, plain_ops
from switch_harness.wording import mentions
from tests.harness import wire

MS = 1_000_000
SIZE = 200
EVERYTHING = np.arange(SIZE)
DELTAS = np.arange(SIZE, dtype=np.uint32)


class Bench:
    def __init__(self, window: int = 64, ops: AnyWorkerOps = COMPILED) -> None:
        self.now = 0
        caller, space = Caller(1, 2, 3), KeySpace(SIZE)
        self.client = HotsetClient(caller, 1, space, lambda: self.now, window, ops=ops)
        self.answered = np.zeros(SIZE + 1, dtype=np.bool_)

    def push(self) -> list[Message]:
        self.client.push(1, EVERYTHING, DELTAS, self.answered)
        return self.sent()

    def sent(self) -> list[Message]:
        return [codec.parse(datagram) for datagram in wire.sent(self.client)]

    def answer(self, request: Message, served: int = 0, refused: int = 0, value: int = 0) -> None:
        answer = wire.reply(request.header, value, served=served, refused=refused, ps_proc=1000)
        self.client.receive(answer, self.now, self.now)

    def timeout(self) -> int:
        return int(self.client.state.header.timeout)

    def round_trip(self, took: int) -> None:
        self.client.start_empty_rpc(0)
        (request,) = self.sent()
        self.now += took
        self.answer(request)

    def wake_when_due(self) -> list[Message]:
        due = self.client.deadline()
        assert due is not None
        self.now = due
        self.client.wake(due)
        return self.sent()


@pytest.mark.parametrize("ops", [COMPILED, plain_ops()], ids=["compiled", "plain"])
def test_a_pull_ends_with_its_last_answer(ops: AnyWorkerOps) -> None:
    bench = Bench(ops=ops)
    bench.client.pull(1, EVERYTHING)
    requests = bench.sent()
    assert [request.header.count for request in requests] == [32] * 6 + [8]
    assert [request.header.seq for request in requests] == list(range(64, 71))
    for n, request in enumerate(requests):
        assert not bench.client.idle
        bench.answer(request, value=n)
    assert bench.client.idle and bench.client.deadline() is None
    assert bench.client.values.tolist() == [n // 32 for n in range(SIZE)]
    assert len(bench.client.records) == bench.client.rpcs_of_operation == 7


def test_a_slot_is_used_again_only_after_its_answer() -> None:
    bench = Bench(window=2)
    first, second = bench.push()
    assert {first.header.seq, second.header.seq} == {64, 65}
    bench.answer(second)
    (third,) = bench.sent()
    assert third.header.seq == 65 + 64
    assert not bench.sent()


def test_an_overdue_rpc_is_sent_again_unchanged() -> None:
    bench = Bench()
    requests = bench.push()
    for request in requests[1:]:
        bench.answer(request)
    again = bench.wake_when_due()
    assert len(again) == 1 and again[0].header == requests[0].header
    bench.answer(requests[0])
    bench.answer(requests[0])
    assert bench.client.idle and bench.client.unexpected == 1
    assert [record.attempts for record in bench.client.records] == [1] * 6 + [2]


def test_timeout_follows_the_round_trip_and_backs_off_once_a_round() -> None:
    bench = Bench()
    assert bench.timeout() == 100 * MS  # a guess, before the first sample
    bench.round_trip(100 * MS)
    assert bench.timeout() == 300 * MS  # RFC 6298 (2.2): SRTT + 4 * R/2
    bench.round_trip(100 * MS)
    assert bench.timeout() == 250 * MS
    bench.push()
    assert len(bench.wake_when_due()) == 7
    assert bench.timeout() == 500 * MS
    for timeout in (1000, 1000):
        assert len(bench.wake_when_due()) == 7
        assert bench.timeout() == timeout * MS


def test_the_timeout_is_between_20_ms_and_1_s() -> None:
    bench = Bench()
    for _ in range(200):
        bench.round_trip(MS)
    assert bench.timeout() == 20 * MS
    bench.round_trip(3000 * MS)
    assert bench.timeout() == 1000 * MS


def test_an_rpc_sent_before_a_backoff_says_nothing_about_the_new_timeout() -> None:
    bench = Bench(window=2)
    bench.client.pull(1, EVERYTHING)
    assert bench.client.transmit() is not None
    bench.now = 50 * MS
    assert bench.client.transmit() is not None
    for now, timeout in ((100, 200), (150, 200), (300, 400)):
        assert len(bench.wake_when_due()) == 1
        assert (bench.now, bench.timeout()) == (now * MS, timeout * MS)


def test_karns_rule_excludes_retransmitted_rpcs_from_the_round_trip() -> None:
    bench = Bench()
    bench.client.start_empty_rpc(0)
    (request,) = bench.sent()
    bench.now += 100 * MS - 1
    bench.client.wake(bench.now)
    assert not bench.sent()
    assert bench.wake_when_due() == [request]
    bench.answer(request)
    assert bench.timeout() == 200 * MS
    bench.round_trip(MS)
    assert bench.timeout() == 20 * MS


def test_refused_lanes_go_again_in_their_hash_lanes_with_backoff() -> None:
    bench = Bench()
    requests = bench.push()
    for request in requests[1:]:
        bench.answer(request)
    bench.answer(requests[0], refused=0b101)
    refused = [0, 2]
    assert not bench.answered[refused].any() and bench.answered[[1, *range(3, SIZE)]].all()
    assert bench.client.hinted[:SIZE].nonzero()[0].tolist() == refused
    assert not bench.client.idle and not bench.sent()
    waits = []
    for _ in range(12):
        start = bench.now
        (again,) = bench.wake_when_due()
        waits.append(bench.now - start)
        assert again.keys is not None and again.values is not None
        for key in refused:
            lane = int(lanes_of(np.uint64(key)))
            assert (again.keys[lane], again.values[lane]) == (key, DELTAS[key])
        assert again.header.live.bit_count() == 2
        bench.answer(again, refused=again.header.live)
    assert waits[:3] == [250_000, 500_000, 1_000_000] and waits[-1] == waits[-2] == 32 * MS
    (last,) = bench.wake_when_due()
    bench.answer(last, served=last.header.live)
    assert bench.client.idle and bench.answered[:SIZE].all()


def test_a_ps_reads_registers_by_the_same_calls() -> None:
    """Keys go in their hash lanes, once; unserved lanes are reported."""
    client = HotsetClient(Caller(1, 0x8000, 3), 1, KeySpace(SIZE), lambda: 0, max_keys=3, uses_registers=True)
    positions = np.array([5, 7, 9])
    lanes = lanes_of(positions)
    assert len(set(lanes.tolist())) == 3
    for op in (Op.PULL, Op.PUSH):
        answered = np.zeros(3, np.bool_)
        if op == Op.PULL:
            client.pull(0, positions)
        else:
            client.push(0, positions, np.array([2, 4, 8], np.uint32), answered)
        [datagram] = wire.sent(client)
        request = codec.parse(datagram)
        assert request.keys is not None and request.keys[lanes].tolist() == positions.tolist()
        assert request.header.live == sum(1 << lane for lane in lanes.tolist())
        served = request.header.live & ~(1 << int(lanes[1]))
        values = np.arange(100, 100 + request.header.count)
        client.receive(wire.reply(request.header, values, served=served, refused=1 << int(lanes[1])), 0, 0)
        assert client.idle and client.deadline() is None
        assert client.served.tolist() == [True, False, True]
        assert client.values.tolist() == (100 + lanes.astype(np.int64)).tolist()
    assert not len(client.records) and not client.hinted.any()
    with pytest.raises(ValueError, match=mentions(3, 4)):
        client.pull(0, np.arange(4))


def test_hints_are_learnt_and_forgotten() -> None:
    bench = Bench()
    bench.client.hint(np.array([3, 50, 2**63], dtype=np.uint64))
    assert bench.client.hinted.nonzero()[0].tolist() == [3, 50]
    requests = bench.push()
    carried = [[] if request.keys is None else request.keys.tolist() for request in requests]
    lanes = {key: 1 << lane for keys in carried for lane, key in enumerate(keys)}
    assert [lanes[key] for key in (3, 50)] == [1 << int(lanes_of(np.uint64(key))) for key in (3, 50)]
    # The switch serves one hinted lane but not key 3's, and key 0's, which was packed as cold.
    for request, keys in zip(requests, carried, strict=True):
        bench.answer(request, served=sum(lanes[key] for key in (0, 50) if key in keys))
    assert bench.client.hinted.nonzero()[0].tolist() == [0, 50]
    assert bench.client.idle
    bench.client.hint(None)
    assert not bench.client.hinted.any()


def test_an_answer_that_answers_nothing_changes_nothing() -> None:
    bench = Bench()
    request, *_ = bench.push()
    header = request.header
    for field, value in (("epoch", 4), ("seq", 1000), ("t0", 1), ("live", 1)):
        bench.answer(Message(header._replace(**{field: value})))
    bench.client.receive(codec.build(request), 0, 0)
    bench.client.receive(b"no", 0, 0)
    assert (bench.client.unexpected, bench.client.malformed) == (5, 1)
    assert not bench.answered.any() and not len(bench.client.records)


def test_the_record_has_the_papers_metrics() -> None:
    bench = Bench()
    bench.now = 1000
    bench.client.start_empty_rpc(0)
    (request,) = bench.sent()
    assert request.header == Header(op=Op.EMPTY, job=1, worker=2, epoch=3, seq=64, t0=1000)
    answer = wire.reply(request.header, ps_proc=10, ps_queue=20, residence=3)
    bench.now = 6000
    bench.client.receive(answer, 4000, 5500)
    (record,) = bench.client.records
    assert (record.t0, record.arrival, record.w_queue, record.w_proc) == (1000, 4000, 1500, 500)
    assert (record.ps_proc, record.ps_queue, record.residence_us) == (10, 20, 3)
    assert (record.request_bytes, record.response_bytes, record.lanes) == (HEADER_BYTES, HEADER_BYTES, 0)
    assert not request.header.flags & KEYS
