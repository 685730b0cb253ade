"""The packing of keys into lanes of RPCs: each key once, in as few RPCs as possible."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foundation.protocol import codec
from foundation.protocol.codec import Caller, Keys
from foundation.protocol.hashing import lane_of, lanes_of, ps_ids_of
from foundation.protocol.header import LANES, Header
from hosts.keys import KeySpace
from hotline_agents.hotset.worker.client import HotsetClient
from hotline_agents.hotset.worker.counting import RpcCounts, count_rpcs
from hotline_agents.worker.ops import COMPILED, AnyWorkerOps, plain_ops
from switch_harness.effort import examples
from tests.harness.packing import COST_AT_PS, pack, share_out
from tests.harness.wire import reply

FULL = 2**LANES - 1


def keys_of(lane: int | None, ps: int | None, n_ps: int, number: int, beyond: int = 0) -> Keys:
    """Return `number` keys of a lane and a PS; None means any."""
    keys = np.arange(beyond + 1, beyond + 1 + 4_000_000 // LANES, dtype=np.uint64)
    fits = np.ones(len(keys), np.bool_)
    if lane is not None:
        fits &= lanes_of(keys) == lane
    if ps is not None:
        fits &= ps_ids_of(keys, n_ps) == ps
    return keys[fits][:number]


def requests(
    cold: Keys, hot: Keys, n_ps: int, ops: AnyWorkerOps = COMPILED, lane_count: int = LANES,
    hot_lanes: int | None = None,
) -> list[tuple[Header, Keys]]:  # fmt: skip
    """Return header and keys of each RPC of a pull, in the order of sending."""
    keys = np.unique(np.concatenate([cold, hot]))
    client = HotsetClient(Caller(1, 2, 3), n_ps, KeySpace(len(keys), keys), lambda: 0, ops=ops)
    client.hint(hot)
    client.limit_lanes(lane_count, hot_lanes)
    client.pull(1, np.arange(len(keys)))
    sent: list[tuple[Header, Keys]] = []
    while client.rpcs_of_operation > len(sent):
        out = client.transmit()
        if out is None:  # the window is full: answer what is sent, as RPCs all of whose lanes hit
            for header, _ in sent[-64:]:
                client.receive(reply(header), 0, 0)
            continue
        header, carried, _ = codec.parse(out[0])
        assert carried is not None and header.ps == out[1]
        sent.append((header, carried))
    return sent


def chosen(
    ps: NDArray[np.uint16], lane: NDArray[np.uint8], is_hot: NDArray[np.bool_], n_ps: int,
    lane_count: int = LANES,
) -> tuple[int, dict[int, int]]:  # fmt: skip
    hot = [int(np.count_nonzero(lane[is_hot] == each)) for each in range(lane_count)]
    cold = {each: int(np.count_nonzero(ps[~is_hot] == each)) for each in range(n_ps)}
    return share_out(hot, cold, lane_count)


@settings(max_examples=examples(60))
@given(
    seed=st.integers(0, 2**32), n_ps=st.sampled_from([1, 2, 3, 20]), size=st.integers(1, 900),
    share=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]), lanes=st.sampled_from([2, 9, LANES]),
    lane_count=st.sampled_from([8, 16, LANES]),
)  # fmt: skip
def test_each_key_travels_once(
    seed: int, n_ps: int, size: int, share: float, lanes: int, lane_count: int
) -> None:
    """The RPCs equal the model's, and are no more than if all hot keys had separate RPCs."""
    chance = np.random.default_rng(seed)
    keys = np.unique(chance.integers(0, 2**63, size, dtype=np.uint64))
    is_hot = (chance.random(len(keys)) < share) & (lanes_of(keys) < lanes)
    ps, lane = ps_ids_of(keys, n_ps), lanes_of(keys, lane_count)
    sent = requests(keys[~is_hot], keys[is_hot], n_ps, lane_count=lane_count)
    hot = set(keys[is_hot].tolist())
    carried = []
    for header, of_rpc in sent:
        assert header.count <= lane_count
        for place, key in enumerate(of_rpc.tolist()):
            if not header.live >> place & 1:
                continue
            carried.append(key)
            assert (
                (lane_of(key, lane_count) == place)
                if key in hot
                else int(ps_ids_of(np.uint64(key), n_ps)) == header.ps
            )
    assert sorted(carried) == keys.tolist()
    model = pack(ps, lane, is_hot, lane_count)
    assert [header.live for header, _ in sent] == model.rpcs.live.tolist()
    assert [header.ps for header, _ in sent] == model.rpcs.ps.tolist()
    _, calls = chosen(ps, lane, is_hot, n_ps, lane_count)
    assert len(sent) <= np.bincount(lane[is_hot]).max(initial=0) + sum(calls.values())


@pytest.mark.parametrize("ops", [COMPILED, plain_ops()], ids=["compiled", "plain"])
def test_hot_keys_ride_in_the_free_lanes_of_rpcs_to_any_server(ops: AnyWorkerOps) -> None:
    cold = np.concatenate([keys_of(None, ps, 3, 20) for ps in range(3)])
    hot = np.concatenate([keys_of(lane, 1, 3, 1, 100_000) for lane in range(LANES)])
    sent = requests(cold, hot, 3, ops)
    assert [header.ps for header, _ in sent] == [0, 1, 2]
    assert sum(header.live.bit_count() for header, _ in sent) == 60 + LANES


def test_hot_keys_without_room_travel_in_separate_rpcs() -> None:
    cold = np.concatenate([keys_of(None, ps, 2, 32) for ps in range(2)])
    hot = np.concatenate([keys_of(lane, None, 2, 2, 100_000) for lane in range(LANES)])
    sent = requests(cold, hot, 2)
    assert [header.live for header, _ in sent] == [FULL] * 4
    # The first two have the cold keys of each server; the others go to the server of their first key.
    assert [header.ps for header, _ in sent[:2]] == [0, 1]
    for header, keys in sent[2:]:
        assert header.ps == ps_ids_of(keys[0], 2)
        assert {int(key) for key in keys} <= {int(key) for key in hot}


def test_a_server_gets_an_additional_rpc_if_more_than_two_are_saved() -> None:
    """Three hot keys of one lane need three RPCs with one key each, or one more RPC to each PS."""
    for tall in (2, 3, 4):
        hot, cold = [tall] + [0] * (LANES - 1), {0: 64, 1: 64}
        hot_only, calls = share_out(hot, cold)
        # Each key of the lane rides in a different call, so one PS gets as many calls as there are keys.
        assert (hot_only, sum(calls.values())) == ((tall, 4) if tall <= COST_AT_PS else (0, 5))


def test_counted_rpcs_equal_the_sent_rpcs() -> None:
    chance = np.random.default_rng(3)
    space = KeySpace(5_000)
    hot = np.arange(0, 5_000, 3, dtype=np.uint64)
    batches = [np.sort(chance.choice(5_000, size, replace=False)) for size in (1, 700, 40, 700)]
    counted = list(count_rpcs(space, 4, hot, batches, 700))
    for batch, found in zip(batches, counted, strict=True):
        keys = batch.astype(np.uint64)
        is_hot = np.isin(keys, hot)
        sent = requests(keys[~is_hot], keys[is_hot], 4)
        cold = set(keys[~is_hot].tolist())
        assert found == RpcCounts(len(sent), sum(bool(cold & set(of.tolist())) for _, of in sent))
    assert all(each.rpcs == each.to_servers for each in count_rpcs(space, 4, None, batches, 700))


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), n_ps=st.integers(1, 5), hot_share=st.sampled_from([0.0, 0.5, 0.9, 1.0])
)
def test_hot_keys_are_in_the_first_lanes_and_cold_keys_in_all(seed: int, n_ps: int, hot_share: float) -> None:
    """As for a switch that reads the first 16 of 32 lanes."""
    chance = np.random.default_rng(seed)
    keys = np.sort(chance.choice(20_000, int(chance.integers(1, 700)), replace=False)).astype(np.uint64)
    is_hot = chance.random(len(keys)) < hot_share
    long = requests(keys[~is_hot], keys[is_hot], n_ps, hot_lanes=LANES // 2)
    sent: list[int] = []
    for header, carried in long:
        lanes = [lane for lane in range(header.count) if header.live >> lane & 1]
        sent += carried[lanes].tolist()
        for lane in lanes:
            is_own = ps_ids_of(carried[lane : lane + 1], n_ps)[0] == header.ps
            is_served = carried[lane] in keys[is_hot] and lanes_of(carried[lane : lane + 1])[0] >> 1 == lane
            assert is_own or is_served
    assert sorted(sent) == keys.tolist()
    short = requests(keys[~is_hot], keys[is_hot], n_ps, lane_count=LANES // 2)
    all_lanes = requests(keys[~is_hot], keys[is_hot], n_ps)
    if hot_share == 0:
        assert len(long) == len(all_lanes)
    assert len(long) <= len(short)
