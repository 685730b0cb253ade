"""10,000 mutated datagrams stop no agent, and change only the counts of dropped ones."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from foundation.errors import MalformedDatagram
from foundation.protocol import codec, control
from foundation.protocol.codec import Caller
from foundation.protocol.control import Command, Control
from foundation.protocol.header import RESPONSE, Header, Op, unpack
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.parameter_server import ParameterServer
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps, plain_ops
from switch_harness.mutation import mutate
from tests.harness.wire import answers, reply, sent

SIZE = 100


def client(ops: AnyWorkerOps = COMPILED) -> HotsetClient:
    return HotsetClient(Caller(1, 2, 3), 1, KeySpace(SIZE), lambda: 0, ops=ops)


@pytest.mark.parametrize(("ops", "count"), [(COMPILED, 10_000), (plain_ops(), 500)])
@pytest.mark.parametrize("op", [Op.PULL, Op.PUSH])
def test_mutated_answers_do_not_stop_a_worker(ops: AnyWorkerOps, count: int, op: Op) -> None:
    random = Random(1)
    worker = client(ops)
    keys, answered = np.arange(SIZE), np.zeros(SIZE + 1, dtype=np.bool_)
    if op == Op.PULL:
        worker.pull(1, keys)
    else:
        worker.push(1, keys, keys.astype(np.uint32), answered)
    requests = sent(worker)
    waiting = {(header := unpack(request)).seq: header for request in requests}
    tried = 0
    while tried < count:
        datagram = mutate(reply(unpack(random.choice(requests)), 1), random)
        if answers_one(datagram, waiting):
            continue
        tried += 1
        worker.receive(datagram, 0, 0)
    assert worker.malformed + worker.unexpected == tried
    assert min(worker.malformed, worker.unexpected) > count // 100
    assert not len(worker.records)
    assert not any(array.any() for array in (worker.values, answered, worker.hinted))
    for request in requests:
        worker.receive(reply(unpack(request), 1), 0, 0)
    assert worker.idle and len(worker.records) == len(requests)


def answers_one(datagram: bytes, waiting: dict[int, Header]) -> bool:
    try:
        header = codec.parse(datagram).header
    except MalformedDatagram:
        return False
    return header.seq in waiting and answers(header, waiting[header.seq])


def fingerprint(server: ParameterServer[Any]) -> tuple[bytes, ...]:
    return tuple(column.tobytes() for column in server.stores[1].contents())


@pytest.mark.parametrize(("as_plain", "count"), [(False, 10_000), (True, 500)])
def test_mutated_requests_do_not_stop_a_server(as_plain: bool, count: int) -> None:
    random = Random(2)
    server: ParameterServer[str] = ParameterServer(0, 1, KeySpace(SIZE), {1: 1}, lambda: 0, as_plain)
    worker = client()
    worker.push(1, np.arange(SIZE), np.ones(SIZE, dtype=np.uint32), np.zeros(SIZE + 1, dtype=np.bool_))
    requests = sent(worker)
    worker = client()
    worker.pull(1, np.arange(SIZE))
    requests += sent(worker)
    for command in Command:
        number = {Command.HELLO: 0, Command.RENEW: 1, Command.BUSIEST: 2}.get(command, 3)
        keys = np.arange(number, dtype=np.uint64)
        requests.append(control.build(Control(command, 1, 0, 5, 6, keys)))
    before, counters = fingerprint(server), str(server.server.counters)
    tried = 0
    while tried < count:
        datagram = mutate(random.choice(requests), random)
        if is_request(datagram):
            continue
        tried += 1
        assert server.handle(datagram, 0, 0, "worker") is None
        server.receive_rpc_answer(datagram, 0)
    assert fingerprint(server) == before and str(server.server.counters) == counters
    assert server.malformed + server.server.misdirected >= tried
    assert not list(server.transmit()) and not list(server.control_answers())


def is_request(datagram: bytes) -> bool:
    """Whether it is still a valid request to this PS."""
    try:
        header = unpack(datagram)
        if header.op == Op.CONTROL:
            control.parse(datagram)
    except MalformedDatagram:
        return False
    return header.job == 1 and header.ps == 0 and not header.flags & RESPONSE
