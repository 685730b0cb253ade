"""Hot keys ride in RPCs to any PS; those that the switch does not serve are added once, and soon."""

from __future__ import annotations

import numpy as np
import pytest

from foundation.protocol import codec
from foundation.protocol.frames import parse
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import Op
from softswitch.interpreter import InterpretedPipeline
from tests.harness.faulty_loop import MS
from tests.harness.switches import PipelineSwitch, TodaysHits
from tests.harness.testbed import JOB, SERVERS, SteppedTestbed
from tests.harness.testnet import lane_stats, new_switch, program, pushes


@pytest.fixture(params=[new_switch, lambda: InterpretedPipeline(program())], ids=["compiled", "interpreted"])
def network(request: pytest.FixtureRequest) -> SteppedTestbed:
    return SteppedTestbed(PipelineSwitch(request.param()))


def hot_and_cold(network: SteppedTestbed) -> tuple[int, list[int]]:
    """Return a key of server 0, and three keys of server 1 that do not have its lane."""
    return network.keys(0, [20])[0], [key for key in network.keys(1) if lane_of(key) != 20][:3]


def ridden(network: SteppedTestbed) -> tuple[int, list[int]]:
    """Push a hot key of server 0 that rides with three cold ones of server 1."""
    hot, cold = hot_and_cold(network)
    network.load(hot)
    network.hint(hot)
    network.push(hot, *cold)
    [request] = network.requests
    assert (request.ps, request.live.bit_count(), request.live >> 20 & 1) == (1, 4, 1)
    return hot, cold


def test_the_switch_serves_riding_keys_and_the_server_serves_its_own_keys(network: SteppedTestbed) -> None:
    hot, cold = ridden(network)
    assert len(network.finish()) == 1
    assert network.values(hot, *cold) == [1, 1, 1, 1]
    assert network.switch.register(hot, network.slots[hot]) == 1
    network.requests.clear()
    network.pull(hot, *cold)
    assert len(network.finish()) == 1
    network.check()


def report_added_lanes(network: SteppedTestbed, offload: bool = True) -> None:
    """Lose an RPC whose hot key the switch has added, move the key back, and repeat the RPC."""
    hot, cold = ridden(network)
    network.to_switch()
    network.lose_outputs()
    network.unload(hot)
    network.switch.set_job(JOB, offload, proxy=True)
    network.pass_time(300 * MS)
    network.finish()
    assert network.values(hot, *cold) == [1, 1, 1, 1]


@pytest.mark.parametrize("offload", [True, False])
def test_a_duplicate_push_repeats_the_answer(network: SteppedTestbed, offload: bool) -> None:
    report_added_lanes(network, offload)
    network.check()


def test_a_switch_that_answers_duplicates_from_current_hits_is_noticed() -> None:
    with pytest.raises(AssertionError):
        report_added_lanes(SteppedTestbed(TodaysHits(new_switch())))


def test_a_duplicate_pull_gets_the_current_values(network: SteppedTestbed) -> None:
    """A lane that was served at first is cold at the repeat, and belongs to another PS."""
    hot, cold = ridden(network)
    network.finish()
    network.requests.clear()
    network.pull(hot, *cold)
    network.to_switch()
    network.lose_outputs()
    network.unload(hot)
    network.pass_time(300 * MS)
    again = network.finish()
    assert network.client.values.tolist() == [1, 1, 1, 1]
    assert [(header.ps, header.live.bit_count()) for header in again if header.ps == 0] == [(0, 1)]


def test_missed_keys_go_to_their_server_at_once_and_ride_no_more(network: SteppedTestbed) -> None:
    """All hints are wrong: the refused keys of one burst go densely, in one RPC per PS."""
    keys = [key for ps in range(SERVERS) for key in network.keys(ps)]
    network.hint(*keys)
    network.push(*keys)
    first = len(network.requests)
    while network.wire:
        network.to_switch()
        for frame in [each for each in network.wire if not each[0]]:
            network.wire.remove(frame)  # each server and the worker take what has come as one burst
            network.arrive(frame)
    due = network.client.deadline()
    assert due is not None and due <= network.now  # nothing is waited for
    sent = network.finish()
    missed = sent[first:]
    assert sorted(header.ps for header in missed) == [0, 1]
    assert all(header.live == 2**header.count - 1 for header in missed)
    assert not network.client.hinted.any()
    network.requests.clear()
    network.push(*keys)
    again = network.finish()
    assert len(again) == sum(-(-len(network.keys(ps)) // 32) for ps in range(SERVERS))
    assert network.values(*keys) == [2] * len(keys)


def test_a_key_in_motion_waits_for_the_switch_with_growing_intervals(network: SteppedTestbed) -> None:
    """A missed key is refused by its PS, and then sent in its hash lane, less and less often."""
    hot, other = network.keys(0, [20])[0], network.keys(1, [7])[0]
    network.load(hot, state="reserved")
    server = network.servers[0].stores[JOB]
    places = server.locate(np.array([hot], np.uint64))
    server.release(places)
    network.hint(hot)
    network.push(hot, other)
    for _ in range(100):
        while network.wire:
            network.deliver(0)
        due = network.client.deadline()
        assert due is not None
        if due > network.now + 10 * MS:
            break
        network.pass_time(max(due - network.now, 0))
    assert network.client.hinted.nonzero()[0].tolist() == [hot]
    # To server 1 with the other, to its own densely, and then in its lane, each time after twice as long.
    assert [header.ps for header in network.requests] == [1] + [0] * (len(network.requests) - 1)
    assert 5 <= len(network.requests) <= 10
    assert {header.live for header in network.requests[2:]} == {1 << 20}
    network.switch.set_entry(JOB, hot, "hot", network.slots[hot])
    network.hot.add(hot)
    network.finish()
    assert network.values(hot, other) == [1, 1]


def test_a_missed_lane_is_looked_up_twice_and_added_once() -> None:
    """`row_stats` counts look-ups, `pushes` counts updates."""
    network = SteppedTestbed()
    hot, cold = hot_and_cold(network)
    network.hint(hot)
    network.push(hot, *cold)
    network.finish()
    pipeline = network.switch.pipeline
    looked = [lane_stats(pipeline, lane) for lane in range(32)]
    assert sum(hits for hits, _, _ in looked) == 0
    assert sum(misses for _, misses, _ in looked) == 4 + 1
    assert not pushes(pipeline, 20)
    assert sum(int(server.stores[JOB].contents().updates.sum()) for server in network.servers) == 4


def test_a_single_ps_serves_all_that_the_switch_does_not(network: SteppedTestbed) -> None:
    """A wrong hint costs no second RPC, as every key belongs to its share."""
    actual = network.keys(0)
    network.hint(*actual[:5])
    network.push(*actual)
    assert len(network.finish()) == 1
    assert network.values(*actual) == [1] * len(actual)
    assert not network.client.hinted.any()


def test_logs_and_counters_agree_to_the_integer() -> None:
    """Hints are right, wrong and missing; a riding key is counted where it is served."""
    network, chance = SteppedTestbed(), np.random.default_rng(3)
    pipeline = network.switch.pipeline
    hot = chance.choice(network.space.size, 150, replace=False).tolist()
    network.load(*hot)
    before = connection_records(network)
    sent = {Op.PULL: 0, Op.PUSH: 0}
    for number in range(12):
        network.hint(*chance.choice(network.space.size, 200, replace=False).tolist(), *hot[: 10 * number])
        keys = chance.choice(network.space.size, 250, replace=False).tolist()
        op = (Op.PULL, Op.PUSH)[number % 2]
        (network.pull if op == Op.PULL else network.push)(*keys)
        network.finish()
        sent[op] += len(keys)
    log = network.client.records
    assert len(log) and set(log["attempts"]) == {1}
    looked = np.array([lane_stats(pipeline, lane) for lane in range(32)]).sum(axis=0)
    assert looked[:2].tolist() == [log["served"].sum(), (log["lanes"] - log["served"]).sum()]
    # A PS gets the RPCs that the switch does not answer, and reports what it has added.
    whole = log["served"] == log["lanes"]
    assert 0 < whole.sum() < len(log) - ((log["served"] > 0) & ~whole).sum()
    assert connection_records(network) - before == (~whole).sum()
    pushed = log[log["op"] == Op.PUSH]
    added = [server.server.counters[JOB] for server in network.servers]
    applied, refused = (sum(int(each[name]) for each in added) for name in ("applied_lanes", "refused_lanes"))
    assert applied + pushed["served"].sum() == sent[Op.PUSH]
    assert refused == log["lanes"].sum() - sum(sent.values()) > 0
    assert sum(sum(pushes(pipeline, lane).values()) for lane in range(32)) == pushed["served"].sum()
    network.check()


def connection_records(network: SteppedTestbed) -> int:
    return sum(int(server.server.state.header.n_connection_records) for server in network.servers)


def test_no_server_adds_keys_of_another_servers_share(network: SteppedTestbed) -> None:
    hot, cold = hot_and_cold(network)
    network.hint(hot)
    network.push(hot, *cold)
    network.to_switch()
    [frame] = network.lose_outputs()
    answered = network.servers[1].handle(parse(frame).payload, 0, 0, parse(frame).source)
    assert answered is not None
    header = codec.parse(answered[1]).header
    assert (header.op, header.served, header.refused) == (Op.PUSH, 0, 1 << 20)
