"""SwitchML's worker: all-reduces through the plain model of the switch, under loss and duplication."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foundation.protocol.codec import Caller
from hosts.keys import KeySpace
from hotline_agents.interface import NEVER
from hotline_agents.worker.ops import COMPILED, plain_ops
from hotline_allreduce.dense.client import StalledError
from hotline_allreduce.dense.vector import STALL_TIMEOUT_NS
from hotline_allreduce.switchml.agents import SwitchMLClient
from hotline_allreduce.switchml.model.rules import SwitchMLWindowModel
from hotline_allreduce.switchml.packet import VALUES, SwitchMLPacket, parse
from hotline_allreduce.switchml.window import MAX_WINDOW
from hotline_allreduce.switchml.worker import MAX_FLOAT32, error_bound
from packages.allreduce.tests.harness.dense import integers, total
from packages.allreduce.tests.harness.switchml import SwitchMLTestbed
from packages.allreduce.tests.harness.vectors import float_vectors
from switch_harness.effort import examples
from switch_harness.wording import mentions

SIZE = SwitchMLTestbed.size
MS = 1_000_000


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32), workers=st.integers(1, 4), loss=st.sampled_from([0.0, 0.2]),
    window=st.sampled_from([1, 3, 64]), sizes=st.lists(st.integers(1, SIZE), min_size=1, max_size=4),
)  # fmt: skip
def test_integers_add_up_exactly_at_every_worker(
    seed: int, workers: int, loss: float, window: int, sizes: list[int]
) -> None:
    testbed = SwitchMLTestbed(workers, seed, window, loss=loss)
    for n in sizes:
        vectors = [integers(testbed.random, n) for _ in range(workers)]
        for result in testbed.all_reduce(vectors):
            assert result.tolist() == total(vectors)


SPECIAL = [0.0, 1.0, -1.0, 1e-45, 2.0**-126, -(2.0**-100), 3.0e38 / 4, 1 - 2.0**-24]


@settings(max_examples=examples(200))
@given(given_=float_vectors(70, 2.0**126, 270, SPECIAL))
def test_floats_add_up_within_the_formats_bound(given_: NDArray[np.float32]) -> None:
    workers = len(given_)
    results = SwitchMLTestbed(workers).all_reduce(list(given_))
    assert all(result.tobytes() == results[0].tobytes() for result in results)
    exact, sizes = given_.astype(np.float64).sum(axis=0), np.abs(given_.astype(np.float64)).sum(axis=0)
    for chunk in range(0, 70, VALUES):
        largest = float(np.abs(given_[:, chunk : chunk + VALUES]).max())
        exponent = max(int(np.frexp(largest)[1]), -126) if largest else -126
        for i in range(chunk, min(chunk + VALUES, 70)):
            bound = error_bound(exponent, workers, float(sizes[i]))
            if np.isinf(found := float(results[0][i])):
                assert np.sign(found) == np.sign(exact[i]) and abs(exact[i]) + bound > MAX_FLOAT32
            else:
                assert abs(found - exact[i]) <= bound


def test_a_packet_has_the_exponent_of_the_chunk_a_batch_behind() -> None:
    testbed = SwitchMLTestbed(2, window=2)
    vector = np.repeat(np.array([1.5, 6.0, 100.0, 0.3], np.float32), VALUES)[: SIZE - 44]
    testbed.all_reduce([vector, vector])
    first = [packet for w, packet in testbed.sent if w == 0]
    assert [packet.exponents for packet in first] == [(1, 0), (3, 0), (7, 0), (-1, 0), (0, 0), (0, 0)]
    assert [packet.values[0] for packet in first[:2]] == [0, 0]  # exponents only
    scales = [2**31 / 2 / 2**e for e in (1, 3, 7, -1)]
    wanted = [round(v * s) for v, s in zip((1.5, 6.0, 100.0, 0.3), scales, strict=True)]
    for packet, value in zip(first[2:], wanted, strict=True):
        assert packet.values[0] == pytest.approx(value, rel=1e-6)


def test_sums_of_the_largest_floats_do_not_overflow() -> None:
    for workers in range(1, 33):
        vector = np.full(1, np.float32(1) - np.float32(2**-24), np.float32)
        [result, *_] = SwitchMLTestbed(workers, window=1).all_reduce([vector] * workers)
        assert float(result[0]) == pytest.approx(workers, rel=1e-6)


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32), window=st.integers(1, 5), sizes=st.lists(st.integers(1, SIZE), max_size=4)
)  # fmt: skip
def test_a_worker_sends_the_packets_of_the_model_of_a_window(
    seed: int, window: int, sizes: list[int]
) -> None:
    """Results come in any order, doubled, and of other chunks and all-reduces."""
    random, now, first = Random(seed), 0, 0
    client = SwitchMLClient(Caller(3, 1, 1), 1, KeySpace(SIZE), lambda: now, window)
    for number, n in enumerate(sizes, start=1):
        client.all_reduce(integers(random, n), 1)
        model = SwitchMLWindowModel(first, -(-n // VALUES), window, base=3 * MAX_WINDOW)
        known: dict[int, SwitchMLPacket] = {}
        while not model.is_done:
            while (out := client.transmit()) is not None:
                packet = parse(bytes(out[0]))
                at = packet.chunk - first
                assert at in model.outstanding and (packet.slot, packet.set) == model.slot_and_set(at)
                assert packet.job == number & 0xFF
                known[at] = packet
            assert {at for at in model.outstanding if at not in model.results} <= set(known)
            at = random.choice([*known, *known, 99])
            result = known.get(at, SwitchMLPacket(first + at, 0, 0))._replace(values=(at + 1,) * VALUES)
            strange = random.random() < 0.2
            client.receive((result._replace(job=number + 1 & 0xFF) if strange else result).build(), now, now)
            if not strange:
                model.take(result)
            assert client._header.pending == model.total - len(model.results)
        assert client.idle
        first += model.total
        expected = [i // VALUES + 1 for i in range(n)]
        assert client.result.tolist() == expected


@pytest.mark.parametrize("loss", [0.0, 0.3])
def test_plain_python_leaves_the_same_state_as_compiled_code(loss: float) -> None:
    beds = [SwitchMLTestbed(2, 5, 2, ops, loss) for ops in (COMPILED, plain_ops())]
    for testbed in beds:
        vectors = [np.linspace(-3, 7, 150, dtype=np.float32) * (w + 1) for w in range(2)]
        testbed.all_reduce(vectors)
        positions = np.arange(0, 100, 7)
        for w, client in enumerate(testbed.clients):
            client.push(1, positions, np.full(15, w + 1, np.uint32), np.zeros(15, np.bool_))
        testbed.settle()
        testbed.clients[0].pull(2, positions)
    compiled, twin = beds
    assert compiled.clients[0].values.tolist() == [3] * 15 == twin.clients[0].values.tolist()
    states: list[Any] = [testbed.clients[0].state for testbed in beds]
    for ours, reference in zip(*states, strict=True):
        assert ours.tobytes() == reference.tobytes()


def test_a_wait_without_an_answer_is_an_error() -> None:
    testbed = SwitchMLTestbed(2)
    testbed.clients[0].all_reduce(np.ones(100, np.float32), 2)
    with pytest.raises(StalledError, match=mentions("worker 1", 4)):
        testbed.settle()
    assert testbed.now >= STALL_TIMEOUT_NS and testbed.clients[0].deadline() is None
    assert testbed.clients[0]._header.due == NEVER


def test_the_published_timeout_is_constant() -> None:
    client = SwitchMLTestbed(2).clients[0]
    client.state.header.published_timers = 1
    client.all_reduce(np.ones(100, np.int32), 2)
    for at in range(0, 5 * MS, MS):
        client.wake(at)
        assert len(list(iter(client.transmit, None))) == 2 and client.deadline() == at + MS


@pytest.mark.parametrize(
    ("vector", "workers", "reported"),
    [
        (np.ones(SIZE + 80, np.float32), 2, "expected a vector of 1 to 320 values, got 380"),
        (np.ones(0, np.float32), 2, "values, got 0"),
        (np.ones(3, np.float64), 2, "expected a vector of float32 or int32, got float64"),
        (np.ones(3, np.float32), 33, "workers, got 33"),
        (
            np.array([1, np.nan], np.float32),
            2,
            "value 1: .* magnitude below .*, got nan",
        ),
        (np.array([1, 2, -(2.0**127)], np.float32), 2, r"value 2: expected .*, got -1\.7"),
    ],
)
def test_vectors_of_a_wrong_type_length_or_range_are_refused(
    vector: Any, workers: int, reported: str
) -> None:
    with pytest.raises(ValueError, match=reported):
        SwitchMLTestbed(1).clients[0].all_reduce(vector, workers)
