"""All-reduces at hosts: every worker gets the plain sum under loss, duplication and reordering."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foundation.designs.interface import Design
from hotline_agents.worker.ops import COMPILED, plain_ops
from hotline_allreduce.dense.client import StalledError, addend_limit, error_bound
from hotline_allreduce.dense.packet import HEADER, MAX_SIZE, VALUE_BYTES
from hotline_allreduce.dense.vector import STALL_TIMEOUT_NS
from hotline_allreduce.psdense import design as psdense
from hotline_allreduce.ring import design as ring
from packages.allreduce.tests.harness.dense import DenseTestbed, integers, total
from packages.allreduce.tests.harness.vectors import float_vectors
from switch_harness.effort import examples
from switch_harness.wording import mentions

DESIGNS = pytest.mark.parametrize("design", [psdense.DESIGN, ring.DESIGN], ids=lambda design: design.name)


@DESIGNS
@settings(max_examples=examples(160))
@given(
    seed=st.integers(0, 2**32), workers=st.integers(2, 5), servers=st.integers(1, 3),
    faults=st.sampled_from([0.0, 0.05, 0.3]), window=st.sampled_from([1, 3, 64]),
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=3),
    chunk_size=st.sampled_from([64, 65, MAX_SIZE]),
)  # fmt: skip
def test_integers_add_up_exactly_at_every_worker(
    design: Design, seed: int, workers: int, servers: int, faults: float, window: int, sizes: list[int],
    chunk_size: int,
) -> None:  # fmt: skip
    testbed = DenseTestbed(
        design, workers, servers, window=window, chunk_size=chunk_size, seed=seed, faults=faults
    )
    for n in sizes:
        vectors = [integers(testbed.random, n) for _ in range(workers)]
        for result in testbed.all_reduce(vectors):
            assert result.tolist() == total(vectors)


SPECIAL = [0.0, 1.0, -1.0, 1e-45, 2.0**-126, -(2.0**-100), float(np.float32(1) - np.float32(2**-24))]


@DESIGNS
@settings(max_examples=examples(160))
@given(given_=float_vectors(7, 2.0**124, 270, SPECIAL), seed=st.integers(0, 99))
def test_floats_add_up_within_their_bound_and_alike(
    design: Design, given_: NDArray[np.float32], seed: int
) -> None:
    results = DenseTestbed(design, len(given_), seed=seed, faults=0.2).all_reduce(list(given_))
    assert all(result.tobytes() == results[0].tobytes() for result in results)
    exact, sizes = given_.astype(np.float64).sum(axis=0), np.abs(given_.astype(np.float64)).sum(axis=0)
    assert (np.abs(results[0] - exact) <= error_bound(len(given_), sizes)).all()


def test_the_bound_is_tight() -> None:
    """One and a half roundings: 1 + 2^-24 is rounded to 1, twice over."""
    vectors = [np.array([each], np.float32) for each in (1.0, 2.0**-24, 2.0**-24)]
    [result, *_] = DenseTestbed(psdense.DESIGN, 3).all_reduce(vectors)
    off = 1 + 2.0**-23 - float(result[0])
    bound = float(error_bound(3, np.array([1 + 2.0**-23]))[0])
    assert bound / 1.001 <= off <= bound


@DESIGNS
@pytest.mark.parametrize("workers", [2, 9])
def test_sums_of_the_largest_floats_do_not_overflow(design: Design, workers: int) -> None:
    vectors = [np.full(3, np.float32(addend_limit(workers) * 0.999), np.float32)] * workers
    for result in DenseTestbed(design, workers, values=3).all_reduce(vectors):
        assert result.tolist() == pytest.approx([2.0**127 * 0.999] * 3, rel=1e-5)


@DESIGNS
def test_pushes_add_to_the_model_of_every_worker_and_pulls_read_that_model(design: Design) -> None:
    testbed = DenseTestbed(design, 3, faults=0.2)
    positions, answered = np.array([5, 0, 299]), [np.zeros(3, np.bool_) for _ in testbed.clients]
    for client in testbed.clients:
        client.set_worker_count(3)
    for iteration in (1, 2):
        for w, client in enumerate(testbed.clients):
            deltas = np.array([1, 10, 2**32 - 1], np.uint32) * np.uint32(w + 1)
            client.push(iteration, positions, deltas, answered[w])
        testbed.settle()
    for client in testbed.clients:
        client.pull(3, positions)
        assert client.idle and client.values.tolist() == [12, 120, 2**32 - 12]
    assert np.all(answered)
    testbed.clients[0].start_empty_rpc(0)
    assert not testbed.clients[0].idle  # a barrier
    for client in testbed.clients[1:]:
        client.start_empty_rpc(0)
    testbed.settle()


@DESIGNS
def test_plain_python_leaves_the_same_state_as_compiled_code(design: Design) -> None:
    beds = [DenseTestbed(design, 3, seed=5, faults=0.2, ops=ops) for ops in (COMPILED, plain_ops())]
    for testbed in beds:
        testbed.all_reduce([np.linspace(-3, 7, 150, dtype=np.float32) * (w + 1) for w in range(3)])
        testbed.all_reduce([integers(testbed.random, 200) for _ in range(3)])
    for compiled, twin in zip(*(testbed.clients for testbed in beds), strict=True):
        for ours, reference in zip(compiled.state, twin.state, strict=True):
            assert ours.tobytes() == reference.tobytes()


@DESIGNS
@pytest.mark.parametrize("workers", [2, 3, 4])
@pytest.mark.parametrize("chunk_size", [64, 256])
def test_without_loss_every_link_carries_the_octets_of_the_formula(
    design: Design, workers: int, chunk_size: int
) -> None:
    """Counted packets equal the formula for 1,536 values, which parts and chunks divide evenly."""
    n, servers = 1536, 2
    testbed = DenseTestbed(design, workers, servers, values=n, chunk_size=chunk_size, window=64)
    testbed.all_reduce([np.ones(n, np.int32)] * workers)
    chunks = n // chunk_size
    frame = HEADER.size + VALUE_BYTES * chunk_size
    sent: dict[int, int] = {}
    for source, _, packet in testbed.sent:
        sent[source] = sent.get(source, 0) + len(packet.build())
    if design is psdense.DESIGN:
        assert [sent[servers + w] for w in range(workers)] == [chunks * frame] * workers
        assert [sent[ps] for ps in range(servers)] == [workers * chunks * frame // servers] * servers
    elif n // workers % chunk_size == 0:
        steps, in_part = 2 * (workers - 1), chunks // workers
        assert list(sent.values()) == [steps * in_part * (frame + HEADER.size)] * workers
        values = steps * in_part * chunk_size
        assert values == 2 * (workers - 1) * n / workers


@DESIGNS
def test_a_wait_without_an_answer_is_an_error(design: Design) -> None:
    testbed = DenseTestbed(design, 2)
    testbed.clients[0].all_reduce(np.ones(100, np.float32), 2)
    with pytest.raises(StalledError, match=mentions("worker 1", 1)):
        testbed.settle()
    assert testbed.now >= STALL_TIMEOUT_NS and testbed.clients[0].deadline() is None
    assert testbed.clients[0].is_stalled and testbed.clients[0].transmit() is None


@DESIGNS
@pytest.mark.parametrize(
    ("vector", "workers", "reported"),
    [
        (np.ones(380, np.float32), 2, "expected a vector of 1 to 300 values, got 380"),
        (np.ones(0, np.float32), 2, "values, got 0"),
        (np.ones(3, np.float64), 2, "expected a vector of float32 or int32, got float64"),
        (np.ones(3, np.float32), 33, "workers, got 33"),
        (np.ones(3, np.float32), 0, "workers, got 0"),
        (
            np.array([1, np.nan], np.float32),
            2,
            "value 1: .* magnitude below .*, got nan",
        ),
        (np.array([1, 2, -(2.0**126)], np.float32), 2, r"value 2: expected .*, got -8\.5"),
    ],
)
def test_vectors_of_a_wrong_type_length_or_range_are_refused(
    design: Design, vector: Any, workers: int, reported: str
) -> None:
    with pytest.raises(ValueError, match=reported):
        DenseTestbed(design, 1).clients[0].all_reduce(vector, workers)


@DESIGNS
def test_chunk_sizes_and_windows_out_of_range_are_refused(design: Design) -> None:
    client = DenseTestbed(design, 1).clients[0]
    for size in (63, MAX_SIZE + 1):
        with pytest.raises(ValueError, match=mentions(64, 360, size)):
            client.chunk_size = size
    with pytest.raises(ValueError, match=mentions("window", 1, 64, 65)):
        DenseTestbed(design, 1, window=65)
