"""The ports on real veths, in a network namespace of the test's own."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import time
from contextlib import ExitStack
from functools import partial

import pytest

from softswitch.errors import PortError
from softswitch.ports.impairment import Direction, Impairment
from softswitch.ports.loop import PortLoop
from softswitch.ports.options import PortOptions
from switch_harness.native import Addressed, Stamps, Wires, read_stamp
from switch_harness.net import CPU, ETHERNET, VLAN, Arrived, Net, addressed, frame, ip
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import mentions, says

pytestmark = pytest.mark.netns


def test_frames_cross_in_order_and_unchanged(stack: ExitStack) -> None:
    net = Net(stack, range(1, 3))
    loop = stack.enter_context(PortLoop(net.names))
    loop.start(Wires({1: [2], 2: [1]}))
    frames = [frame(number, 60 + 7 * (number % 200)) for number in range(500)]
    received = []
    for sent in frames:
        net.hosts[1].send(sent)
        received.append(net.hosts[2].recv(2000))
    assert received == frames
    net.hosts[2].send(frames[0])
    assert net.hosts[1].recv(2000) == frames[0]
    loop.stop()
    counters = loop.counters().ports
    assert (counters[1].rx, counters[2].tx) == (500, 500)
    assert (counters[2].rx, counters[1].tx) == (1, 1)  # what the switch sends it does not receive


def test_vlan_tag_is_kept(stack: ExitStack) -> None:
    net = Net(stack, range(1, 3))
    loop = stack.enter_context(PortLoop(net.names, PortOptions(255)))
    loop.cpu_socket.settimeout(PATIENCE_S)
    loop.start(Wires({1: [255, 2]}))
    tagged = ETHERNET[:12] + VLAN + frame()[12:]
    net.hosts[1].send(tagged)
    assert loop.cpu_socket.recv(2000) == tagged
    payload, control, _, _ = net.hosts[2].recvmsg(2000, 100)
    assert payload == frame()
    *_, tci, tpid = struct.unpack("IIIHHHH", control[0][2][:20])  # struct tpacket_auxdata
    assert (tpid, tci) == (0x8100, 0x2007)


def test_times_come_from_the_ring(stack: ExitStack) -> None:
    net = Net(stack, range(1, 2))
    loop = stack.enter_context(PortLoop(net.names))
    stamps = Stamps()
    loop.start(stamps)
    libc = ctypes.CDLL(None)
    libc.pthread_mutex_lock(ctypes.c_void_p(stamps.mutex_address))
    net.hosts[1].send(frame())
    wait_for(lambda: loop.counters().ports[1].rx == 1)
    held = 0.02
    time.sleep(held)
    libc.pthread_mutex_unlock(ctypes.c_void_p(stamps.mutex_address))
    t_in, now = read_stamp(net.hosts[1].recv(2000))
    assert t_in > 0
    assert held * 1e6 - 1000 <= now - t_in < PATIENCE_S * 1e6


def test_frames_larger_than_the_ring_allows_are_named(
    stack: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    net = Net(stack, range(1, 3))
    loop = stack.enter_context(PortLoop(net.names))
    loop.start(Wires({1: [2]}))
    for name in ("s1", "h1"):
        ip("link", "set", name, "mtu", "9000")
    net.hosts[1].send(frame(size=9014))
    net.hosts[1].send(frame(size=9014))
    net.hosts[1].send(frame())
    assert net.hosts[2].recv(2000) == frame()
    loop.stop()
    assert loop.counters().ports[1].rx_oversize == 2
    (record,) = caplog.records
    assert says(record.getMessage(), "port 1", "s1", 9014)


def test_jumbo_frames_cross_if_the_mtu_allows_9000_bytes(stack: ExitStack) -> None:
    net = Net(stack, range(1, 3), mtu=9000)
    loop = stack.enter_context(PortLoop(net.names))
    loop.start(Wires({1: [2], 2: [1]}))
    for size in (60, 9014):
        net.hosts[1].send(frame(size=size))
        assert net.hosts[2].recv(10_000) == frame(size=size)
    ip("link", "set", "s2", "mtu", "1500")
    net.hosts[1].send(frame(size=9014))
    wait_for(lambda: loop.counters().ports[2].tx_oversize == 1)


def test_a_dead_port_stalls_no_other_port_and_comes_back(stack: ExitStack) -> None:
    net = Net(stack, range(1, 4))
    loop = stack.enter_context(PortLoop(net.names))
    loop.start(Wires({1: [3, 2]}))
    ip("link", "set", "s3", "down")
    for number in range(100):
        net.hosts[1].send(frame(number))
        assert net.hosts[2].recv(2000) == frame(number)
    wait_for(lambda: loop.counters().ports[3].tx_dropped == 100)
    before = time.process_time()
    net.hosts[2].settimeout(0.2)
    with pytest.raises(TimeoutError):
        net.hosts[2].recv(2000)
    assert time.process_time() - before < 0.05  # the dead port's error does not keep the loop awake
    ip("link", "set", "s3", "up")
    net.hosts[1].send(frame(100))
    assert net.hosts[3].recv(2000) == frame(100)


def test_a_port_whose_interface_is_deleted_stalls_no_other_port(stack: ExitStack) -> None:
    net = Net(stack, range(1, 4))
    loop = stack.enter_context(PortLoop(net.names))
    loop.start(Wires({1: [3, 2]}))
    ip("link", "del", "s3")
    for number in range(100):
        net.hosts[1].send(frame(number))
        assert net.hosts[2].recv(2000) == frame(number)
    wait_for(lambda: loop.counters().ports[3].tx_dropped == 100)


def test_a_slow_port_drops_frames_and_stalls_no_other_port(stack: ExitStack) -> None:
    net = Net(stack, range(1, 4))
    shaping = "root tbf rate 8kbit burst 2000 limit 10000000"
    subprocess.run(["tc", "qdisc", "add", "dev", "s3", *shaping.split()], check=True)
    loop = stack.enter_context(PortLoop(net.names))
    loop.start(Wires({1: [3, 2]}))
    for number in range(1000):
        net.hosts[1].send(frame(number, 1000))
        assert net.hosts[2].recv(2000) == frame(number, 1000)
    wait_for(lambda: loop.counters().ports[3].tx_dropped > 500)


def test_a_ring_without_a_pipeline_overflows_and_is_discarded(stack: ExitStack) -> None:
    net = Net(stack, range(1, 3))
    loop = stack.enter_context(PortLoop(net.names))
    arrived = stack.enter_context(Arrived("s1"))
    for number in range(6000):
        net.hosts[1].send(frame(number))
        if number % 100 == 99:  # fewer than the kernel's backlog has room for
            wait_for(partial(arrived.has_had, number + 1))
    loop.start(Wires({1: [2]}))
    net.hosts[1].send(frame(6000))
    assert net.hosts[2].recv(2000) == frame(6000)
    assert loop.counters().ports[1].rx_dropped == 6000


def test_impairments_work_in_both_directions(stack: ExitStack) -> None:
    net = Net(stack, range(1, 3))
    count = 1000
    how = {
        (1, Direction.IN): Impairment(loss=0.05, duplicate=0.05, reorder=0.1),
        (2, Direction.OUT): Impairment(loss=0.05, duplicate=0.05, reorder=0.1),
    }
    loop = stack.enter_context(PortLoop(net.names, PortOptions(impairments=how)))
    loop.start(Wires({1: [2]}))
    for number in range(count):
        net.hosts[1].send(frame(number))

    def settled() -> bool:
        counters = loop.counters().ports
        lost = counters[1].lost + counters[2].lost
        duplicated = counters[1].duplicated + counters[2].duplicated
        return counters[1].rx == count and counters[2].tx == count - lost + duplicated

    wait_for(settled)
    received = [
        int.from_bytes(net.hosts[2].recv(2000)[14:18], "big") for _ in range(loop.counters().ports[2].tx)
    ]
    assert 0 < count - len(set(received)) < 0.2 * count
    assert len(received) > len(set(received))
    assert received != sorted(received)


def test_each_of_64_ports_reaches_every_other_port(stack: ExitStack) -> None:
    ports = range(1, 65)
    net = Net(stack, ports)
    loop = stack.enter_context(PortLoop(net.names, PortOptions(CPU)))
    loop.cpu_socket.settimeout(PATIENCE_S)
    loop.start(Addressed())
    everywhere = [*ports, CPU]
    for source, host in net.hosts.items():
        for destination in everywhere:
            host.send(addressed(destination, source))
        for destination in everywhere:
            out = loop.cpu_socket if destination == CPU else net.hosts[destination]
            assert out.recv(2000) == addressed(destination, source)
    loop.stop()
    counters = loop.counters().ports
    assert {(counters[port].rx, counters[port].tx) for port in ports} == {(65, 64)}
    assert (counters[CPU].rx, counters[CPU].tx) == (0, 64)


@pytest.mark.soak
def test_64_idle_ports_cost_next_to_nothing(stack: ExitStack) -> None:
    net = Net(stack, range(1, 65))
    loop = stack.enter_context(PortLoop(net.names, PortOptions(CPU)))
    loop.start(Wires({1: [64]}))
    net.hosts[1].send(frame())
    assert net.hosts[64].recv(2000) == frame()
    before = time.process_time()
    net.hosts[64].settimeout(0.2)
    with pytest.raises(TimeoutError):
        net.hosts[64].recv(2000)
    assert time.process_time() - before < 0.05


def test_a_port_without_rights_is_named(stack: ExitStack) -> None:
    Net(stack, range(1, 2))
    os.seteuid(65534)
    try:
        with pytest.raises(PortError, match=mentions("port 1", "s1", "CAP_NET_RAW")):
            PortLoop({1: "s1"})
    finally:
        os.seteuid(0)
