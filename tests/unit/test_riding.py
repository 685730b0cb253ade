"""Hot keys ride in RPCs to any PS; those that the switch does not serve are added once, and soon."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from foundation.protocol import codec
from foundation.protocol.frames import parse
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import Op
from softswitch.interpreter import InterpretedPipeline
from softswitch.pipeline import Pipeline
from tests.harness.switches import PipelineSwitch, TodaysHits
from tests.harness.testbed import JOB, MS, SERVERS, SteppedTestbed
from tests.harness.testnet import lane_stats, new_switch, program, pushes

SWITCHES = pytest.mark.parametrize(
    "pipeline", [new_switch, lambda: InterpretedPipeline(program())], ids=["compiled", "interpreted"]
)


def ridden(bed: SteppedTestbed) -> tuple[int, list[int]]:
    """Push a hot key of server 0 that rides with three cold ones of server 1."""
    hot = bed.keys(0, [20])[0]
    cold = [key for key in bed.keys(1) if lane_of(key) != 20][:3]
    bed.load(hot)
    bed.hint(hot)
    bed.push(hot, *cold)
    [request] = bed.requests
    assert (request.ps, request.live.bit_count(), request.live >> 20 & 1) == (1, 4, 1)
    return hot, cold


@SWITCHES
def test_the_switch_serves_what_rides_and_the_ps_the_others(pipeline: Callable[[], Pipeline]) -> None:
    bed = SteppedTestbed(PipelineSwitch(pipeline()))
    hot, cold = ridden(bed)
    assert len(bed.finish()) == 1
    assert bed.values(hot, *cold) == [1, 1, 1, 1]
    assert bed.switch.register(hot, bed.slots[hot]) == 1
    bed.requests.clear()
    bed.pull(hot, *cold)
    assert len(bed.finish()) == 1
    bed.check()


def told_what_was_added(bed: SteppedTestbed, offload: bool = True) -> None:
    """Lose an RPC whose hot key the switch has added, move the key back, and repeat the RPC."""
    hot, cold = ridden(bed)
    bed.to_switch()
    bed.flying.clear()
    bed.unload(hot)
    bed.switch.set_job(JOB, offload, proxy=True)
    bed.pass_time(300 * MS)
    bed.finish()
    assert bed.values(hot, *cold) == [1, 1, 1, 1]


@SWITCHES
@pytest.mark.parametrize("offload", [True, False])
def test_a_duplicate_push_repeats_the_answer(pipeline: Callable[[], Pipeline], offload: bool) -> None:
    bed = SteppedTestbed(PipelineSwitch(pipeline()))
    told_what_was_added(bed, offload)
    bed.check()


def test_todays_hits_are_noticed() -> None:
    with pytest.raises(AssertionError):
        told_what_was_added(SteppedTestbed(TodaysHits(new_switch())))


@SWITCHES
def test_a_duplicate_pull_gets_what_is_there_now(pipeline: Callable[[], Pipeline]) -> None:
    """A lane that was served at first is cold at the repeat, and belongs to another PS."""
    bed = SteppedTestbed(PipelineSwitch(pipeline()))
    hot, cold = ridden(bed)
    bed.finish()
    bed.requests.clear()
    bed.pull(hot, *cold)
    bed.to_switch()
    bed.flying.clear()
    bed.unload(hot)
    bed.pass_time(300 * MS)
    again = bed.finish()
    assert bed.client.values.tolist() == [1, 1, 1, 1]
    assert [(header.ps, header.live.bit_count()) for header in again if header.ps == 0] == [(0, 1)]


@SWITCHES
def test_what_is_missed_goes_to_its_ps_at_once_and_rides_no_more(pipeline: Callable[[], Pipeline]) -> None:
    """All hints are wrong: the refused keys of one burst go densely, in one RPC per PS."""
    bed = SteppedTestbed(PipelineSwitch(pipeline()))
    keys = [key for ps in range(SERVERS) for key in bed.keys(ps)]
    bed.hint(*keys)
    bed.push(*keys)
    first = len(bed.requests)
    while bed.entering:
        bed.to_switch()
        while bed.flying:  # each server and the worker take what has come as one burst
            bed._arrive(*bed.flying.pop(0))
    due = bed.client.deadline()
    assert due is not None and due <= bed.now  # nothing is waited for
    sent = bed.finish()
    missed = sent[first:]
    assert sorted(header.ps for header in missed) == [0, 1]
    assert all(header.live == 2**header.count - 1 for header in missed)
    assert not bed.client.hinted.any()
    bed.requests.clear()
    bed.push(*keys)
    again = bed.finish()
    assert len(again) == sum(-(-len(bed.keys(ps)) // 32) for ps in range(SERVERS))
    assert bed.values(*keys) == [2] * len(keys)


@SWITCHES
def test_what_is_on_its_way_waits_for_the_switch_and_does_not_spin(pipeline: Callable[[], Pipeline]) -> None:
    """A missed key is refused by its PS, and then sent in its hash lane, less and less often."""
    bed = SteppedTestbed(PipelineSwitch(pipeline()))
    hot, other = bed.keys(0, [20])[0], bed.keys(1, [7])[0]
    bed.load(hot, state="reserved")
    server = bed.servers[0].stores[JOB]
    places = server.locate(np.array([hot], np.uint64))
    server.release(places)
    bed.hint(hot)
    bed.push(hot, other)
    for _ in range(100):
        while bed.entering or bed.flying:
            bed.deliver(0)
        due = bed.client.deadline()
        assert due is not None
        if due > bed.now + 10 * MS:
            break
        bed.pass_time(max(due - bed.now, 0))
    assert bed.client.hinted.nonzero()[0].tolist() == [hot]
    # To server 1 with the other, to its own densely, and then in its lane, each time after twice as long.
    assert [header.ps for header in bed.requests] == [1] + [0] * (len(bed.requests) - 1)
    assert 5 <= len(bed.requests) <= 10
    assert {header.live for header in bed.requests[2:]} == {1 << 20}
    bed.switch.set_entry(JOB, hot, "hot", bed.slots[hot])
    bed.hot.add(hot)
    bed.finish()
    assert bed.values(hot, other) == [1, 1]


def test_a_missed_lane_is_looked_up_twice_and_added_once() -> None:
    """`lane_stats` counts look-ups, `pushes` counts updates."""
    bed = SteppedTestbed()
    hot, cold = bed.keys(0, [20])[0], [key for key in bed.keys(1) if lane_of(key) != 20][:3]
    bed.hint(hot)
    bed.push(hot, *cold)
    bed.finish()
    pipeline = bed.switch.pipeline
    looked = [lane_stats(pipeline, lane) for lane in range(32)]
    assert sum(hits for hits, _, _ in looked) == 0
    assert sum(misses for _, misses, _ in looked) == 4 + 1
    assert not pushes(pipeline, 20)
    assert sum(int(server.stores[JOB].held().updates.sum()) for server in bed.servers) == 4


@SWITCHES
def test_a_single_ps_serves_all_that_the_switch_does_not(pipeline: Callable[[], Pipeline]) -> None:
    """A wrong hint costs no second RPC, as every key belongs to its share."""
    bed = SteppedTestbed(PipelineSwitch(pipeline()))
    mine = bed.keys(0)
    bed.hint(*mine[:5])
    bed.push(*mine)
    assert len(bed.finish()) == 1
    assert bed.values(*mine) == [1] * len(mine)
    assert not bed.client.hinted.any()


def test_logs_and_counters_agree_to_the_integer() -> None:
    """Hints are right, wrong and missing; a riding key is counted where it is served."""
    bed, chance = SteppedTestbed(), np.random.default_rng(3)
    pipeline = bed.switch.pipeline
    hot = chance.choice(bed.space.size, 150, replace=False).tolist()
    bed.load(*hot)
    before = contacts(bed)
    sent = {Op.PULL: 0, Op.PUSH: 0}
    for number in range(12):
        bed.hint(*chance.choice(bed.space.size, 200, replace=False).tolist(), *hot[: 10 * number])
        keys = chance.choice(bed.space.size, 250, replace=False).tolist()
        op = (Op.PULL, Op.PUSH)[number % 2]
        (bed.pull if op == Op.PULL else bed.push)(*keys)
        bed.finish()
        sent[op] += len(keys)
    log = bed.client.records
    assert len(log) and set(log["attempts"]) == {1}
    looked = np.array([lane_stats(pipeline, lane) for lane in range(32)]).sum(axis=0)
    assert looked[:2].tolist() == [log["served"].sum(), (log["lanes"] - log["served"]).sum()]
    # A PS hears of what the switch does not answer whole, and tells what it has added.
    whole = log["served"] == log["lanes"]
    assert 0 < whole.sum() < len(log) - ((log["served"] > 0) & ~whole).sum()
    assert contacts(bed) - before == (~whole).sum()
    pushed = log[log["op"] == Op.PUSH]
    added = [server.server.counters[JOB] for server in bed.servers]
    applied, refused = (sum(int(each[name]) for each in added) for name in ("applied_lanes", "refused_lanes"))
    assert applied + pushed["served"].sum() == sent[Op.PUSH]
    assert refused == log["lanes"].sum() - sum(sent.values()) > 0
    assert sum(sum(pushes(pipeline, lane).values()) for lane in range(32)) == pushed["served"].sum()
    bed.check()


def contacts(bed: SteppedTestbed) -> int:
    return sum(int(server.server.state.header.contacts) for server in bed.servers)


@SWITCHES
def test_no_ps_adds_what_is_not_of_its_share(pipeline: Callable[[], Pipeline]) -> None:
    bed = SteppedTestbed(PipelineSwitch(pipeline()))
    hot, cold = bed.keys(0, [20])[0], [key for key in bed.keys(1) if lane_of(key) != 20][:3]
    bed.hint(hot)
    bed.push(hot, *cold)
    bed.to_switch()
    [(_, frame)] = bed.flying
    answered = bed.servers[1].handle(parse(frame).payload, 0, 0, parse(frame).source)
    assert answered is not None
    header = codec.parse(answered[1]).header
    assert (header.op, header.served, header.refused) == (Op.PUSH, 0, 1 << 20)
