"""What waits for a port of BMv2 and of softswitch with the same rate and depth: depths, marks and drops.

Times are BMv2's own: nothing leaves early, and how late is the machine's affair.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import NamedTuple, cast

import pytest

from softswitch import processes
from softswitch.compiled import CompiledPipeline
from softswitch.conformance.bmv2 import Bmv2
from softswitch.conformance.client import P4RuntimeClient, pipeline_config
from softswitch.conformance.dataplane import Dataplane
from softswitch.pipeline import ControlPlane
from softswitch.queues.shape import Rate, packet_depth
from switch_harness import PROGRAMS, ecn
from switch_harness.bmv2_queues import Bmv2Queues
from switch_harness.constructs import compiled
from switch_harness.queued import IN, OUT, PRIORITIES, QueuedSwitch

pytestmark = pytest.mark.bmv2

NO_THRIFT = "simple_switch_grpc was built without Thrift (-DWITH_THRIFT=ON), which sets rates of its queues"
RATE, DEPTH, THRESHOLD = 2, 4, 2
GAP_US = 1_000_000 // RATE
SLACK_US = 2  # whole microseconds of two times
STEP_NS = 5_000_000  # between what comes one after another, and long before the next departure


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
        ours = QueuedSwitch(pipeline, Rate(packets_per_s=RATE), packet_depth(DEPTH))
        reference = cast(ControlPlane, Bmv2(client, ports, config.p4info))  # as much of one as this needs
        for target in (reference, pipeline):
            ecn.mark_from(target, OUT, THRESHOLD)
        yield Both(ports, ours)


def reported(frames: list[bytes]) -> list[tuple[int, int, int, bool]]:
    """Number, depths and mark of what has left, in order."""
    probes = [ecn.read(frame) for frame in frames]
    return [
        (probe.number, probe.enq_qdepth, probe.deq_qdepth, ecn.is_marked(frame))
        for probe, frame in zip(probes, frames, strict=True)
    ]


def run(both: Both, firsts: list[bytes], burst: list[bytes]) -> list[ecn.Probe]:
    """Frames that leave one by one, and then reference, long before the next may; BMv2's probes, as ours."""
    outputs = []
    for k, frames in enumerate([*([first] for first in firsts), burst]):
        outputs += both.ports.process_all(IN, frames)
        both.ours.send(k * STEP_NS, *frames)
    both.ours.run()
    frames = [output.frame for output in outputs]
    assert {output.port for output in outputs} == {OUT}
    assert reported(frames) == reported([frame for _, frame in both.ours.left])
    probes = [ecn.read(frame) for frame in frames]
    for probe in probes:
        # BMv2 reads the clock again for `deq_timedelta`.
        assert probe.deq_timedelta >= probe.departure - probe.enq_timestamp
    return probes


def test_a_burst_beyond_a_small_queue_is_dropped_by_bmv2_as_by_softswitch(both: Both) -> None:
    probes = run(both, [ecn.frame(0)], [ecn.frame(number) for number in range(1, 8)])
    assert [probe.number for probe in probes] == [0, 1, 2, 3, 4]
    for k, probe in enumerate(probes):
        assert probe.departure >= probes[0].enq_timestamp + k * GAP_US - SLACK_US
    assert both.ours.dropped() == 3


def test_priorities_have_separate_rates_and_depths(both: Both) -> None:
    first, *low = [ecn.frame(number) for number in range(7)]
    other, *high = [ecn.frame(number, priority=PRIORITIES - 1) for number in range(10, 17)]
    probes = run(both, [first, other], [*low, *high])
    assert [probe.number for probe in probes] == [0, 10, 1, 11, 2, 12, 3, 13, 4, 14]
