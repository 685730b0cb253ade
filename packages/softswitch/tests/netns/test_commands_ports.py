"""Ports that come and go, and queues that come later, in a switch that forwards on real veths."""

from __future__ import annotations

from contextlib import ExitStack
from typing import cast

import pytest

from softswitch.compiled import CompiledPipeline
from softswitch.datapath import SwitchPorts
from softswitch.errors import SwitchError
from softswitch.pipeline import ActionCall, Change, EntryWrite
from softswitch.ports.loop import PortLoop
from softswitch.queues.shape import DEFAULT_DEPTH
from softswitch.settings import Datapath, Settings
from switch_harness.constructs import compiled
from switch_harness.net import Net, ip
from switch_harness.waiting import wait_for
from switch_harness.wording import mentions

pytestmark = pytest.mark.netns

FORWARD, TO = "ControlIngress.forward", "ControlIngress.forward_to"


def test_a_port_added_by_a_command_forwards_until_the_port_is_removed(stack: ExitStack) -> None:
    net = Net(stack, range(1, 4))
    names = {number: name for number, name in net.names.items() if number != 3}
    frame = (9).to_bytes(6, "big") + bytes(60)
    with SwitchPorts(Settings(ports=names, datapath=Datapath.SOCKETS)) as ports:
        pipeline = cast(CompiledPipeline, ports.make(compiled("control")))
        pipeline.tables.write([EntryWrite(Change.INSERT, FORWARD, (9,), ActionCall(TO, (3,)))])
        ports.start(pipeline)
        net.hosts[1].send(frame)
        wait_for(lambda: ports.counters().no_such_port == 1)
        before = ports.now()
        ports.add(3, net.names[3])
        assert ports.is_up(3)
        net.hosts[1].send(frame)
        assert net.hosts[3].recv(2000) == frame
        wait_for(lambda: ports.counters().ports[3].tx == 1)
        assert (ports.counters().ports[1].rx, ports.counters().no_such_port) == (2, 1)
        assert ports.now() >= before
        ip("link", "property", "add", "dev", net.names[1], "altname", "another")
        for name in (net.names[1], "another"):
            with pytest.raises(SwitchError, match=mentions(1, 4, name)):
                ports.add(4, name)
        ports.set_queues(3, None, 1_000_000, 5)
        net.hosts[1].send(frame)
        assert net.hosts[3].recv(2000) == frame
        ports.remove(3)
        net.hosts[1].send(frame)
        wait_for(lambda: ports.counters().no_such_port == 2)
        assert list(ports.counters().ports) == [1, 2]
        ports.stop()


def test_a_port_that_comes_later_has_room_beside_a_deeper_queue(stack: ExitStack) -> None:
    net = Net(stack, range(1, 3))
    old_loop = stack.enter_context(PortLoop({1: net.names[1]}))
    old_loop.set_depth(10 * DEFAULT_DEPTH.packets, port=1, priority=0)
    new_loop = stack.enter_context(PortLoop(net.names, old_loop=old_loop))
    assert new_loop.has_room(DEFAULT_DEPTH.packets, port=2, priority=0)
    assert not new_loop.has_room(DEFAULT_DEPTH.packets + 1, port=2, priority=0)
