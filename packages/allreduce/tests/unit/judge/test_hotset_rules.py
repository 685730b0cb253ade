"""The models of the hot set's rules, against the P4 program and the compiled server."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from foundation.protocol import codec, frames
from foundation.protocol.header import PS_BITS, PS_CALLER_BASE, WINDOW_BITS, Op
from hosts.keys import KeySpace
from hotline_agents.hotset.ps.state import make_server
from hotline_agents.hotset.ps.store import HotsetStore
from hotline_agents.ps.rpc_server import RpcServer
from hotline_allreduce.judge.hotset_rules import (
    COLD_KEY,
    HOT_KEY,
    KEYS,
    HotOp,
    HotRpc,
    HotServerModel,
    HotSwitchModel,
)
from hotline_allreduce.judge.levels import LEVELS, LevelsDescription
from softswitch.pipeline import Change
from switch_harness.effort import steps
from tests.harness.testnet import (
    EPOCH,
    KEY_OF,
    SERVER_PORT,
    held,
    hot_entry,
    network,
    new_switch,
    request,
    write,
)
from tests.harness.wire import rpc as build_rpc

STATES = (None, "hot", "reserved", "draining")


def test_the_switchs_model_is_the_program() -> None:
    """Random RPCs of two workers and a server, while the state of a key's entry changes."""
    random, program, model = Random(1), new_switch(), HotSwitchModel(mover=PS_CALLER_BASE, epoch=EPOCH)
    write(program, network())
    lanes, keys, register_slot = {HOT_KEY: 0, COLD_KEY: 1}, (KEY_OF[0], KEY_OF[1]), 5
    results = set()
    for _ in range(steps(2_000)):
        if random.random() < 0.1:
            before, state = model.entries.pop(HOT_KEY, None), random.choice(STATES)
            change = Change.INSERT if before is None else Change.MODIFY if state else Change.DELETE
            if before or state:
                write(program, [hot_entry(change, keys[HOT_KEY], state or "", register_slot, lanes[HOT_KEY])])
            if state:
                model.entries[HOT_KEY] = state
        caller, slot = random.choice([1, 2, PS_CALLER_BASE]), random.randrange(2)
        turn = max(0, model.last.get((caller, slot), (0, ()))[0] + random.choice([-1, 0, 0, 1, 1, 2]))
        op = random.choice([HotOp.PUSH, HotOp.PUSH, HotOp.PULL])
        sent_keys = (HOT_KEY,) if caller == PS_CALLER_BASE else KEYS
        deltas = tuple((key, random.randrange(1, 1 << 20)) for key in sent_keys)
        epoch = EPOCH + (random.random() < 0.1)
        served = model.take(HotRpc(caller, epoch, slot, turn, op, deltas=deltas))
        port, frame = request(
            Op.PUSH if op is HotOp.PUSH else Op.PULL,
            {lanes[key]: (keys[key], delta) for key, delta in deltas},
            turn << WINDOW_BITS | slot, caller, epoch=epoch,
        )  # fmt: skip
        outputs = program.process(port, frame, 0, 0)
        is_complete = served is not None and set(served) == set(sent_keys)
        expected_ports = [] if served is None else [port if is_complete else SERVER_PORT]
        assert [int(output.port) for output in outputs] == expected_ports
        if served is not None:
            header = codec.parse(frames.parse(bytes(outputs[0].frame)).payload).header
            assert header.served == sum(1 << lanes[key] for key in served)
        assert held(program, lanes[HOT_KEY], register_slot) == model.values[HOT_KEY] % 2**32
        results.add((caller == PS_CALLER_BASE, model.entries.get(HOT_KEY), op, served))
    assert {(False, "draining", HotOp.PUSH, ()), (True, "draining", HotOp.PUSH, (HOT_KEY,))} <= results
    assert {(False, "reserved", HotOp.PUSH, ()), (True, "reserved", HotOp.PULL, (HOT_KEY,))} <= results


def test_the_servers_model_is_the_compiled_server() -> None:
    """Random RPCs of two callers in two epochs, while keys are given away and come back, or are restored."""
    random, model = Random(2), HotServerModel(set(KEYS))
    server = RpcServer(make_server(0, 1, KeySpace(len(KEYS)), (1,)), lambda: 0)
    store = HotsetStore(server.state, 1, has_replay_logs=True)
    places = {key: store.locate(np.array([key], np.uint64)) for key in KEYS}
    results = set()
    for _ in range(steps(2_000)):
        key = random.choice(KEYS)
        if random.random() < 0.05 and key in model.owned:
            assert store.release(places[key]).tolist() == [model.release(key) % 2**32]
        elif random.random() < 0.05 and key not in model.owned:
            value = random.randrange(1 << 20)
            model.reclaim(key, value)
            store.reclaim(places[key], np.array([value], np.uint32))
        elif random.random() < 0.01:
            model.restore()
            store.restore()
        caller, epoch, slot = random.randrange(1, 3), random.randrange(1, 3), random.randrange(2)
        turn = max(0, model.last.get((caller, epoch, slot), (0, ()))[0] + random.choice([-1, 0, 0, 1, 1, 2]))
        op = random.choice([HotOp.PUSH, HotOp.PUSH, HotOp.STATUS])
        deltas = tuple((each, random.randrange(1, 1 << 20)) for each in KEYS)
        served = random.choice([(), (), (HOT_KEY,)])
        queried = random.randrange(1, 3), random.randrange(2), 1 + random.randrange(turn + 1)
        added = (
            model.take(HotRpc(caller, epoch, slot, turn, op, 0, deltas, queried, served)) if turn else None
        )
        fields: dict[str, Any] = {
            "job": 1,
            "worker": caller,
            "epoch": epoch,
            "seq": turn << WINDOW_BITS | slot,
        }
        if op is HotOp.PUSH:
            bitmap = sum(1 << key for key in served)
            datagram = build_rpc(Op.PUSH, KEYS, [delta for _, delta in deltas], **fields, served=bitmap)
        else:
            iteration = queried[2] << WINDOW_BITS | queried[1]
            datagram = build_rpc(Op.EMPTY, **fields, iteration=iteration, t0=queried[0])
        answer = server.handle(datagram, 0, 0)
        assert (answer is None) == (added is None)
        if answer is not None and added is not None:
            refused = codec.parse(answer[1]).header.refused
            asked = [key for key in KEYS if op is HotOp.STATUS or key not in served]
            assert [key for key in asked if not refused >> key & 1] == [key for key in added if key in asked]
            results.add((op, added))
        contents = store.contents()
        for key, value, is_owned in zip(
            contents.keys.tolist(), contents[1].tolist(), contents[2], strict=True
        ):
            assert (value, bool(is_owned)) == (model.values[key] % 2**32, key in model.owned)
    keys_added = ((), (HOT_KEY,), (COLD_KEY,), KEYS)
    assert {(HotOp.STATUS, ()), (HotOp.STATUS, KEYS), *((HotOp.PUSH, keys) for keys in keys_added)} <= results


def test_the_model_of_a_server_with_two_homes_is_the_compiled_server() -> None:
    """Random pushes by way of either home, while keys move between homes, and homes lose them."""
    random, models = Random(3), LevelsDescription(places=(None, None)).servers()
    server = RpcServer(make_server(0, 1, KeySpace(len(KEYS)), (1,), homes=LEVELS), lambda: 0)
    stores = HotsetStore(server.state, 1, has_replay_logs=True).by_home
    places = {key: stores[0].locate(np.array([key], np.uint64)) for key in KEYS}
    turns, results = [0] * LEVELS, set()
    for _ in range(steps(2_000)):
        key, home = random.choice(KEYS), random.randrange(LEVELS)
        model, store = models[home], stores[home]
        if random.random() < 0.1 and key in model.owned:
            assert store.release(places[key]).tolist() == [model.release(key) % 2**32]
        elif random.random() < 0.1 and key not in model.owned and not model.is_at_another_home(key):
            value = random.randrange(1 << 20)
            model.reclaim(key, value)
            store.reclaim(places[key], np.array([value], np.uint32))
        elif random.random() < 0.02:
            model.restore()
            store.restore()
        turns[home] += random.random() < 0.8
        deltas = tuple((each, random.randrange(1, 1 << 20)) for each in KEYS)
        added = model.take(HotRpc(1, 1, home, turns[home], HotOp.PUSH, 0, deltas, home=home))
        seq, ps = turns[home] << WINDOW_BITS | home, home << PS_BITS
        datagram = build_rpc(
            Op.PUSH, KEYS, [delta for _, delta in deltas], job=1, worker=1, epoch=1, seq=seq, ps=ps
        )
        answer = server.handle(datagram, 0, 0)
        if turns[home]:
            assert answer is not None and added is not None
            assert codec.parse(answer[1]).header.refused == sum(
                1 << each for each in KEYS if each not in added
            )
        contents = stores[0].contents()
        assert contents[1].tolist() == [model.values[each] % 2**32 for each in KEYS]
        assert [each for each in KEYS if contents[2][each]] == sorted(model.owned)
        for other, other_store in zip(models, stores, strict=True):
            is_elsewhere = other.is_at_another_home(key)
            assert other_store.is_at_another_home(places[key]).tolist() == [is_elsewhere]
            results.add((home, added, is_elsewhere))
    assert {(home, KEYS, False) for home in range(LEVELS)} <= results
    assert {(home, (HOT_KEY,), True) for home in range(LEVELS)} <= results
