"""A worker whose servers have their hot sets in several switches, their homes."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foundation.protocol import codec
from foundation.protocol.codec import Caller
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.header import PS_BITS, PS_MASK, WINDOW, Op, unpack
from hosts import succession
from hosts.keys import KeySpace
from hosts.replay import ReplayLog
from hosts.replay_words import UNDO_WORDS
from hosts.succession import PredecessorPush
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps, plain_ops
from switch_harness.effort import examples
from tests.harness import wire
from tests.harness.wire import reply, rpc

SIZE, JOB, EPOCH = 2_000, 3, 10
SPACE = KeySpace(SIZE)
MS = 1_000_000


def worker_of(homes: Sequence[int], ops: AnyWorkerOps = COMPILED, window: int = WINDOW) -> HotsetClient:
    log = ReplayLog.in_memory(np.zeros(SIZE + UNDO_WORDS, np.int64), SPACE, SIZE)
    caller = Caller(JOB, 1, EPOCH)
    worker = HotsetClient(caller, len(homes), SPACE, lambda: MS, window, ops=ops, log=log)
    worker.set_homes([homes])
    return worker


def home_of_slot(seq: int, homes: Sequence[int], window: int = WINDOW) -> int:
    """Return the home whose share of the window has a slot; shares follow each other, of equal sizes."""
    n = max(homes) + 1
    bounds = [home * window // n for home in range(1, n)]
    return sum(seq % WINDOW >= bound for bound in bounds)


homes_of_servers = st.lists(st.integers(0, 3), min_size=1, max_size=6).map(
    lambda homes: [sorted(set(homes)).index(home) for home in homes]
)


@settings(max_examples=examples(60), deadline=None)
@given(homes=homes_of_servers, hot_share=st.sampled_from([0.0, 0.5, 1.0]), seed=st.integers(0, 2**32 - 1))
def test_an_rpc_has_keys_and_a_slot_of_one_home(homes: list[int], hot_share: float, seed: int) -> None:
    chance, n_ps = np.random.default_rng(seed), len(homes)
    keys = np.sort(chance.choice(SIZE, int(chance.integers(1, 600)), replace=False))
    hot = keys[chance.random(len(keys)) < hot_share].astype(np.uint64)
    worker = worker_of(homes)
    worker.hint(hot)
    worker.pull(1, keys)
    sent: list[int] = []
    while not worker.idle:
        requests = wire.sent(worker)
        assert requests
        homes_in_order = [homes[unpack(request).ps] for request in requests]
        under_way = Counter(homes_in_order)
        # Requests to a home follow each other, so that its servers get them in a burst.
        assert len([*groupby(homes_in_order)]) == len(under_way)
        for request in requests:
            header, of_lanes = unpack(request), codec.parse(request).keys
            assert of_lanes is not None
            live = [lane for lane in range(header.count) if header.live >> lane & 1]
            home = homes[header.ps]
            assert home_of_slot(header.seq, homes) == home
            for lane in live:
                key = int(of_lanes[lane])
                assert homes[ps_of(key, n_ps)] == home
                assert ps_of(key, n_ps) == header.ps or lane_of(key) == lane
                sent.append(key)
            worker.receive(wire.reply(header, [0] * header.count, served=header.live), MS, MS)
        # A window of 64 slots is shared out evenly.
        assert all(number <= -(-WINDOW // len(set(homes))) for number in under_way.values())
    assert sorted(sent) == keys.tolist()


def test_requests_to_a_silent_home_hold_up_no_requests_to_another_home() -> None:
    homes = [0, 1]
    worker = worker_of(homes, window=4)
    worker.pull(1, np.arange(SIZE))
    waiting, answered = [], 0
    while requests := wire.sent(worker):
        for header in map(unpack, requests):
            if header.ps == 0:
                waiting.append(header)
            else:
                answered += header.live.bit_count()
                worker.receive(wire.reply(header, [0] * header.count), MS, MS)
    assert len(waiting) == 2
    assert answered == sum(ps_of(key, 2) == 1 for key in range(SIZE))


@pytest.mark.parametrize("ops", [COMPILED, plain_ops()], ids=["compiled", "plain"])
def test_a_restarted_home_renews_its_share_alone(ops: AnyWorkerOps) -> None:
    """Its requests without an answer become questions, and what it has acknowledged is pushed again."""
    homes = [0, 1, 1]
    worker = worker_of(homes, ops)
    keys = np.arange(400)
    worker.hint(keys[:200].astype(np.uint64))
    values = np.ones(len(keys), np.uint32)
    worker.push(1, keys, values, np.zeros(SIZE, np.bool_))
    requests = [unpack(request) for request in wire.sent(worker)]
    # Half of each home's requests are answered, all of their lanes by the switch.
    by_home = [[header for header in requests if homes[header.ps] == home] for home in (0, 1)]
    done = [header for of_home in by_home for header in of_home[::2]]
    for header in done:
        worker.receive(wire.reply(header, served=header.live), MS, MS)
    assert worker.log is not None
    acknowledged = set(np.flatnonzero(worker.log.acknowledged).tolist())
    worker.renew(EPOCH + 1, home=1)
    lost_keys = {key for key in acknowledged if homes[ps_of(key, 3)] == 1}
    assert lost_keys and lost_keys < acknowledged
    assert set(np.flatnonzero(worker.log.unreplayed).tolist()) == lost_keys
    assert set(np.flatnonzero(worker.log.acknowledged).tolist()) == acknowledged - lost_keys
    again = [unpack(request) for request in wire.sent(worker)]
    waiting = [header for header in requests if header not in done]
    lost = {header.seq for header in waiting if homes[header.ps] == 1}
    assert lost and {header.iteration for header in again} == lost
    assert {(header.op, header.epoch, header.t0) for header in again} == {(Op.EMPTY, EPOCH + 1, EPOCH)}
    # The other home's requests go on as they were: they are sent again as the same bytes when they are late.
    worker.wake(10_000 * MS)
    resent = [unpack(request) for request in wire.sent(worker)]
    kept = {header.seq for header in waiting if homes[header.ps] == 0}
    assert {header.seq for header in resent if header.epoch == EPOCH} == kept
    for header in (header for header in waiting if homes[header.ps] == 0):
        worker.receive(wire.reply(header, served=header.live), MS, MS)
    assert worker.unexpected == 0


def test_a_window_with_fewer_slots_than_homes_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at least 3 slots.*got 2"):
        worker_of([0, 1, 2], window=2)


def test_a_successor_sends_a_request_through_any_home_to_its_server(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, int]] = []
    monkeypatch.setattr(succession, "send", lambda _sock, _datagram, server: sent.append(server))
    servers = [("10.0.3.1", 5001), ("10.0.3.2", 5001)]
    left, right = socket.socketpair()
    with left, right, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setblocking(False)
        right.send(b"interrupt")
        requests = {ps: rpc(Op.PUSH, [1], [1], ps=ps % 2 | ps << PS_BITS) for ps in range(4)}
        ending = cast(PredecessorPush, SimpleNamespace(requests=requests))
        exchange = succession.Exchange(sock, servers, left.fileno())
        assert not succession._send_until_answered(ending, exchange)
    assert sent == [servers[0], servers[1]] * 2


def test_requests_of_a_client_name_the_home_of_the_client_and_the_server() -> None:
    """The upper bits of the field `ps` name the home, and the log has the server's number without them."""
    worker = worker_of([0, 0])
    worker.set_home_index(3)
    worker.pull(1, np.arange(SPACE.size))
    requests = [bytes(request) for request, _ in iter(worker.transmit, None)]
    headers = [unpack(request) for request in requests]
    assert {header.ps >> PS_BITS for header in headers} == {3}
    assert {header.ps & PS_MASK for header in headers} == {0, 1}
    for header in headers:
        worker.receive(reply(header), arrival=2 * MS, read=2 * MS)
    assert worker.idle and set(worker.take_records().ps.tolist()) == {0, 1}
