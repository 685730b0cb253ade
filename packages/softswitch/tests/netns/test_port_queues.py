"""The switch as users start it, with rates and queues of ports, on real veths."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from softswitch import processes
from softswitch.datapath import SwitchPorts
from softswitch.ports.shaping import make_shapes, parse_port_queue, parse_port_rate
from softswitch.queues.shape import BYTE_UNITS, RATE_UNITS, Shape, parse_depth, parse_rate
from softswitch.settings import Datapath, Settings
from switch_harness import PROGRAMS, ecn
from switch_harness.constructs import compiled
from switch_harness.net import Net
from switch_harness.waiting import wait_for

pytestmark = pytest.mark.netns

ECN = str(PROGRAMS / "ecn.json")
SLACK_US = 200  # two clocks, and whole microseconds


def shaped(rates: Sequence[str] = (), queues: Sequence[str] = ()) -> dict[int, Shape]:
    return make_shapes((1, 2), dict(map(parse_port_rate, rates)), dict(map(parse_port_queue, queues)))


@contextmanager
def switch(net: Net, shapes: Mapping[int, Shape], threshold: int) -> Iterator[SwitchPorts]:
    """Start a switch that forwards from 1 to 2, and marks frames that find two or more waiting."""
    with SwitchPorts(Settings(ports=net.names, shapes=shapes)) as ports:
        assert ports.datapath is Datapath.SOCKETS
        pipeline = ports.make(compiled("ecn"))
        ecn.mark_from(pipeline, 2, threshold)
        ports.start(pipeline)
        yield ports
        ports.stop()


def test_frames_of_a_burst_leave_a_slow_port_spaced_by_their_lengths_and_marked(stack: ExitStack) -> None:
    """Frames leave one transmission time apart; a frame that found two waiting is marked."""
    net = Net(stack, range(1, 3))
    lengths = [500, 1_000, 100, 1_500, 800, 68, 1_200]
    frames = [ecn.frame(number, body=length - ecn.MIN_BYTES) for number, length in enumerate(lengths)]
    with switch(net, shaped(["2=1mbit"], ["2=64kb"]), 2) as ports:
        for frame in frames:
            net.hosts[1].send(frame)
        received = [net.hosts[2].recv(2000) for _ in frames]
        probes = [ecn.read(frame) for frame in received]
        assert [probe.number for probe in probes] == list(range(len(frames)))
        begins = probes[0].enq_timestamp
        for length, (sooner, later) in zip(lengths, pairwise(probes), strict=False):
            begins = max(begins + (length + 24) * 8, later.enq_timestamp)
            assert later.departure >= begins - SLACK_US
            assert sooner.departure <= later.departure
        assert [ecn.is_marked(frame) for frame in received] == [probe.enq_qdepth >= 2 for probe in probes]
        counters = ports.counters().ports
        assert (counters[1].rx, counters[2].queue_dropped) == (len(frames), 0)
        wait_for(lambda: ports.counters().ports[2].tx == len(frames))


def test_a_full_queue_that_does_not_drain_drops_further_frames(stack: ExitStack) -> None:
    """At 1 bit/s the second frame would go in ten minutes."""
    net = Net(stack, range(1, 3))
    with switch(net, shaped(["*=1bit"], ["2=5"]), 1) as ports:
        for number in range(20):
            net.hosts[1].send(ecn.frame(number))
        assert ecn.read(net.hosts[2].recv(2000)).number == 0
        wait_for(lambda: ports.counters().ports[2].queue_dropped == 14)
        ports.stop()
        counters = ports.counters().ports
        assert counters[1].rx == counters[2].tx + counters[2].queue_dropped == 20


def test_the_command_takes_port_rates_and_queues_and_counts_queue_drops(
    stack: ExitStack, tmp_path: Path
) -> None:
    net = Net(stack, range(1, 3))
    reported = tmp_path / "counters.json"
    options = (ECN, "--port-rate", "2=100pps", "--port-queue", "*=3", "--counters", str(reported))
    with processes.softswitch(net.names, options=options) as started:
        assert "only the sockets support rates and queues of ports" in started.log()
        for number in range(4):
            net.hosts[1].send(ecn.frame(number))
        probes = [ecn.read(net.hosts[2].recv(2000)) for _ in range(4)]
        assert [probe.number for probe in probes] == list(range(4))
        for k, probe in enumerate(probes):
            assert probe.departure >= probes[0].enq_timestamp + k * 10_000 - SLACK_US
    counters = json.loads(reported.read_text())["ports"]
    assert (counters["1"]["rx"], counters["2"]["tx"], counters["2"]["queue_dropped"]) == (4, 4, 0)


@pytest.mark.parametrize("text", [f"{number}{unit}" for unit in BYTE_UNITS for number in (1, 3)])
def test_sizes_of_queues_have_the_units_of_tc(stack: ExitStack, text: str) -> None:
    """It equals what tc makes of the same text for a queue of bytes."""
    Net(stack, range(1, 2))
    tc("qdisc", "add", "dev", "s1", "root", "bfifo", "limit", text)
    [qdisc] = json.loads(tc("-json", "qdisc", "show", "dev", "s1"))
    assert int(re.sub("[^0-9]", "", str(qdisc["options"]["limit"]))) == parse_depth(text).bytes


@pytest.mark.parametrize("text", [f"{n}{unit}" for unit in RATE_UNITS if unit != "pps" for n in (8, 24)])
def test_rates_have_the_units_of_tc(stack: ExitStack, text: str) -> None:
    Net(stack, range(1, 2))
    tc("qdisc", "add", "dev", "s1", "root", "tbf", "rate", text, "burst", "10mb", "latency", "1ms")
    [qdisc] = json.loads(tc("-json", "qdisc", "show", "dev", "s1"))
    assert 8 * qdisc["options"]["rate"] == parse_rate(text).bits_per_s


def tc(*words: str) -> str:
    return subprocess.run(["tc", *words], check=True, capture_output=True, text=True).stdout
