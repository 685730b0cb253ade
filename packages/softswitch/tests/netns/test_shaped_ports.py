"""Interfaces that tc shapes, as Mininet's TCLink does: packets queue, and programs see queue depths."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.datapath import SwitchPorts
from softswitch.ports.qdiscs import shaped_interfaces
from softswitch.settings import Datapath, Settings
from switch_harness import ecn
from switch_harness.constructs import compiled
from switch_harness.net import Net
from switch_harness.waiting import wait_for
from switch_harness.wording import says

pytestmark = pytest.mark.netns

HTB = (  # as TCLink configures, at 8 Mbit/s
    "qdisc add dev s2 root handle 5: htb default 1",
    "class add dev s2 parent 5: classid 5:1 htb rate 8mbit burst 15k",
)
SMALL = (*HTB, "qdisc add dev s2 parent 5:1 handle 10: pfifo limit 1")  # full: sends fail with ENOBUFS
TBF = ("qdisc add dev s2 root tbf rate 8mbit burst 2000 limit 1000000",)
FRAMES = 60  # fewer than a queue has room for


def shape(commands: Sequence[str]) -> None:
    for words in commands:
        subprocess.run(["tc", *words.split()], check=True)


@pytest.mark.parametrize("commands", [HTB, SMALL, TBF], ids=["htb", "htb with a full queue", "tbf"])
def test_packets_queue_and_the_program_sees_the_depth(stack: ExitStack, commands: Sequence[str]) -> None:
    net = Net(stack, range(1, 4))
    shape(commands)
    assert shaped_interfaces(net.names.values()).keys() == {"s2"}
    ports = stack.enter_context(SwitchPorts(Settings(ports=net.names)))
    assert ports.datapath is Datapath.SOCKETS
    assert says(ports.describe_datapath(), "sockets", "s2")
    pipeline = ports.make(compiled("ecn"))
    ecn.forward(pipeline, 3, 1)
    ports.start(pipeline)
    for number in range(FRAMES):
        net.hosts[1].send(ecn.frame(number, body=1000))
    net.hosts[3].send(ecn.frame(7))  # frames to another port are not delayed
    assert ecn.read(net.hosts[1].recv(2000)).deq_qdepth == 0
    probes = [ecn.read(net.hosts[2].recv(2000)) for _ in range(FRAMES)]
    wait_for(lambda: ports.counters().ports[2].tx == FRAMES)
    counters = ports.counters().ports
    assert (counters[1].rx, counters[2].tx_dropped, counters[2].queue_dropped) == (FRAMES, 0, 0)
    assert [probe.number for probe in probes] == list(range(FRAMES))
    for k, probe in enumerate(probes):
        waited = sum(other.departure > probe.enq_timestamp for other in probes[:k])
        assert probe.enq_qdepth in (waited, waited - 1)  # one may leave within the same microsecond
    assert max(probe.enq_qdepth for probe in probes) > FRAMES // 3
    assert probes[-1].deq_qdepth == 0
    ports.stop()


def test_unshaped_interfaces_have_no_queues(stack: ExitStack) -> None:
    net = Net(stack, range(1, 3))
    subprocess.run(["tc", "qdisc", "add", "dev", "s2", "root", "pfifo", "limit", "10"], check=True)
    assert shaped_interfaces(net.names.values()) == {}
    with SwitchPorts(Settings(ports=net.names, datapath=Datapath.SOCKETS)) as ports:
        pipeline = ports.make(compiled("ecn"))
        assert isinstance(pipeline, CompiledPipeline)
        assert pipeline.queue_record_bytes == 0


def test_a_requested_kernel_datapath_ignores_shaping(stack: ExitStack) -> None:
    net = Net(stack, range(1, 3))
    shape(TBF)
    with SwitchPorts(Settings(ports=net.names, datapath=Datapath.KERNEL)) as ports:
        assert ports.datapath is Datapath.KERNEL
