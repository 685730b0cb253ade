"""What waits for a port of BMv2 and of softswitch with the same rate and depth: depths, marks and drops.

Times are BMv2's own: nothing leaves early, and how late is the machine's affair.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import NamedTuple, cast

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.pipeline import ControlPlane
from softswitch.queues import Rate
from softswitch.queues.shape import of_packets
from targets import processes
from targets.bmv2 import Bmv2
from targets.dataplane import Dataplane
from targets.p4runtime import P4RuntimeClient, pipeline_config
from tests.harness import ecn
from tests.harness.bmv2_queues import Bmv2Queues
from tests.harness.constructs import PROGRAMS, compiled
from tests.harness.queued import IN, OUT, PRIORITIES, QueuedSwitch

pytestmark = pytest.mark.bmv2

NO_THRIFT = "simple_switch_grpc was built without Thrift (-DWITH_THRIFT=ON), which sets rates of its queues"
RATE, DEPTH, THRESHOLD = 5, 4, 2
GAP_US = 1_000_000 // RATE
SLACK_US = 2  # whole microseconds of two times
BURST_NS = 10_000_000  # after the first, and long before the next departure


class Both(NamedTuple):
    """BMv2's ports, and softswitch in virtual time."""

    ports: Dataplane
    ours: QueuedSwitch


@pytest.fixture
def both() -> Iterator[Both]:
    program = processes.find_bmv2()
    if not processes.has_thrift(program):
        pytest.skip(NO_THRIFT)
    with ExitStack() as stack:
        data = f"127.0.0.1:{stack.enter_context(processes.reserved_port())}"
        options = ("--dp-grpc-server-addr", data, "--priority-queues", str(PRIORITIES))
        switch = stack.enter_context(processes.bmv2(target_options=options))
        client = stack.enter_context(P4RuntimeClient(switch.address))
        ports = stack.enter_context(closing(Dataplane(data)))
        config = pipeline_config(PROGRAMS / "ecn")
        client.set_pipeline(config)
        ports.wait_until_started()
        assert switch.thrift_port is not None
        queues = stack.enter_context(closing(Bmv2Queues(switch.thrift_port)))
        queues.set_rate(OUT, RATE)
        queues.set_depth(OUT, DEPTH)
        pipeline = CompiledPipeline(compiled("ecn"), priority_queues=PRIORITIES, buffered=True)
        ours = QueuedSwitch(pipeline, Rate(packets=RATE), of_packets(DEPTH))
        theirs = cast(ControlPlane, Bmv2(client, ports, config.p4info))  # as much of one as this needs
        for target in (theirs, pipeline):
            ecn.mark_from(target, OUT, THRESHOLD)
        yield Both(ports, ours)


def told(frames: list[bytes]) -> list[tuple[int, int, int, bool]]:
    """Number, depths and mark of what has left, in order."""
    probes = [ecn.read(frame) for frame in frames]
    return [
        (probe.number, probe.enq_qdepth, probe.deq_qdepth, ecn.is_marked(frame))
        for probe, frame in zip(probes, frames, strict=True)
    ]


def run(both: Both, first: bytes, burst: list[bytes]) -> list[ecn.Probe]:
    """A frame, and when it has gone the others, long before the next may; BMv2's probes, which are ours."""
    outputs = both.ports.process(IN, first) + both.ports.process_all(IN, burst)
    both.ours.send(0, first)
    both.ours.send(BURST_NS, *burst)
    both.ours.run()
    frames = [output.frame for output in outputs]
    assert {output.port for output in outputs} == {OUT}
    assert told(frames) == told([frame for _, frame in both.ours.left])
    probes = [ecn.read(frame) for frame in frames]
    for probe in probes:
        assert probe.deq_timedelta <= probe.left - probe.enq_timestamp <= probe.deq_timedelta + SLACK_US
    return probes


def test_a_burst_into_a_small_queue(both: Both) -> None:
    probes = run(both, ecn.frame(0), [ecn.frame(number) for number in range(1, 8)])
    assert [probe.number for probe in probes] == [0, 1, 2, 3, 4]
    for k, probe in enumerate(probes):
        assert probe.left >= probes[0].enq_timestamp + k * GAP_US - SLACK_US
    assert both.ours.dropped() == 3


def test_priorities_have_rates_and_depths_of_their_own(both: Both) -> None:
    low = [ecn.frame(number) for number in range(1, 7)]
    high = [ecn.frame(number, priority=PRIORITIES - 1) for number in range(10, 17)]
    probes = run(both, ecn.frame(0), [*low, *high])
    assert sorted(probe.number for probe in probes) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
