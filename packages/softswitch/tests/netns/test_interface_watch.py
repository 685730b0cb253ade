"""Interfaces that go while the switch runs, and come back, in both datapaths."""

from __future__ import annotations

import select
import socket
from collections.abc import Mapping
from contextlib import ExitStack

import pytest

from softswitch.datapath import SwitchPorts
from softswitch.pipeline import ActionCall, Change, EntryWrite
from softswitch.settings import Datapath, Settings
from switch_harness.constructs import compiled
from switch_harness.net import Net, ip
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says_in_one_line

pytestmark = pytest.mark.netns

FORWARD, TO = "ControlIngress.forward", "ControlIngress.forward_to"
TO_2, TO_1 = ((address).to_bytes(6, "big") + bytes(60) for address in (2, 1))


def _remake(stack: ExitStack, net: Net, port: int, indices: Mapping[int, int] = {}) -> None:
    again = Net(stack, range(port, port + 1), indices=indices)
    net.hosts[port].close()
    net.hosts[port] = again.hosts[port]


def _follow(ports: SwitchPorts) -> None:
    assert select.select([ports.interface_watch], [], [], PATIENCE_S)[0]
    ports.follow_interfaces()


def _is_delivered(net: Net, source: int, target: int, frame: bytes) -> bool:
    """Return whether a frame arrives. It may be lost while the interface comes up."""
    net.hosts[source].send(frame)
    net.hosts[target].settimeout(0.2)
    try:
        return net.hosts[target].recv(2000) == frame
    except TimeoutError:
        return False


@pytest.mark.parametrize("datapath", [Datapath.SOCKETS, Datapath.KERNEL])
def test_an_interface_that_was_deleted_and_created_is_attached_again(
    stack: ExitStack, datapath: Datapath, caplog: pytest.LogCaptureFixture
) -> None:
    net = Net(stack, range(1, 3))
    with SwitchPorts(Settings(ports=net.names, datapath=datapath)) as ports:
        pipeline = ports.make(compiled("control"))
        for port in (1, 2):
            pipeline.tables.write([EntryWrite(Change.INSERT, FORWARD, (port,), ActionCall(TO, (port,)))])
        ports.start(pipeline)
        wait_for(lambda: _is_delivered(net, 1, 2, TO_2))
        caplog.clear()
        ip("link", "set", "s1", "down")
        ip("link", "set", "s1", "up")  # a change, after which the interface is the same
        _follow(ports)
        assert caplog.messages == []
        ip("link", "del", "s2")
        for _ in range(2):  # it is logged once
            ports.follow_interfaces()
        (gone,) = caplog.messages
        assert says_in_one_line(gone, "port 2", "s2")
        _remake(stack, net, 2)
        _follow(ports)
        wait_for(lambda: _is_delivered(net, 1, 2, TO_2))
        wait_for(lambda: _is_delivered(net, 2, 1, TO_1))
        assert says_in_one_line(caplog.messages[1], "port 2", "s2")
        # Gone and back with its index, before the switch looks.
        index = socket.if_nametoindex("s2")
        ip("link", "del", "s2")
        _remake(stack, net, 2, {2: index})
        _follow(ports)
        wait_for(lambda: _is_delivered(net, 1, 2, TO_2))
        wait_for(lambda: _is_delivered(net, 2, 1, TO_1))
        assert len(caplog.messages) == 3
        assert ports.counters().ports[2].rx > 1
        ports.stop()


def test_a_port_keeps_an_interface_that_gets_another_name(
    stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    net = Net(stack, range(1, 3))
    with SwitchPorts(Settings(ports=net.names, datapath=Datapath.SOCKETS)) as ports:
        pipeline = ports.make(compiled("control"))
        pipeline.tables.write([EntryWrite(Change.INSERT, FORWARD, (2,), ActionCall(TO, (2,)))])
        ports.start(pipeline)
        caplog.clear()
        ip("link", "set", "s2", "name", "other")
        _follow(ports)
        assert caplog.messages == []
        wait_for(lambda: _is_delivered(net, 1, 2, TO_2))
        ports.stop()
