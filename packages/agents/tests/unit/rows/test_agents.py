"""Workers and servers with rows of any dims, against a plain model: no switch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.designs.registry import design
from foundation.optimisers import TableOptimiser, parse
from foundation.protocol.codec import Caller
from foundation.protocol.header import DIMS, Op, lanes_of_dim, unpack
from foundation.protocol.rows import RowRange, RowRanges
from hosts.keys import KeySpace
from hotline_agents.designs import agents_of
from hotline_agents.worker.ops import COMPILED, plain_ops
from tests.harness import fbgemm_adagrad, wire

JOB, N_PS, SIZE, BATCH = 3, 2, 120, 60
SCALE = 2.0**12


class Cluster:
    """One worker and its servers, whose datagrams the test carries."""

    def __init__(
        self, name: str, space: KeySpace, is_plain: bool = False, optimiser: str | None = None
    ) -> None:
        agents, self.space, self.now = agents_of(design(name)), space, 1
        tables = (
            [] if optimiser is None else [TableOptimiser(first=0, scale=SCALE, optimiser=parse(optimiser))]
        )
        ops = plain_ops() if is_plain else COMPILED
        self.client = agents.client(
            Caller(JOB, 1, 0), N_PS, space, lambda: self.now, 64, max_keys=BATCH, ops=ops
        )
        self.servers = [
            agents.core(ps, N_PS, space, {JOB: 0}, lambda: self.now, is_plain, tables=tables)
            for ps in range(N_PS)
        ]
        self.rpcs: list[tuple[int, int]] = []
        """Dim and number of lanes of each RPC."""

    def run(self) -> None:
        while not self.client.idle:
            self.now += 1
            self.client.wake(self.now)
            while (sent := self.client.transmit()) is not None:
                datagram, ps = sent
                header = unpack(bytes(datagram))
                self.rpcs.append((header.dim, header.count))
                answered = self.servers[ps].server.handle(datagram, self.now, self.now)
                assert answered is not None
                self.client.receive(answered[1], self.now, self.now)

    def push(self, positions: Sequence[int], deltas: np.ndarray) -> None:
        answered = np.zeros(BATCH, np.bool_)
        self.client.push(1, np.array(positions), deltas, answered)
        self.run()
        assert answered[: len(positions)].all()

    def pull(self, positions: Sequence[int]) -> np.ndarray:
        self.client.pull(1, np.array(positions))
        self.run()
        return np.array(self.client.values)

    def sums(self) -> np.ndarray:
        sums = np.zeros(self.space.n_values, np.uint32)
        for server in self.servers:
            contents = server.stores[JOB].contents()
            sums[self.space.value_places(self.space.positions(contents.keys))] += contents.sums
        return sums


RANGES: dict[str, RowRanges] = {
    **{f"dim {dim}": (RowRange(0, dim),) for dim in DIMS},
    "mixed": (RowRange(0, 16), RowRange(7, 1), RowRange(50, 128), RowRange(60, 4), RowRange(100, 16)),
}
CASES = [(name, rows) for name in ("none", "hotset", "collect") for rows in RANGES]
SPARSE = np.sort(np.random.default_rng(1).integers(0, 2**63, SIZE, np.int64)).astype(np.uint64)


@cache
def space_of(rows: str, is_sparse: bool) -> KeySpace:
    return KeySpace(SIZE, SPARSE if is_sparse else None, RANGES[rows])


@pytest.mark.parametrize("is_plain", [False, True], ids=["compiled", "plain"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize(("name", "rows"), CASES)
def test_rows_are_the_sums_of_their_pushes(name: str, rows: str, is_sparse: bool, is_plain: bool) -> None:
    space, random = space_of(rows, is_sparse), np.random.default_rng(len(rows))
    cluster, model = Cluster(name, space, is_plain), np.zeros(space.n_values, np.uint32)
    for _ in range(2 if is_plain else 6):
        positions = random.permutation(SIZE)[: random.integers(1, BATCH + 1)]
        places = space.value_places(positions)
        deltas = random.integers(0, 2**32, len(places), np.uint32)
        cluster.push(positions.tolist(), deltas)
        model[places] += deltas
        wanted = random.permutation(SIZE)[:BATCH]
        np.testing.assert_array_equal(cluster.pull(wanted.tolist()), model[space.value_places(wanted)])
    np.testing.assert_array_equal(cluster.sums(), model)
    # An RPC has rows of one dim, and as many as fit where there are so many.
    assert {dim for dim, _ in cluster.rpcs} == set(space.dims)
    assert all(count <= lanes_of_dim(dim) for dim, count in cluster.rpcs)
    assert any(count == lanes_of_dim(dim) for dim, count in cluster.rpcs)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_places_of_values_equal_the_places_in_a_list_of_rows(data: st.DataObject) -> None:
    firsts = sorted(data.draw(st.sets(st.integers(1, SIZE - 1), max_size=5)))
    dims = data.draw(st.lists(st.sampled_from(DIMS), min_size=len(firsts) + 1, max_size=len(firsts) + 1))
    space = KeySpace(SIZE, None, tuple(map(RowRange, [0, *firsts], dims)))
    rows: list[list[int]] = []
    for position in range(SIZE):
        dim = dims[sum(first <= position for first in firsts)]
        start = rows[-1][-1] + 1 if rows else 0
        rows.append(list(range(start, start + dim)))
    positions = np.array(data.draw(st.lists(st.integers(0, SIZE - 1), unique=True)), np.int64)
    assert space.value_places(positions).tolist() == [place for each in positions for place in rows[each]]
    assert space.dims_at(positions).tolist() == [len(rows[each]) for each in positions]
    assert space.n_values == sum(map(len, rows))
    kept = np.sort(positions)
    if len(kept):
        assert space.restrict(kept).dims_at(np.arange(len(kept))).tolist() == space.dims_at(kept).tolist()


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("is_plain", [False, True], ids=["compiled", "plain"])
def test_an_overflow_of_any_value_is_counted_once_for_its_rpc(dim: int, is_plain: bool) -> None:
    cluster = Cluster("hotset", space_of(f"dim {dim}", False), is_plain)
    limit = np.uint32(2**31)

    def overflows(delta: np.ndarray) -> int:
        jobs = [server.server.state.jobs[0] for server in cluster.servers]
        before = sum(int(job.overflows) for job in jobs)
        cluster.push([5], delta)
        return sum(int(job.overflows) for job in jobs) - before

    for v in range(dim):
        row = np.zeros(dim, np.uint32)
        row[v] = limit - 1
        assert overflows(row) == 0
        row[v] = 1
        assert overflows(row) == 1
        row[v] = limit  # the least number and itself
        assert overflows(row) == 1
        np.testing.assert_array_equal(cluster.pull([5]), np.zeros(dim, np.uint32))


@pytest.mark.parametrize("rows", ["dim 8", "mixed"])
def test_a_row_of_another_dim_is_refused_and_changes_nothing(rows: str) -> None:
    cluster = Cluster("hotset", space_of(rows, False))
    before = [server.server.state.cells.tobytes() for server in cluster.servers]
    for ps, server in enumerate(cluster.servers):
        store = server.stores[JOB]
        own = np.arange(SIZE)[store.is_in_share(store.locate(np.arange(SIZE, dtype=np.uint64)))]
        for dim in DIMS:
            keys = [int(key) for key in own if cluster.space.dims_at(np.array([key]))[0] != dim]
            keys = keys[: lanes_of_dim(dim)]
            if keys:
                request = wire.rpc(
                    Op.PUSH,
                    keys,
                    [7] * dim * len(keys),
                    dim=dim,
                    job=JOB,
                    worker=1,
                    ps=ps,
                    seq=64 + DIMS.index(dim),
                )
                answered = server.server.handle(request, 1, 1)
                assert answered is not None
                assert unpack(answered[1]).refused == (1 << len(keys)) - 1
    assert before == [server.server.state.cells.tobytes() for server in cluster.servers]


@pytest.mark.parametrize("optimiser", ["sgd(lr=0.5)", "adagrad(lr=0.1)", "ftrl", "adam"])
def test_an_elementwise_optimiser_treats_each_value_as_a_row_of_one_value(optimiser: str) -> None:
    rows, values = KeySpace(20, None, (RowRange(0, 16),)), KeySpace(320)
    by_row, by_value = (
        Cluster("none", rows, optimiser=optimiser),
        Cluster("none", values, optimiser=optimiser),
    )
    random = np.random.default_rng(4)
    for step in range(5):
        positions = np.sort(random.permutation(20)[:3])
        gradients = random.integers(-5000, 5000, 48).astype(np.int32).view(np.uint32)
        for cluster, at in ((by_row, positions), (by_value, rows.value_places(positions))):
            cluster.client.prepare(step)
            cluster.push(at.tolist(), gradients)
    found = by_row.pull(range(20))
    expected = np.concatenate([by_value.pull(range(start, start + 40)) for start in range(0, 320, 40)])
    np.testing.assert_array_equal(found, expected)
    assert np.count_nonzero(found.view(np.float32)) > 100


def rowwise_adagrad(
    weights: np.ndarray, squares: np.ndarray, gradients: np.ndarray, rate: float, eps: float
) -> None:
    """Apply FBGEMM's exact row-wise Adagrad to rows [n, dim] with sums [n], in float32 and in order."""
    for row in range(len(weights)):
        total = np.float32(0)
        for gradient in gradients[row]:
            total += gradient * gradient
        squares[row] += total / np.float32(weights.shape[1])
        factor = np.float32(rate) / (np.sqrt(squares[row]) + np.float32(eps))
        weights[row] -= factor * gradients[row]


@pytest.mark.parametrize("dim", [1, 8, 64])
def test_row_wise_adagrad_has_the_bits_of_the_rule_and_is_within_a_bound_of_exact_sums(dim: int) -> None:
    space = KeySpace(12, None, (RowRange(0, dim),))
    cluster, random = (
        Cluster("none", space, optimiser="adagrad(lr=0.05, rowwise=True)"),
        np.random.default_rng(dim),
    )
    weights, squares = np.zeros((12, dim), np.float32), np.zeros(12, np.float32)
    exact, exact_squares = np.zeros((12, dim)), np.zeros(12)
    for _ in range(30):
        positions = np.sort(random.permutation(12)[:5])
        units = random.integers(-4000, 4000, (5, dim)).astype(np.int32)
        cluster.push(positions.tolist(), units.ravel().view(np.uint32))
        gradients, sums = (units * (1 / SCALE)).astype(np.float32), squares[positions]
        rows = weights[positions]
        rowwise_adagrad(rows, sums, gradients, 0.05, 1e-10)
        weights[positions], squares[positions] = rows, sums
        exact_squares[positions] += np.mean(np.square(units / SCALE), axis=1)
        roots = np.sqrt(exact_squares[positions])[:, np.newaxis] + 1e-10
        exact[positions] -= 0.05 * (units / SCALE) / roots
    found = cluster.pull(range(12)).view(np.float32).reshape(12, dim)
    np.testing.assert_array_equal(found, weights)
    # One ulp for each step, and one for each eight roundings of a sum of squares.
    assert np.abs(found - exact).max() <= 30 * 2.0**-23 * np.abs(exact).max() * (1 + dim / 8)


@pytest.mark.parametrize("dim", fbgemm_adagrad.DIMS)
def test_row_wise_adagrad_gives_the_values_of_fbgemm(dim: int) -> None:
    weights = fbgemm_adagrad.weights()[dim]
    space = KeySpace(fbgemm_adagrad.ROWS, None, (RowRange(0, dim),))
    rate, eps = fbgemm_adagrad.RATE, fbgemm_adagrad.EPS
    cluster = Cluster("none", space, optimiser=f"adagrad(lr={rate}, eps={eps}, rowwise=True)")
    assert fbgemm_adagrad.UNITS == SCALE
    for number, (step, expected) in enumerate(zip(fbgemm_adagrad.make_steps(dim), weights, strict=True), 1):
        cluster.push(step.rows.tolist(), step.units.ravel().view(np.uint32))
        found = cluster.pull(range(space.size)).view(np.float32).reshape(expected.shape)
        # FBGEMM adds the squares of a row in another order: the bound is that of the test above.
        assert np.abs(found - expected).max() <= number * 2.0**-23 * np.abs(expected).max() * (1 + dim / 8)
    assert np.abs(found).max(axis=1).min() > rate / 2
