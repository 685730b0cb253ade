"""A pipeline and its queues together: which packet leaves when, with which depths, marked or dropped."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest

from native.plain import plain
from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.jit import MachineCode
from softswitch.pipeline import BufferedPipeline, Depths, Waiting
from softswitch.queues import DEFAULT_DEPTH, NEVER, NONE, Depth, Rate, Shape, fifo, make_queues
from softswitch.queues.shape import UNLIMITED, of_bytes, of_packets
from tests.harness import ecn
from tests.harness.constructs import compiled

PROGRAM = compiled("ecn")
PRIORITIES = 8
CODE = MachineCode(PROGRAM, PRIORITIES, buffered=True)
MS, US = 1_000_000, 1_000
OUT = 2
_put, _take, _next = plain(fifo.put), plain(fifo.take), plain(fifo.next_departure)

Make = Callable[[], BufferedPipeline]


class Switch:
    """Ports 0 to 10, all of one shape. Times are in ns."""

    def __init__(self, pipeline: BufferedPipeline, rate: Rate, depth: Depth) -> None:
        self.pipeline = pipeline
        self.queues = make_queues([Shape(rate, depth)] * 11, PRIORITIES)
        self._waiting: dict[int, Waiting] = {}
        self.left: list[tuple[int, bytes]] = []
        """Time and frame of all that has left."""

    def send(self, now: int, *frames: bytes, port: int = OUT - 1) -> None:
        """Frames come in one after another, at one time."""
        self.run(now)
        for frame in frames:
            self._queue(self.pipeline.enter(port, frame, now // US, now // US).waiting, now)
            self.run(now)

    def run(self, until: int = NEVER - 1) -> None:
        """Let packets go when they may."""
        while (now := _next(self.queues)) <= until:
            slot = self.queues.slots[s := _take(self.queues, now)]
            depths = Depths(int(slot.enq_qdepth), int(slot.deq_qdepth))
            outputs, waiting = self.pipeline.leave(self._waiting.pop(s), depths, int(now) // US)
            self.left += [(int(now), output.frame) for output in outputs]
            self._queue(waiting, now)

    def _queue(self, waiting: list[Waiting], now: int) -> None:
        for packet in waiting:
            s = _put(self.queues, packet.port, packet.priority, packet.length, now)
            if s != NONE:
                self._waiting[s] = packet

    def dropped(self) -> int:
        return int(self.queues.queues[OUT]["dropped"].sum())

    def probes(self) -> list[ecn.Probe]:
        return [ecn.read(frame) for _, frame in self.left]


@pytest.fixture(params=["interpreted", "compiled"])
def make(request: pytest.FixtureRequest) -> Make:
    def made() -> BufferedPipeline:
        if request.param == "interpreted":
            return InterpretedPipeline(PROGRAM, PRIORITIES)
        return CompiledPipeline(PROGRAM, CODE)

    return made


def test_a_burst_into_a_small_queue(make: Make) -> None:
    """Of eight packets the first is gone at once, four wait for theirs, and three find the queue full."""
    pipeline = make()
    ecn.mark_from(pipeline, OUT, 2)
    switch = Switch(pipeline, Rate(packets=1000), of_packets(4))
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
    switch = Switch(make(), Rate(packets=1000), of_packets(2))
    switch.send(0, *map(ecn.frame, range(4)))
    switch.send(1_500 * US, *map(ecn.frame, range(4, 6)))
    switch.send(9 * MS, ecn.frame(6))
    switch.run()
    found = [(probe.number, probe.enq_qdepth, probe.deq_qdepth, probe.left) for probe in switch.probes()]
    assert found == [(0, 0, 0, 0), (1, 0, 1, 1000), (2, 1, 1, 2000), (4, 1, 0, 3000), (6, 0, 0, 9000)]
    assert switch.dropped() == 2


def test_what_is_not_ecn_capable_is_not_marked_and_checksums_stay_right(make: Make) -> None:
    pipeline = make()
    ecn.mark_from(pipeline, OUT, 0)
    switch = Switch(pipeline, UNLIMITED, DEFAULT_DEPTH)
    switch.send(0, *(ecn.frame(bits, bits) for bits in range(4)))
    assert [frame[15] & 3 for _, frame in switch.left] == [ecn.NOT_ECT, ecn.CE, ecn.CE, ecn.CE]
    for _, frame in switch.left:
        total = sum(int.from_bytes(frame[at : at + 2], "big") for at in range(14, 34, 2))
        assert total % 0xFFFF == 0


def test_a_link_spaces_frames_by_their_lengths(make: Make) -> None:
    """At 10 Mbit/s. A queue of 3,000 bytes has room for two of 1,500, and one that has left leaves some."""
    switch = Switch(make(), Rate(bits=10**7), of_bytes(3_000))
    lengths = (1_500, 1_500, 1_500, 1_500, 100)
    switch.send(0, *(ecn.frame(number, body=length - ecn.LEAST) for number, length in enumerate(lengths)))
    switch.send(1_300 * US, ecn.frame(9))
    switch.run()
    assert [probe.number for probe in switch.probes()] == [0, 1, 2, 9]
    wire = [(len(frame) + 24) * 800 for _, frame in switch.left]
    times = [time for time, _ in switch.left]
    assert [later - sooner for sooner, later in pairwise(times)] == wire[:-1]
    assert switch.dropped() == 2


def test_a_priority_overtakes_and_has_its_own_depth(make: Make) -> None:
    switch = Switch(make(), Rate(bits=10**6), of_packets(3))
    switch.send(0, *map(ecn.frame, range(4)), ecn.frame(10, priority=7), ecn.frame(11, priority=5))
    switch.run()
    found = [(probe.number, probe.enq_qdepth, probe.deq_qdepth) for probe in switch.probes()]
    assert found == [(0, 0, 0), (10, 0, 0), (11, 0, 0), (1, 0, 2), (2, 1, 1), (3, 2, 0)]


def test_copies_for_one_port_wait_for_each_other(make: Make) -> None:
    pipeline = make()
    ecn.CONSTRUCT.prepare(pipeline)
    switch = Switch(pipeline, Rate(packets=1000), DEFAULT_DEPTH)
    switch.send(0, ecn.frame(1), port=ecn.COPIES)
    switch.run()
    found = [(probe.enq_qdepth, probe.deq_timedelta, probe.deq_qdepth) for probe in switch.probes()]
    assert found == [(0, 0, 1), (1, 1000, 0)]
