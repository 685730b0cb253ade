"""The compiled PS, its plain form and a model in plain terms behave alike on random datagrams."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.errors import MalformedDatagram
from foundation.protocol.hashing import ps_ids_of
from foundation.protocol.header import MAX_EPOCHS, NO_KEY, Op, unpack
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.state import make_server
from hotline_agents.hotset.ps.store import HotsetStore
from hotline_agents.ps.rpc_server import RpcServer
from hotline_agents.ps.rpcs import CONNECTION_RECORDS, JOB_COUNTERS, row_of
from hotline_agents.ps.share import keys_at, make_share, places_and_keys, places_of
from nativekit.plain import plain
from switch_harness.mutation import mutate
from tests.harness.model_server import ModelServer, ModelStore
from tests.harness.requests import random_request, requests_of_many_epochs
from tests.harness.wire import rpc

SIZE, PS, N_PS, JOBS = 200, 1, 3, (4, 5)
DENSE = KeySpace(SIZE)
SPARSE = KeySpace(SIZE, np.sort(np.random.default_rng(1).integers(0, 2**64 - 1, SIZE, dtype=np.uint64)))


class Twins:
    """A PS and its model, which get the same datagrams."""

    def __init__(self, space: KeySpace, as_plain: bool) -> None:
        self.now = 0
        self.space = space
        self.server = RpcServer(make_server(PS, N_PS, space, JOBS), lambda: self.now, as_plain)
        self.stores = {job: HotsetStore(self.server.state, job) for job in JOBS}
        self.models = {job: ModelStore(space, PS, N_PS) for job in JOBS}
        self.model = ModelServer(PS, self.models, lambda: self.now)

    def handle(self, datagram: bytes, arrival: int, read: int) -> None:
        self.now = read + 77
        answer = self.server.handle(datagram, arrival, read)
        expected = self.model.handle(datagram, arrival, read)
        assert (answer is None) == (expected is None)
        if answer is not None and expected is not None:
            assert answer == (expected[0], bytes(expected[1]))

    def move(self, job: int, keys: np.ndarray, home: bool) -> None:
        """Give keys away, or take them back with 9 added."""
        store, model = self.stores[job], self.models[job]
        at, position = store.locate(keys), model.locate(keys)
        if home:
            store.reclaim(at, np.full(len(at), 9, dtype=np.uint32))
            model.values[position] += np.uint32(9)
        else:
            assert store.release(at).tolist() == model.values[position].tolist()
            model.values[position] = 0
        model.owned[position] = home

    def check(self) -> None:
        for job in JOBS:
            row, counters = self.server.counters[job], self.model.counters[job]
            counters.overflows = self.models[job].overflows
            reported = {name: int(row[name]) for name in JOB_COUNTERS}
            assert reported == {name: getattr(counters, name) for name in JOB_COUNTERS}
            held, model = self.stores[job].contents(), self.models[job]
            at = self.space.positions(held.keys)
            assert sorted(at.tolist()) == np.flatnonzero(model.in_share).tolist()
            for column, expected in zip(held[1:4], (model.values, model.owned, model.updates), strict=True):
                assert column.tolist() == expected[at].tolist()
        connection_records = np.concatenate(self.server.collect_connection_records())
        logged = np.array(self.model.connection_records).reshape(-1, 3)
        assert [list(connection) for connection in connection_records.tolist()] == logged.tolist()
        del self.model.connection_records[:]
        assert self.server.malformed == self.model.malformed
        assert self.server.misdirected == self.model.misdirected


def is_control(datagram: bytes) -> bool:
    try:
        return unpack(datagram).op == Op.CONTROL
    except MalformedDatagram:
        return len(datagram) > 1 and datagram[1] == Op.CONTROL


def exchange(seed: int, space: KeySpace, as_plain: bool, datagrams: int) -> Twins:
    random, twins = Random(seed), Twins(space, as_plain)
    own = space.all()[ps_ids_of(space.all(), N_PS) == PS].tolist()
    for datagram in requests_of_many_epochs(JOBS[0], 1, PS):
        twins.handle(datagram, 0, 0)
    for step in range(datagrams):
        datagram = random_request(random, space, PS, N_PS, JOBS)
        if random.random() < 0.3:
            datagram = mutate(datagram, random)
        if random.random() < 0.05:
            keys = np.array(random.sample(own, 5), dtype=np.uint64)
            twins.move(random.choice(JOBS), keys, home=random.random() < 0.5)
        if not is_control(datagram):
            twins.handle(datagram, 10 * step, 10 * step + random.randrange(2**33))
    return twins


@pytest.mark.parametrize("space", [DENSE, SPARSE], ids=["dense", "sparse"])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_compiled_server_answers_like_the_model(space: KeySpace, seed: int) -> None:
    exchange(seed, space, as_plain=False, datagrams=300).check()


@pytest.mark.parametrize("space", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_the_plain_server_leaves_the_same_bytes_as_the_compiled_server(space: KeySpace) -> None:
    for seed in range(3):
        twins = [exchange(seed, space, as_plain, datagrams=60) for as_plain in (False, True)]
        for left, right in zip(*(twin.server.state[:-1] for twin in twins), strict=True):
            assert left.tobytes() == right.tobytes()


@settings(max_examples=50, deadline=None)
@given(
    size=st.integers(1, 300),
    n_ps=st.integers(1, 20),
    spread=st.booleans(),
    odd=st.lists(st.integers(0, 2**64 - 1), max_size=20),
)
def test_keys_of_a_share_have_distinct_places(size: int, n_ps: int, spread: bool, odd: list[int]) -> None:
    rng = np.random.default_rng(size)
    keys = np.unique(rng.integers(0, NO_KEY, size, dtype=np.uint64)) if spread else None
    space = KeySpace(size) if keys is None else KeySpace(len(keys), keys)
    asked = np.concatenate([space.all(), np.array([*odd, NO_KEY], dtype=np.uint64)])
    owners = ps_ids_of(asked, n_ps)
    for ps in {0, n_ps // 2, n_ps - 1}:
        share = make_share(space, ps, n_ps)
        places = places_of(share, asked)
        is_ours = np.isin(asked, space.all()) & (owners == ps)
        assert (places[~is_ours] == share.header.places).all()
        assert len(np.unique(places[is_ours])) == len(np.unique(asked[is_ours]))
        known, found = places_and_keys(share)
        assert found.dtype == np.uint64
        assert sorted(found.tolist()) == sorted(set(asked[is_ours].tolist()))
        assert places_of(share, found).tolist() == known.tolist()
        assert keys_at(share, known[::-2]).tolist() == found[::-2].tolist()


@pytest.mark.parametrize("as_plain", [False, True])
def test_a_late_copy_of_a_push_of_any_earlier_epoch_adds_nothing(as_plain: bool) -> None:
    twins, n_epochs = Twins(DENSE, as_plain), MAX_EPOCHS + 3
    key = DENSE.all()[ps_ids_of(DENSE.all(), N_PS) == PS][:1].tolist()
    caller: dict[str, Any] = {"job": 4, "worker": 1, "ps": PS, "seq": 64}
    pushes = [rpc(Op.PUSH, key, [1], **caller, epoch=epoch) for epoch in range(1, n_epochs + 1)]
    for _ in range(2):
        for push in pushes:
            twins.handle(push, 0, 0)
        for epoch in range(n_epochs):  # the epoch 0 has not been used
            twins.handle(rpc(Op.EMPTY, **caller | {"seq": 65}, epoch=n_epochs, iteration=66, t0=epoch), 0, 0)
    assert twins.server.state.header.n_callers == MAX_EPOCHS
    assert twins.models[4].values.sum() == n_epochs
    twins.check()


def test_a_request_of_a_worker_that_the_run_does_not_have_leaves_nothing() -> None:
    twins = Twins(DENSE, as_plain=False)
    twins.server.state.header.n_workers = 3
    answers = {
        worker: twins.server.handle(rpc(Op.EMPTY, job=4, worker=worker, epoch=1, ps=PS, seq=64), 0, 0)
        for worker in (0, 1, 3, 4, 0x8000 + PS, 0xFFFF)
    }
    assert {worker for worker, answer in answers.items() if answer is not None} == {1, 3}
    assert (twins.server.misdirected, twins.server.state.header.n_callers) == (4, 2)


@pytest.mark.soak
def test_a_server_makes_room_for_more_callers_and_contacts() -> None:
    twins = Twins(DENSE, as_plain=False)
    for turn in (1, 2):
        for worker in range(1, 2000):
            twins.handle(rpc(Op.EMPTY, job=4, worker=worker, epoch=1, ps=PS, seq=64 * turn), 0, 0)
    again: dict[str, Any] = {"job": 4, "worker": 1, "epoch": 1, "ps": PS}
    twins.handle(rpc(Op.EMPTY, **again, seq=64), 0, 0)
    assert twins.server.counters[4].stale == 1
    twins.check()

    many = rpc(Op.EMPTY, **again, seq=128)
    for _ in range(CONNECTION_RECORDS + 10):
        twins.server.handle(many, 5, 5)
    parts = twins.server.collect_connection_records()
    assert sum(map(len, parts)) == CONNECTION_RECORDS + 10 and len(parts) == 2
    assert {int(row.arrival) for part in parts for row in part} == {5}


@pytest.mark.parametrize("as_plain", [False, True])
def test_callers_whose_rows_collide_are_kept_apart(as_plain: bool) -> None:
    """It is the last row of the table, so that probing wraps around."""
    twins = Twins(DENSE, as_plain)
    callers, find = twins.server.state.callers, plain(row_of)
    rows = len(callers)
    first = next(worker for worker in range(1, rows) if find(callers, 4, worker, 1) == rows - 1)
    key = DENSE.all()[ps_ids_of(DENSE.all(), N_PS) == PS][:1].tolist()
    for _ in range(2):
        for worker in range(first, 2**16, rows):
            twins.handle(rpc(Op.PUSH, key, [worker], job=4, worker=worker, epoch=1, ps=PS, seq=64), 0, 0)
    assert twins.server.state.header.n_callers == 2**16 // rows
    twins.check()
