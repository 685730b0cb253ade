"""Servers only: every update counts once under loss, duplication and reordering."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foundation.designs.registry import design
from foundation.protocol.codec import Caller
from foundation.protocol.hashing import ps_of
from foundation.protocol.header import LANES
from hosts.keys import KeySpace
from hotline_agents.designs import agents_of
from hotline_agents.none import RequestClient
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps, plain_ops
from tests.harness.faulty_loop import FaultyLoop

JOB, N_PS = 7, 3
NONE = agents_of(design("none"))


Datagram = tuple[int, int | None, bytes]
"""A worker, the server that a request goes to, None for an answer, and the octets."""


class ServerTestbed(FaultyLoop[Datagram]):
    """Workers and servers, with a network that loses, doubles and reorders datagrams."""

    def __init__(self, space: KeySpace, seed: int, workers: int = 2, ops: AnyWorkerOps = COMPILED) -> None:
        super().__init__(Random(seed), doubling=0.3, reordering=0.9)
        self.space = space
        as_plain = ops is not COMPILED
        self.clients = [
            RequestClient(Caller(JOB, w + 1, 1), N_PS, space, lambda: self.now, window=4, ops=ops)
            for w in range(workers)
        ]
        self.servers = [
            NONE.core(ps, N_PS, space, {JOB: 1}, lambda: self.now, as_plain) for ps in range(N_PS)
        ]
        self.sums = np.zeros(space.size, np.uint32)
        self.answered = [np.zeros(space.size, np.bool_) for _ in range(workers)]

    def cores(self) -> list[RequestClient]:
        return self.clients

    def transmit(self) -> None:
        for w, client in enumerate(self.clients):
            for datagram, ps in iter(client.transmit, None):
                self.put((w, ps, bytes(datagram)))

    def arrive(self, message: Datagram) -> None:
        w, ps, datagram = message
        if ps is None:
            self.clients[w].receive(datagram, self.now, self.now)
        elif (answered := self.servers[ps].server.handle(datagram, self.now, self.now)) is not None:
            self.put((w, None, bytes(answered[1])))

    def is_settled(self) -> bool:
        return all(client.idle for client in self.clients)

    def begin(self, w: int, positions: list[int], pushes: bool) -> None:
        at = np.array(positions, np.int64)
        if pushes:
            deltas = np.array([self.random.randrange(2**32) for _ in at], np.uint32)
            self.clients[w].push(1, at, deltas, self.answered[w])
            self.sums[at] += deltas
        else:
            self.clients[w].pull(1, at)

    def held(self) -> list[int]:
        held = np.zeros(self.space.size, np.uint32)
        for server in self.servers:
            own = server.stores[JOB].contents()
            held[self.space.positions(own.keys)] += own.values
        return held.tolist()


SPACES = [KeySpace(150), KeySpace(40, np.arange(40, dtype=np.uint64) ** 3 + np.uint64(2**40))]


@pytest.mark.parametrize("space", SPACES, ids=["dense", "sparse"])
@given(seed=st.integers(0, 2**32), loss=st.sampled_from([0.0, 0.3]))
def test_servers_hold_the_sums_of_all_pushes(space: KeySpace, seed: int, loss: float) -> None:
    testbed = ServerTestbed(space, seed)
    for _ in range(4):
        for w in range(2):
            count = testbed.random.randrange(space.size + 1)
            testbed.begin(w, testbed.random.sample(range(space.size), count), testbed.random.random() < 0.6)
        testbed.loss = loss
        testbed.settle()
    assert testbed.held() == testbed.sums.tolist()


@given(seed=st.integers(0, 2**32))
def test_plain_python_leaves_the_same_state_as_compiled_code(seed: int) -> None:
    beds = [ServerTestbed(SPACES[0], seed, workers=1, ops=ops) for ops in (COMPILED, plain_ops())]
    for testbed in beds:
        testbed.loss = 0.2
        for _ in range(2):
            keys = testbed.random.sample(range(testbed.space.size), 80)
            testbed.begin(0, keys, True)
            testbed.settle()
            testbed.begin(0, keys, False)
            testbed.settle()
    compiled, twin = beds
    assert compiled.clients[0].values.tolist() == twin.clients[0].values.tolist()
    states: list[Any] = [testbed.clients[0].state for testbed in beds]
    for ours, reference in zip(*states, strict=True):
        assert ours.tobytes() == reference.tobytes()


def test_a_pull_brings_the_pushed_sums_in_as_few_rpcs_as_possible() -> None:
    testbed = ServerTestbed(SPACES[0], 1, workers=1)
    at = list(range(150))
    testbed.begin(0, at, True)
    testbed.settle()
    testbed.begin(0, at, False)
    testbed.settle()
    assert testbed.clients[0].values.tolist() == testbed.sums.tolist() and testbed.answered[0].all()
    of_ps = [sum(ps_of(key, N_PS) == ps for key in at) for ps in range(N_PS)]
    assert testbed.clients[0].rpcs_of_operation == sum(-(-keys // LANES) for keys in of_ps)


def test_an_empty_rpc_is_answered() -> None:
    testbed = ServerTestbed(SPACES[0], 1, workers=1)
    testbed.clients[0].start_empty_rpc(2)
    testbed.settle()
    [row] = testbed.clients[0].records
    assert (row.ps, row.lanes) == (2, 0)
