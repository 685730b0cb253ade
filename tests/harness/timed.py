"""A worker, a switch and a parameter server whose times are all chosen by the test.

The agents are real; hot keys do not ride, so that there are RPCs of each class. The switch is fake.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from foundation.compiled import entry_point
from foundation.protocol import codec
from foundation.protocol.codec import Caller, Keys, Message
from foundation.protocol.header import KEYS, VALUES, Header, Op
from hosts.keys import KeySpace
from hosts.ledger import Ledger
from hosts.model import SyntheticGradient
from hosts.workload.trace import Trace
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.hotset.worker.packing import (
    bucket_cold_key,
    clear_buckets,
    clear_chains,
    pack,
    pack_buckets,
    place_in_hash_lane,
    queue_chains,
)
from hotline_agents.hotset.worker.state import Calls, is_hinted
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps
from hotline_agents.worker.trainer import StepSchedule, Trainer
from nativekit.plain import plain
from nativekit.reference import as_ref
from tests.harness.wire import reply

US = 1_000


class Times(NamedTuple):
    """Times of one RPC in µs."""

    w_proc: int
    w_queue: int
    ps_proc: int
    ps_queue: int
    n_tx: int
    switch: int

    def longer(self, n_tx: int) -> Times:
        return self._replace(n_tx=self.n_tx + n_tx)


@dataclass(frozen=True, slots=True)
class ByClass:
    """Times of an RPC by its class. RPCs that a PS sees may reach it twice."""

    all_hit: Times
    mixed: Times
    cold: Times

    def of(self, served: int, live: int) -> Times:
        if served == 0:
            return self.cold
        return self.all_hit if served == live else self.mixed

    def longer(self, n_tx: int) -> ByClass:
        return ByClass(*(each.longer(n_tx) for each in (self.all_hit, self.mixed, self.cold)))


class Timed:
    """Worker `worker` and PS `ps` of `n_ps`, for some jobs. The trace has one mini-batch, `keys`."""

    def __init__(self, worker: int, ps: int, n_ps: int, jobs: Collection[int], keys: Keys) -> None:
        self.now = 0
        self._worker = worker
        order = np.argsort(keys)
        space = KeySpace(len(keys), keys[order])
        self._trace = Trace("one batch", worker, 1, space, *_csr(worker, np.argsort(order)))
        self.server: ParameterServer[None] = ParameterServer(
            ps, n_ps, space, dict.fromkeys(jobs, 1), self._clock
        )
        self.clients = {
            job: HotsetClient(Caller(job, worker, 1), n_ps, space, self._clock, ops=_apart()) for job in jobs
        }

    def _clock(self) -> int:
        return self.now

    def trainer(self, job: int, block: StepSchedule) -> Trainer:
        ledger = Ledger(job, 1, self._trace.space, self._trace.largest_batch)
        model = SyntheticGradient(seed=1)
        return Trainer(self._worker, self.clients[job], self._trace, model, ledger, block, self._clock)

    def operation(
        self,
        trainer: Trainer,
        job: int,
        *,
        start: int,
        end: int,
        times: ByClass,
        hot: Collection[int] = (),
        doubled: Callable[[Header], bool] = lambda header: False,
    ) -> None:
        """Run the operation that is due from `start` to `end` (ns), with `hot` keys in the switch.

        Its RPCs leave 1 µs after each other. The PS gets those twice that are `doubled`.
        """
        self.now = start
        trainer.wake(start)
        self._exchange(self.clients[job], times, hot, doubled)
        self.now = end
        trainer.wake(end)

    def empty(self, job: int, ps: int, start: int, times: Times) -> None:
        client = self.clients[job]
        self.now = start
        client.start_empty_rpc(ps)
        self._exchange(client, ByClass(times, times, times), (), lambda header: False)

    def _exchange(
        self, client: HotsetClient, times: ByClass, hot: Collection[int], doubled: Callable[[Header], bool]
    ) -> None:
        for datagram, _ in iter(client.transmit, None):
            t0 = self.now
            request = _serve(codec.parse(bytes(datagram)), hot)
            header = request.header
            took = times.of(header.served, header.live)
            if header.served and header.served == header.live:
                answer = codec.parse(reply(header, 0 if request.values is None else request.values))
            else:
                at_server = bytes(codec.build(request))
                for _ in range(1 + doubled(header)):
                    answer = self._at_server(at_server, t0 + took.n_tx // 2 * US, took)
            answer = answer._replace(header=answer.header._replace(residence=took.switch))
            arrival = t0 + (took.n_tx + took.ps_proc + took.ps_queue) * US
            read = arrival + took.w_queue * US
            self.now = read + took.w_proc * US
            client.receive(bytes(codec.build(answer)), arrival, read)
            self.now = t0 + US

    def _at_server(self, datagram: bytes, arrival: int, took: Times) -> Message:
        read = arrival + took.ps_queue * US
        self.now = read + took.ps_proc * US
        out = self.server.handle(datagram, arrival, read, None)
        assert out is not None
        return codec.parse(bytes(out[1]))


@entry_point
def _pack_apart(state: Calls, n_keys: int, _uses_switch: bool) -> None:
    """Queue calls for the keys that are not hinted, and then those for the others, each in its hash lane."""
    state = as_ref(state)
    clear_buckets(state)
    for i in range(n_keys - 1, -1, -1):
        if not is_hinted(state, state.positions[i]):
            bucket_cold_key(state, i)
    pack_buckets(state, 0)
    clear_chains(state)
    for i in range(n_keys):
        if is_hinted(state, state.positions[i]):
            place_in_hash_lane(state, i, 0)
    queue_chains(state)


@cache
def _apart() -> AnyWorkerOps:
    """Return a worker's state machine that packs hinted keys apart."""
    return COMPILED._replace(start=plain(COMPILED.start, {pack: _pack_apart}))


def _csr(worker: int, batch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return one mini-batch for the last of `worker` workers, and none for the others."""
    starts = np.zeros(worker + 1, dtype=np.int64)
    starts[-1] = len(batch)
    return starts, batch.astype(np.uint32)


def _serve(request: Message, hot: Collection[int]) -> Message:
    """Mark the hot lanes of a request, with values for a pull, as the switch does."""
    if request.keys is None:
        return request
    header = request.header
    served = sum(1 << lane for lane, key in enumerate(request.keys.tolist()) if key in hot)
    if not served or header.op == Op.PUSH:
        return request._replace(header=header._replace(served=served))
    values = np.zeros(header.count, dtype=np.uint32)
    return Message(header._replace(served=served, flags=KEYS | VALUES), request.keys, values)
