"""A worker of a ring all-reduce: what it sends (against the textbook), and how it handles packets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hotline_allreduce.dense.packet import ACK, ADDEND, RESULT, DensePacket, parse
from hotline_allreduce.ring.design import DESIGN, RING
from packages.allreduce.tests.harness.dense import DenseTestbed, integers
from switch_harness.effort import examples

SIZE = 64


def steps_of(vectors: list[NDArray[np.int32]]) -> list[list[list[int]]]:
    """Return [worker][step]: the part that each worker sends in each step of a ring all-reduce."""
    workers = len(vectors)
    part = -(-len(vectors[0]) // workers)
    held = [
        [vector[p * part : (p + 1) * part].astype(np.uint32).tolist() for p in range(workers)]
        for vector in vectors
    ]
    sent: list[list[list[int]]] = [[] for _ in vectors]
    for step in range(2 * (workers - 1)):
        leaving = [list(held[i][(i - step) % workers]) for i in range(workers)]
        for i in range(workers):
            sent[i].append(leaving[i])
            before, p = (i - 1) % workers, (i - 1 - step) % workers
            if step < workers - 1:
                added = zip(held[i][p], leaving[before], strict=True)
                held[i][p] = [(old + addend) & 0xFFFFFFFF for old, addend in added]
            else:
                held[i][p] = leaving[before]
    return sent


@settings(max_examples=examples(160))
@given(
    seed=st.integers(0, 2**32), workers=st.integers(2, 5), n=st.integers(1, 300),
    faults=st.sampled_from([0.0, 0.2]), window=st.sampled_from([1, 2, 64]),
)  # fmt: skip
def test_a_member_sends_the_chunks_of_the_textbook_algorithm(
    seed: int, workers: int, n: int, faults: float, window: int
) -> None:
    testbed = DenseTestbed(DESIGN, workers, seed=seed, window=window, faults=faults)
    vectors = [integers(testbed.random, n) for _ in range(workers)]
    testbed.all_reduce(vectors)
    wanted = steps_of(vectors)
    in_part = (len(wanted[0][0]) + SIZE - 1) // SIZE
    found: set[tuple[int, int]] = set()
    for source, to, packet in testbed.sent:
        i = source - testbed.n_ps
        assert to == testbed.n_ps + (i + (1 if packet.kind == ADDEND else -1)) % workers
        if packet.kind == ADDEND:
            step, k = divmod(packet.chunk, in_part)
            assert list(packet.values) == wanted[i][step][k * SIZE : (k + 1) * SIZE]
            found.add((i, packet.chunk))
    assert len(found) == workers * 2 * (workers - 1) * in_part


def alone() -> Any:
    """Return worker 2 of 3 before any packet; its vector of 192 ones has a chunk in each part."""
    client = DenseTestbed(DESIGN, 3, window=64).clients[1]
    client.all_reduce(np.ones(192, np.int32), 3)
    return client


def outgoing(client: Any) -> list[tuple[int, DensePacket]]:
    found = []
    while (out := client.transmit()) is not None:
        found.append((out[1], parse(bytes(out[0]))))
    return found


def chunk(number: int = 1, at: int = 0, value: int = 5, **other: Any) -> DensePacket:
    return DensePacket(ADDEND, 0, 0, 3, RING.job, SIZE, number, at, (value,) * 64)._replace(**other)


def test_a_chunk_is_sent_when_the_chunk_of_the_step_before_has_arrived() -> None:
    client = alone()
    [(to, first)] = outgoing(client)
    assert (to, first.chunk, first.values) == (3, 0, (1,) * 64)  # peer 0 is the server
    client.receive(chunk(at=1).build(), 0, 0)
    assert [(to, packet.kind, packet.chunk) for to, packet in outgoing(client)] == [(1, ACK, 1)]
    client.receive(chunk(at=0).build(), 0, 0)
    found = [(packet.kind, packet.chunk, packet.values[:1]) for _, packet in outgoing(client)]
    # Its own is 1: the sums of the first steps, each with what has come.
    assert found == [(ACK, 0, ()), (ADDEND, 1, (6,)), (ADDEND, 2, (6,))]


def test_a_retransmitted_chunk_is_acknowledged_again_and_not_added() -> None:
    client = alone()
    outgoing(client)
    for _ in range(3):
        client.receive(chunk().build(), 0, 0)
    found = outgoing(client)
    assert [packet.kind for _, packet in found] == [ACK] * 3 + [ADDEND]
    assert found[-1][1].values == (6,) * 64


def test_a_finished_worker_still_acknowledges_chunks() -> None:
    testbed = DenseTestbed(DESIGN, 3)
    testbed.all_reduce([np.ones(192, np.int32)] * 3)
    while testbed.wire:
        testbed.step()
    client, result = testbed.clients[1], testbed.clients[1].result.copy()
    client.receive(chunk().build(), 0, 0)
    assert [(packet.kind, packet.round) for _, packet in outgoing(client)] == [(ACK, 1)]
    assert client.idle and client.result.tolist() == result.tolist()
    client.all_reduce(np.ones(192, np.int32), 3)
    client.receive(chunk(number=1).build(), 0, 0)  # of the previous all-reduce
    assert [(packet.kind, packet.round) for _, packet in outgoing(client)] == [(ACK, 1), (ADDEND, 2)]


def test_chunks_of_the_next_all_reduce_are_buffered() -> None:
    testbed = DenseTestbed(DESIGN, 3)
    client: Any = testbed.clients[1]
    for _ in range(2):
        client.receive(chunk(value=9).build(), 0, 0)
    assert outgoing(client) == []
    client.all_reduce(np.ones(192, np.int32), 3)
    found = [(packet.kind, packet.chunk, packet.values[:1]) for _, packet in outgoing(client)]
    assert found == [(ACK, 0, ()), (ADDEND, 0, (1,)), (ADDEND, 1, (10,))]


def test_no_more_than_a_window_is_on_the_way() -> None:
    testbed = DenseTestbed(DESIGN, 2, window=2, values=1000)
    client: Any = testbed.clients[0]
    client.all_reduce(np.ones(1000, np.int32), 2)
    found = outgoing(client)
    assert [packet.chunk for _, packet in found] == [0, 1]
    client.receive(found[1][1]._replace(kind=ACK, worker=1, values=()).build(), 0, 0)
    assert [packet.chunk for _, packet in outgoing(client)] == [2]


@pytest.mark.parametrize(
    ("packet", "counter"),
    [
        (chunk(worker=2), "unexpected"),  # not the worker before it
        (chunk(at=4), "unexpected"),
        (chunk(values=(5,) * 63), "unexpected"),
        (chunk(number=3), "unexpected"),
        (chunk(kind=RESULT), "unexpected"),
        (chunk(kind=ACK, at=1, worker=2, values=()), "unexpected"),  # has not been sent
        (chunk(kind=ACK, worker=0, values=()), "unexpected"),  # not of the next worker
        (chunk(job=RING.job + 1), "unexpected"),
        (chunk(size=63), "malformed"),
    ],
)
def test_an_unexpected_packet_changes_nothing(packet: DensePacket, counter: str) -> None:
    client = alone()
    outgoing(client)
    before = client.state.vector.tolist()
    client.receive(packet.build(), 0, 0)
    assert client.counters[counter] == 1 and outgoing(client) == []
    assert client.state.vector.tolist() == before
