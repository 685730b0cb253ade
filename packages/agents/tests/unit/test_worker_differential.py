"""The compiled client, its plain form and a model in classes behave alike on random datagrams."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.protocol.codec import Caller
from foundation.protocol.header import unpack
from foundation.protocol.rpc import BUFFER_BYTES
from hosts.keys import KeySpace
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.worker.ops import plain_ops
from switch_harness.effort import examples
from switch_harness.mutation import mutate
from tests.harness.model_client import ModelClient
from tests.harness.wire import reply

US, MS = 1_000, 1_000_000
SIZE = 300
SPARSE = np.sort(
    np.random.default_rng(5).integers(0, 2**63, SIZE, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
)


class Three:
    """Three clients under the same stimuli; all their datagrams are compared at once."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 1_000 * MS
        self.n_ps = random.choice([1, 2, 5])
        space = KeySpace(SIZE, random.choice([None, SPARSE]))
        window = random.choice([1, 3, 64])
        caller = Caller(4, 3, 2**32 - 2)
        self.space = space
        self.model = ModelClient(caller, self.n_ps, space, self._clock, window)
        self.compiled = HotsetClient(caller, self.n_ps, space, self._clock, window)
        self.plain = HotsetClient(caller, self.n_ps, space, self._clock, window, ops=plain_ops())
        self.answered = [np.zeros(1, np.bool_) for _ in self.clients]
        self.requests: list[bytes] = []

    @property
    def clients(self) -> tuple[ModelClient | HotsetClient, ...]:
        return self.model, self.compiled, self.plain

    def _clock(self) -> int:
        return self.now

    def begin(self) -> None:
        if not self.model.idle:
            return
        random = self.random
        kind, iteration = random.random(), random.getrandbits(32)
        if kind < 0.1:
            ps = random.randrange(self.n_ps)
            for client in self.clients:
                client.start_empty_rpc(ps)
            return
        positions = np.array(random.sample(range(SIZE), random.choice([1, 40, SIZE])))
        deltas = np.array([random.getrandbits(32) for _ in positions], np.uint32)
        if kind < 0.5:
            for client in self.clients:
                client.pull(iteration, positions)
            return
        # The model's has one more, for lanes that are not live.
        self.answered = [np.zeros(len(positions) + 1, np.bool_) for _ in self.clients]
        for client, answered in zip(self.clients, self.answered, strict=True):
            client.push(iteration, positions, deltas, answered)

    def hint(self) -> None:
        keys = self.space.all()[np.array([self.random.random() < 0.4 for _ in range(SIZE)])]
        hot = self.random.choice([None, np.append(keys, np.uint64(2**64 - 2))])
        for client in self.clients:
            client.hint(hot)

    def transmit(self, maximum: int) -> None:
        for _ in range(maximum):
            self.now += self.random.choice([0, 1, 700])
            sent = [client.transmit() for client in self.clients]
            ours, *others = [None if out is None else (bytes(out[0]), out[1]) for out in sent]
            assert others == [ours, ours]
            if ours is None:
                return
            self.requests.append(ours[0])

    def receive(self) -> None:
        random = self.random
        if not self.requests:
            return
        datagram = self._answer(random.choice(self.requests[-70:]))
        if random.random() < 0.3:
            datagram = mutate(datagram, random)
        self.now += random.choice([0, 900, 40 * US])
        arrival = self.now - random.choice([0, 5 * US])
        for client in self.clients:
            client.receive(datagram, arrival, self.now - 10)

    def _answer(self, request: bytes) -> bytes:
        random, header = self.random, unpack(request)
        served = header.live & random.choice([0, 0, 2**32 - 1, random.getrandbits(32)])
        refused = header.live & ~served & random.choice([0, 0, random.getrandbits(32)])
        times = {name: random.getrandbits(32) for name in ("ps_proc", "ps_queue", "residence")}
        values = np.frombuffer(random.randbytes(4 * header.count), np.uint32)
        return reply(header, values, served=served, refused=refused, **times)

    def pass_time(self) -> None:
        self.now += self.random.choice([200 * US, 30 * MS, 2_000 * MS])
        for client in self.clients:
            client.wake(self.now)

    def compare(self) -> None:
        model, *ours = self.clients
        for client, answered in zip(ours, self.answered[1:], strict=True):
            assert isinstance(client, HotsetClient) and isinstance(model, ModelClient)
            assert (client.idle, client.deadline()) == (model.idle, model.deadline())
            assert (client.malformed, client.unexpected) == (model.malformed, model.unexpected)
            assert client.hinted.tolist() == model.hinted[:-1].tolist()
            assert answered[:-1].tolist() == self.answered[0][:-1].tolist()
            assert client.values.tolist() == model.values.tolist()
            both = zip(client.records, model.records, strict=True)
            assert [{name: getattr(row, name) for name in record} for row, record in both] == model.records
            me = client.state.header
            waits = len(client.state.calls) - me.n_spare_calls, client.state.slots.busy.sum()
            assert not client.idle or waits == (0, 0), "calls or slots have leaked"
        states: list[Any] = [self.compiled.state, self.plain.state]
        for name, compiled, plain in zip(states[0]._fields, *states, strict=True):
            assert compiled.tobytes() == plain.tobytes(), name


@settings(max_examples=examples(25))
@given(seed=st.integers(0, 2**32))
def test_compiled_plain_and_model_clients_agree(seed: int) -> None:
    random = Random(seed)
    three = Three(random)
    for _ in range(150):
        choice = random.random()
        if choice < 0.10:
            three.begin()
        elif choice < 0.12 and three.model.idle:
            three.hint()
        elif choice < 0.35:
            three.transmit(random.choice([1, 5, 100]))
        elif choice < 0.94:
            three.receive()
        else:
            three.pass_time()
    three.compare()


def test_a_datagram_longer_than_any_buffer_is_malformed() -> None:
    client = HotsetClient(Caller(1, 2, 3), 1, KeySpace(8), lambda: 0)
    client.receive(bytes(2 * BUFFER_BYTES), 0, 0)
    assert client.malformed == 1
