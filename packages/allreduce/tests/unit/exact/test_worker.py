"""Workers of `exact`: correctly rounded sums at all of them, under loss, duplication and reordering."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hotline_agents.worker.ops import COMPILED, plain_ops
from hotline_allreduce.exact.agents import AGENTS, ExactClient
from hotline_allreduce.exact.arithmetic import INFINITY, NAN, NEGATIVE_ZERO, SIGN
from hotline_allreduce.exact.reference import correctly_rounded_sums
from hotline_allreduce.exact.worker import FLOATS_A_CHUNK, PACKET_BYTES
from packages.allreduce.tests.harness.dense import integers, total
from packages.allreduce.tests.harness.switchml import SwitchMLTestbed
from switch_harness.effort import examples
from switch_harness.wording import mentions

Floats = NDArray[np.float32]


class ExactTestbed(SwitchMLTestbed):
    """Workers of `exact` at a switch that compares chunk numbers, and a network that loses and reorders."""

    agents, check, disorder, size = AGENTS, True, 0.2, 32 * FLOATS_A_CHUNK

    def all_reduce_shards(self, shards: Floats) -> list[Floats]:
        """Add up arrays [workers, shards, n]; return copies of the results."""
        for client, rows in zip(self.clients, shards, strict=True):
            assert isinstance(client, ExactClient)
            client.all_reduce_shards(rows, len(shards))
        self.settle()
        return [np.asarray(client.result.copy(), np.float32) for client in self.clients]


def drawn(seed: int, shape: tuple[int, ...]) -> Floats:
    """Return floats of which some are special, some close to each other, and some any words."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 2**32, shape, np.uint32)
    near = rng.integers(126, 130, shape) << 23 | rng.integers(0, 2, shape) << 31 | rng.integers(0, 4, shape)
    special = rng.choice([0, SIGN, 1, INFINITY, INFINITY | SIGN, NAN, 0x7F7FFFFF, 0x33800000], shape)
    kind = rng.choice(3, shape[-1], p=[0.4, 0.5, 0.1])
    mixed = np.where(kind == 0, words & 0xBFFFFFFF, np.where(kind == 1, near, special))
    return mixed.astype(np.uint32).view(np.float32)


def words_of(floats: NDArray[Any]) -> list[int]:
    return list(map(int, np.asarray(floats, np.float32).view(np.uint32)))


def expected_words(vectors: Floats) -> list[int]:
    sums = correctly_rounded_sums(list(vectors))
    return list(map(int, np.where(np.isnan(sums), np.uint32(NAN), sums.view(np.uint32))))


@settings(max_examples=examples(150))
@given(
    seed=st.integers(0, 2**32), workers=st.integers(1, 5), window=st.sampled_from([1, 3, 64]),
    loss=st.sampled_from([0.0, 0.2]), sizes=st.lists(st.integers(1, 300), min_size=1, max_size=3),
)  # fmt: skip
def test_every_worker_has_the_correctly_rounded_sums(
    seed: int, workers: int, window: int, loss: float, sizes: list[int]
) -> None:
    testbed = ExactTestbed(workers, seed, window, loss=loss)
    for n in sizes:
        vectors = drawn(seed + n, (workers, n))
        for result in testbed.all_reduce(list(vectors)):
            assert words_of(result) == expected_words(vectors)
        numbers = [integers(testbed.random, n) for _ in range(workers)]
        for result in testbed.all_reduce(numbers):
            assert result.tolist() == total(numbers)


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32), workers=st.sampled_from([1, 2, 4, 8]), shards=st.sampled_from([8, 32]),
    n=st.integers(1, FLOATS_A_CHUNK),
)  # fmt: skip
def test_a_sum_does_not_depend_on_which_worker_holds_a_shard(
    seed: int, workers: int, shards: int, n: int
) -> None:
    vectors = drawn(seed, (shards, n))
    results = ExactTestbed(workers, seed, loss=0.1).all_reduce_shards(vectors.reshape(workers, -1, n))
    assert all(words_of(result) == expected_words(vectors) for result in results)


def test_only_uncertain_values_take_a_second_pass() -> None:
    """Value 40 is next to a tie, and the infinity takes its chunk along."""
    testbed, n = ExactTestbed(3), 3 * FLOATS_A_CHUNK
    vectors = np.ones((3, n), np.float32)
    vectors[:, 40] = 1.0, 2.0**-24, 2.0**-70
    for client, vector in zip(testbed.clients, vectors, strict=True):
        client.all_reduce(vector, 3)
    testbed.settle()
    headers: list[Any] = [client._header for client in testbed.clients]
    assert [(header.n_floats, header.n_repeated) for header in headers] == [(n, 1)] * 3
    assert float(testbed.clients[0].result[40]) == 1 + 2.0**-23
    vectors[1, 5] = np.inf
    testbed.all_reduce(list(vectors))
    assert headers[0].n_repeated == 1 + 1 + FLOATS_A_CHUNK
    assert isinstance(testbed.clients[0], ExactClient)
    assert testbed.clients[0].repeated_share == (2 + FLOATS_A_CHUNK) / (2 * n)


def test_sums_of_zeros_infinities_and_nans_follow_ieee_754() -> None:
    zero, largest, negative = 0, 0x7F7FFFFF, SIGN
    columns = {
        (NEGATIVE_ZERO, NEGATIVE_ZERO): NEGATIVE_ZERO,
        (NEGATIVE_ZERO, zero): zero,
        (0x3F800000, 0x3F800000 | negative): zero,
        (largest, largest): INFINITY,
        (largest | negative, 0x73000000 | negative): INFINITY | negative,
        (largest, 0x72FFFFFF): largest,
        (INFINITY, largest | negative): INFINITY,
        (INFINITY, INFINITY | negative): NAN,
        (INFINITY | negative, INFINITY | negative): INFINITY | negative,
        (0xFFC00001, 0): NAN,
    }
    vectors = np.array(list(columns), np.uint32).T.copy().view(np.float32)
    for order in (vectors, vectors[::-1]):
        for result in ExactTestbed(2).all_reduce(list(order)):
            assert words_of(result) == list(columns.values())


def test_plain_python_leaves_the_same_state_as_compiled_code() -> None:
    beds = [ExactTestbed(2, 5, 2, ops, loss=0.2) for ops in (COMPILED, plain_ops())]
    for testbed in beds:
        testbed.all_reduce(list(drawn(3, (2, 150))))
        testbed.all_reduce([integers(testbed.random, 200) for _ in range(2)])
    states: list[Any] = [testbed.clients[0].state for testbed in beds]
    for ours, reference in zip(*states, strict=True):
        assert ours.tobytes() == reference.tobytes()
    assert {len(packet.build()) for _, packet in beds[0].sent} == {PACKET_BYTES}


@pytest.mark.parametrize(
    ("shards", "workers", "reported"),
    [
        (np.ones(3, np.float32), 2, "expected an array of two dimensions of float32, got 1 of float32"),
        (np.ones((2, 3)), 2, "two dimensions of float32, got 2 of float64"),
        (np.ones((9, 3), np.float32), 32, "expected at most 8 for 32 workers, got 9"),
        (np.ones((17, 33), np.float32), 2, "expected at most 1024 values with padding, got 1088"),
        (np.ones((0, 3), np.float32), 2, "for 2 workers, got 0"),
        (np.ones((2, 0), np.float32), 2, "values with padding, got 0"),
        (np.ones((2, 3), np.float32), 33, "workers, got 33"),
    ],
)
def test_shards_that_cannot_be_added_are_refused(shards: Any, workers: int, reported: str) -> None:
    client = ExactTestbed(1).clients[0]
    assert isinstance(client, ExactClient)
    with pytest.raises(ValueError, match=reported):
        client.all_reduce_shards(shards, workers)
    with pytest.raises(ValueError, match=mentions(2, "dimensions")):
        client.all_reduce(np.ones((2, 3), np.float32), 2)
