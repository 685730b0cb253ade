"""A server that adds up, against a plain model: every push in any order, any number of times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.protocol.rpc import BUFFER_BYTES, rpcs
from hosts.keys import KeySpace
from hotline_agents.interface import NO_REPLY, NOTHING
from hotline_allreduce.dense.packet import ACK, ADDEND, MAX_SIZE, MIN_SIZE, RESULT, DensePacket, parse
from hotline_allreduce.psdense.design import PSDENSE
from hotline_allreduce.psdense.server import SERVER, Adder, make_adder
from nativekit.plain import plain
from switch_harness.effort import examples

JOB, N_PS, PS = PSDENSE.job, 2, 1
_handle, _transmit = plain(SERVER.handle), plain(SERVER.transmit)
_octets, _peer = plain(SERVER.octets), plain(SERVER.peer)


def server() -> Adder:
    return make_adder(PS, N_PS, KeySpace(6 * MIN_SIZE), [JOB])


def take(state: Adder, datagram: bytes, first_peer: int = N_PS) -> list[tuple[int, DensePacket]]:
    """Return the answers to a datagram: receivers (workers from 0 on) and packets."""
    boxes = rpcs(2)
    octets = boxes.view(np.uint8).reshape(2, BUFFER_BYTES)
    octets[0, : len(datagram)] = np.frombuffer(datagram, np.uint8)
    length = _handle(state, boxes[0], len(datagram), 0, boxes[1])
    asked = [] if length == NO_REPLY else [parse(octets[1, :length].tobytes())]
    found = [(packet.worker, packet) for packet in asked]
    while (s := _transmit(state, 0)) != NOTHING:
        packet = parse(state.sent[s].tobytes()[: _octets(state, s)])
        assert _peer(state, s) == first_peer + packet.worker
        found.append((packet.worker, packet))
    return found


def push(
    worker: int, workers: int = 2, number: int = 1, chunk: int = PS, *values: int, **other: Any
) -> DensePacket:
    words = values or (worker + 1,) * 3
    packet = DensePacket(ADDEND, 0, worker, workers, JOB, MIN_SIZE, number, chunk, words)
    return packet._replace(**other)


class Model:
    """The pushes of each chunk and round. A round ends when the next but one begins."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.pushed: dict[tuple[int, int], dict[int, tuple[int, ...]]] = {}

    def take(self, packet: DensePacket) -> list[tuple[int, DensePacket]]:
        if any(chunk == packet.chunk and number >= packet.round + 2 for chunk, number in self.pushed):
            return []
        of_round = self.pushed.setdefault((packet.chunk, packet.round), {})
        is_new = packet.worker not in of_round
        of_round.setdefault(packet.worker, packet.values)
        if len(of_round) < self.workers:
            return []
        sums = tuple(sum(each) & 0xFFFFFFFF for each in zip(*of_round.values(), strict=True))
        result = packet._replace(kind=RESULT, values=sums)
        to = range(self.workers) if is_new else [packet.worker]
        return [(worker, result._replace(worker=worker)) for worker in to]


@settings(max_examples=examples(300))
@given(st.data(), st.sampled_from([1, 2, 3, 32]))
def test_a_server_answers_like_its_model(data: Any, workers: int) -> None:
    """Workers begin a round when they have the sums of the last; what they have sent before comes again."""
    state, model = server(), Model(workers)
    chunks = (1, 3, 5)
    rounds, got = [1] * workers, [set[int]() for _ in range(workers)]
    sent: list[DensePacket] = []
    for _ in range(data.draw(st.integers(0, 60))):
        worker = data.draw(st.integers(0, workers - 1))
        if sent and data.draw(st.booleans()):
            packet = data.draw(st.sampled_from(sent))
        else:
            values = data.draw(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)))
            chunk = data.draw(st.sampled_from(chunks))
            before = [each for each in sent if each[2:8] == push(worker, workers, rounds[worker], chunk)[2:8]]
            packet = [*before, push(worker, workers, rounds[worker], chunk, *values)][0]
        sent.append(packet)
        found = take(state, packet.build())
        assert sorted(found) == sorted(model.take(packet))
        for to, result in found:
            if result.round == rounds[to]:
                got[to].add(result.chunk)
            if got[to] == set(chunks):
                rounds[to], got[to] = rounds[to] + 1, set()


def test_a_chunk_is_complete_when_all_have_pushed_and_is_sent_to_each_once() -> None:
    state = server()
    assert take(state, push(0, 3).build()) == take(state, push(0, 3).build()) == []
    assert take(state, push(2, 3).build()) == []
    assert [to for to, _ in take(state, push(1, 3).build())] == [1, 0, 2]
    assert take(state, push(2, 3).build()) == [(2, push(2, 3, 1, PS, 6, 6, 6, kind=RESULT))]
    assert (state.jobs[0].rpcs, state.jobs[0].duplicates) == (3, 2)


def test_a_push_that_is_two_rounds_late_is_dropped() -> None:
    state = server()
    for number in (1, 2, 3):
        for worker in (0, 1):
            take(state, push(worker, 2, number).build())
    assert take(state, push(0, 2, 1).build()) == []
    assert state.jobs[0].stale == 1
    assert take(state, push(0, 2, 3).build())[0][1].values == (3, 3, 3)


def test_rounds_are_numbered_beyond_32_bits() -> None:
    state = server()
    state.rows["round_number"] = 2**32 - 2
    for number in (2**32 - 1, 0, 1):
        take(state, push(0, 2, number).build())
        assert len(take(state, push(1, 2, number).build())) == 2


@pytest.mark.parametrize(
    ("packet", "counter"),
    [
        (push(0, kind=ACK), "misdirected"),
        (push(0, job=JOB + 1), "misdirected"),
        (push(0, chunk=2), "misdirected"),  # another server's
        (push(0, chunk=2 * 6 + 1), "misdirected"),  # behind the vector's end
        (push(0, values=()), "misdirected"),
        (push(2), "malformed"),
        (push(0, 0), "malformed"),
        (push(0, 33), "malformed"),
        (push(0, is_float=2), "malformed"),
        (push(0, size=MIN_SIZE - 1), "malformed"),
        (push(0, size=MAX_SIZE + 1), "malformed"),
        (push(0, values=(0,) * (MIN_SIZE + 1)), "malformed"),
    ],
)
def test_an_unexpected_push_changes_nothing(packet: DensePacket, counter: str) -> None:
    state = server()
    assert take(state, packet.build()) == []
    assert getattr(state.header, counter) == 1 and not state.rows["seen"].any() and not state.sums.any()


@pytest.mark.parametrize("cut", [0, 15, 17])
def test_a_truncated_push_is_malformed(cut: int) -> None:
    state = server()
    assert take(state, push(0).build()[:cut]) == [] and state.header.malformed == 1


@pytest.mark.parametrize("other", [{"values": (1,)}, {"workers": 3}, {"is_float": 1}, {"size": 100}])
def test_a_push_unlike_the_first_is_not_added(other: dict[str, Any]) -> None:
    state = server()
    take(state, push(0).build())
    assert take(state, push(1)._replace(**other).build()) == [] and state.header.misdirected == 1
    assert len(take(state, push(1).build())) == 2


def test_pushes_and_answers_have_the_bytes_worked_out_by_hand() -> None:
    """Kind, form, worker, workers; job, size; round; chunk; values."""
    state = server()
    for sent, received in (
        ("01010002" "000b0040" "00000001" "00000003" "3f800000" "c0000000", []),  # 1.0, -2.0
        ("01010102" "000b0040" "00000001" "00000003" "3f000000" "40000000", [
            (1, "02010102" "000b0040" "00000001" "00000003" "3fc00000" "00000000"),  # 1.5, 0.0
            (0, "02010002" "000b0040" "00000001" "00000003" "3fc00000" "00000000"),
        ]),
    ):  # fmt: skip
        assert [(to, packet.build().hex()) for to, packet in take(state, bytes.fromhex(sent))] == received


def test_a_second_job_s_sums_go_to_its_own_ports() -> None:
    """Peers are the servers, then the workers of each job in turn."""
    other = JOB + 1
    state = make_adder(PS, N_PS, KeySpace(6 * MIN_SIZE), [JOB, other])
    assert take(state, push(0, job=other).build()) == []
    sums = take(state, push(1, job=other).build(), first_peer=N_PS + 2)
    assert [(to, packet.job) for to, packet in sums] == [(1, other), (0, other)]
