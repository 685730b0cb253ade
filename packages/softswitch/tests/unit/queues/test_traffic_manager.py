"""A pipeline and its queues together: which packet leaves when, with which depths, marked or dropped."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.jit import MachineCode
from softswitch.pipeline import BufferedPipeline
from softswitch.queues.shape import DEFAULT_DEPTH, UNLIMITED, Rate, byte_depth, packet_depth
from switch_harness import ecn
from switch_harness.constructs import compiled
from switch_harness.queued import OUT, PRIORITIES, QueuedSwitch

PROGRAM = compiled("ecn")
CODE = MachineCode(PROGRAM, PRIORITIES, buffered=True)
MS, US = 1_000_000, 1_000

Make = Callable[[], BufferedPipeline]


@pytest.fixture(params=["interpreted", "compiled"])
def make(request: pytest.FixtureRequest) -> Make:
    def made() -> BufferedPipeline:
        if request.param == "interpreted":
            return InterpretedPipeline(PROGRAM, PRIORITIES)
        return CompiledPipeline(PROGRAM, CODE)

    return made


def test_a_burst_into_a_small_queue_is_marked_and_dropped_by_depth(make: Make) -> None:
    """Of eight packets the first leaves at once, four wait in the queue, and three find it full."""
    pipeline = make()
    ecn.mark_from(pipeline, OUT, 2)
    switch = QueuedSwitch(pipeline, Rate(packets_per_s=1000), packet_depth(4))
    start = 5 * MS
    switch.send(start, *map(ecn.frame, range(8)))
    switch.run()
    us = start // US
    assert switch.probes() == [
        ecn.Probe(0, us, 0, 0, 0, us),
        ecn.Probe(1, us, 0, 1000, 3, us + 1000),
        ecn.Probe(2, us, 1, 2000, 2, us + 2000),
        ecn.Probe(3, us, 2, 3000, 1, us + 3000),
        ecn.Probe(4, us, 3, 4000, 0, us + 4000),
    ]
    assert [ecn.is_marked(frame) for _, frame in switch.left] == [False, False, False, True, True]
    assert switch.dropped() == 3


def test_a_queue_that_drains_takes_packets_again(make: Make) -> None:
    switch = QueuedSwitch(make(), Rate(packets_per_s=1000), packet_depth(2))
    switch.send(0, *map(ecn.frame, range(4)))
    switch.send(1_500 * US, *map(ecn.frame, range(4, 6)))
    switch.send(9 * MS, ecn.frame(6))
    switch.run()
    found = [(probe.number, probe.enq_qdepth, probe.deq_qdepth, probe.departure) for probe in switch.probes()]
    assert found == [(0, 0, 0, 0), (1, 0, 1, 1000), (2, 1, 1, 2000), (4, 1, 0, 3000), (6, 0, 0, 9000)]
    assert switch.dropped() == 2


def test_packets_without_ecn_are_not_marked_and_checksums_stay_right(make: Make) -> None:
    pipeline = make()
    ecn.mark_from(pipeline, OUT, 0)
    switch = QueuedSwitch(pipeline, UNLIMITED, DEFAULT_DEPTH)
    switch.send(0, *(ecn.frame(bits, bits) for bits in range(4)))
    assert [frame[15] & 3 for _, frame in switch.left] == [ecn.NOT_ECT, ecn.CE, ecn.CE, ecn.CE]
    for _, frame in switch.left:
        total = sum(int.from_bytes(frame[at : at + 2], "big") for at in range(14, 34, 2))
        assert total % 0xFFFF == 0


def test_a_link_spaces_frames_by_their_lengths(make: Make) -> None:
    """At 10 Mbit/s. A queue of 3,000 bytes has room for two of 1,500, and one that has left leaves some."""
    switch = QueuedSwitch(make(), Rate(bits_per_s=10**7), byte_depth(3_000))
    lengths = (1_500, 1_500, 1_500, 1_500, 100)
    switch.send(0, *(ecn.frame(number, body=length - ecn.MIN_BYTES) for number, length in enumerate(lengths)))
    switch.send(1_300 * US, ecn.frame(9))
    switch.run()
    assert [probe.number for probe in switch.probes()] == [0, 1, 2, 9]
    wire = [(len(frame) + 24) * 800 for _, frame in switch.left]
    times = [time for time, _ in switch.left]
    assert [later - sooner for sooner, later in pairwise(times)] == wire[:-1]
    assert switch.dropped() == 2


def test_a_priority_overtakes_and_has_its_own_depth(make: Make) -> None:
    switch = QueuedSwitch(make(), Rate(bits_per_s=10**6), packet_depth(3))
    switch.send(0, *map(ecn.frame, range(4)), ecn.frame(10, priority=7), ecn.frame(11, priority=5))
    switch.run()
    found = [(probe.number, probe.enq_qdepth, probe.deq_qdepth) for probe in switch.probes()]
    assert found == [(0, 0, 0), (10, 0, 0), (11, 0, 0), (1, 0, 2), (2, 1, 1), (3, 2, 0)]


def test_copies_for_one_port_leave_a_gap_apart(make: Make) -> None:
    pipeline = make()
    ecn.CONSTRUCT.prepare(pipeline)
    switch = QueuedSwitch(pipeline, Rate(packets_per_s=1000), DEFAULT_DEPTH)
    switch.send(0, ecn.frame(1), port=ecn.COPIES)
    switch.run()
    found = [(probe.enq_qdepth, probe.deq_timedelta, probe.deq_qdepth) for probe in switch.probes()]
    assert found == [(0, 0, 1), (1, 1000, 0)]
