"""The kernel as the datapath on real veths, in a network namespace of the test's own."""

from __future__ import annotations

import ctypes
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from controller.tables import CPU_PORT as CPU
from foundation.protocol.header import LAYOUT, Header
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.kernel import bpf
from softswitch.kernel.hooks import Hook
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.kernel.ports import KernelPorts
from softswitch.kernel.probe import probe
from softswitch.ports.ring import PortError
from switch_harness import PROGRAMS
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.effort import steps
from switch_harness.net import Net, frame, namespace
from switch_harness.waiting import PATIENCE_S, wait_for
from tests.harness import testnet
from tests.harness.vectors import Source, hot_set

pytestmark = pytest.mark.mininet
ROOT = Path(__file__).parents[2]
PROGRAM = PROGRAMS / "l2.json"


@pytest.fixture(scope="module")
def unable() -> str | None:
    return probe()


@pytest.fixture
def stack(unable: str | None) -> Iterator[ExitStack]:
    if unable is not None:
        pytest.skip(f"the kernel cannot be the datapath: {unable}")
    with namespace(), ExitStack() as opened:
        yield opened


def running(
    stack: ExitStack, net: Net, program: Program, hook: Hook = Hook.TCX
) -> tuple[KernelPorts, AttachedPipeline]:
    pipeline = AttachedPipeline(program, hook=hook)
    stack.callback(pipeline.close)
    ports = stack.enter_context(KernelPorts(net.names, CPU, hook=hook))
    ports.cpu_socket.settimeout(PATIENCE_S)
    ports.start(pipeline)
    return ports, pipeline


def send(net: Net, ports: KernelPorts, port: int, frame: bytes) -> None:
    (ports.cpu_socket if port == CPU else net.hosts[port]).send(frame)


def received(net: Net, ports: KernelPorts, port: int) -> bytes:
    data: bytes = (ports.cpu_socket if port == CPU else net.hosts[port]).recv(10_000)
    return data


UDP = 14 + 20 + 8
BEFORE = struct.calcsize(LAYOUT.format[: 1 + Header._fields.index("residence")])
RESIDENCE = {UDP + BEFORE + shift + at for shift in (0, 2) for at in range(4)}
"""Bytes that tell time; a packet-in has two before its frame."""


def take_redirected(net: Net) -> None:
    """A veth's driver takes frames from XDP at its other end if that receives in batches."""
    for number in net.hosts:
        subprocess.run(["ethtool", "-K", f"h{number}", "gro", "on"], check=True, capture_output=True)


@pytest.mark.no_cover  # as in `switch_harness.effort.seeds`
@pytest.mark.parametrize(
    "hook", [pytest.param(hook, marks=[] if hook is Hook.TCX else pytest.mark.soak) for hook in Hook]
)
def test_our_program(stack: ExitStack, hook: Hook) -> None:
    """What leaves each port is what the interpreter gives, in order; only times differ."""
    net, random = Net(stack, range(1, 4)), Random(3)
    take_redirected(net)
    ports, pipeline = running(stack, net, testnet.program(), hook)
    oracle = InterpretedPipeline(testnet.program())
    for each in (oracle, pipeline):
        testnet.write(each, testnet.network() + hot_set(Random(5)))
    source = Source(random, oracle)
    sent = 0
    for now in range(steps(1500)):
        port, frame = source.draw()
        if len(frame) < 60:
            continue
        expected = oracle.process(port, frame, now, now)
        send(net, ports, port, frame)
        for output in expected:
            assert same(received(net, ports, output.port), output.frame)
            sent += 1
    assert sent > steps(1500) // 2
    assert testnet.state_of(pipeline) == testnet.state_of(oracle)
    counters = ports.counters()
    assert sum(each.tx for each in counters.ports.values()) == sent


def same(came: bytes, expected: bytes) -> bool:
    """Equal but for the residence."""
    return len(came) == len(expected) and differing(came, expected) <= RESIDENCE


def differing(came: bytes, expected: bytes) -> set[int]:
    return {at for at, pair in enumerate(zip(came, expected, strict=True)) if pair[0] != pair[1]}


def test_constructs_that_copy(stack: ExitStack) -> None:
    """Clones, multicast, truncation, resubmission and recirculation, with digests and logs beside them."""
    for name in ("replication", "resubmit_recirculate", "traffic", "digests_logs"):
        construct, program, random = CONSTRUCTS[name], compiled(name), Random(2)
        with ExitStack() as inner:
            net = Net(inner, range(1, 6))
            ports, pipeline = running(inner, net, program)
            ports.notice_socket.settimeout(PATIENCE_S)
            oracle = InterpretedPipeline(program)
            for each in (oracle, pipeline):
                construct.prepare(each)
                each.seed_random(7)
            for _ in range(300):
                port, frame = construct.frame(random)
                if port not in net.hosts or len(frame) < 14:
                    continue
                expected = oracle.process(port, frame, 0, 0)
                send(net, ports, port, frame)
                for output in expected:
                    if output.port in net.hosts and len(output.frame) >= 14:
                        assert received(net, ports, output.port) == output.frame, (name, frame.hex())
                for notice in oracle.take_notices():
                    assert pipeline.decode_notice(ports.notice_socket.recv(1 << 16)) == notice
        for number in net.names:
            subprocess.run(["ip", "link", "del", f"s{number}"], check=True)


def test_a_driver_without_xdp(stack: ExitStack) -> None:
    subprocess.run(["ip", "link", "add", "s1", "type", "bridge"], check=True)
    said = (
        r"port 1 \(s1\): attach a BPF program to interface \d+: Operation not supported;"
        " a driver may have no XDP: --hook xdp-generic does without"
    )
    with pytest.raises(PortError, match=said):
        KernelPorts({1: "s1"}, hook=Hook.XDP)
    KernelPorts({1: "s1"}, hook=Hook.XDP_GENERIC).close()


@pytest.mark.parametrize("hook", Hook)
def test_each_port_counts_its_frames_and_their_time(stack: ExitStack, hook: Hook) -> None:
    """What comes between two programs is dropped and counted, and the time is of who sent the frames."""
    net = Net(stack, range(1, 3))
    pipelines = [AttachedPipeline(compiled("lookups"), hook=hook) for _ in range(2)]
    for pipeline in pipelines:
        stack.callback(pipeline.close)
    ports = stack.enter_context(KernelPorts(net.names, CPU, hook=hook))
    sent = {1: 0, 2: 0}

    def send_some(port: int, number: int) -> None:
        for _ in range(number):
            net.hosts[port].send(frame())
        sent[port] += number

    def seen() -> bool:
        counters = ports.counters().ports
        return {port: counters[port].rx for port in sent} == sent

    send_some(1, 3)
    wait_for(seen)
    for pipeline, number in zip(pipelines, (200, 100), strict=True):
        ports.start(pipeline)
        send_some(1, number)
        wait_for(seen)
        ports.stop()
        send_some(2, 5)
        wait_for(seen)
    counters = ports.counters().ports
    assert {port: each.rx_dropped for port, each in counters.items()} == {1: 3, 2: 10, CPU: 0}
    assert counters[CPU].program_ns == 0
    # 300 runs of the program, 50 ns to 1 ms each; ten that found none.
    assert 15_000 < counters[1].program_ns < 300_000_000
    assert counters[2].program_ns < counters[1].program_ns


def programs_at(interface: str) -> int:
    """BPF programs at an interface's tcx ingress."""
    query = struct.pack("IIIIQI", socket.if_nametoindex(interface), 46, 0, 0, 0, 0)
    answer = ctypes.create_string_buffer(query, 160)
    bpf.call(16, answer, "ask for the programs of an interface")  # BPF_PROG_QUERY, of BPF_TCX_INGRESS
    count: int = struct.unpack_from("I", answer, 24)[0]
    return count


def cpu_interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex() if name.startswith("cpu")]


def test_nothing_is_left_of_a_switch_that_is_killed(stack: ExitStack) -> None:
    net = Net(stack, range(1, 3))
    command = [sys.executable, "-m", "softswitch", str(PROGRAM), "-i", "1@s1", "-i", "2@s2"]
    command += ["--cpu-port", "255", "--grpc-server-addr", "127.0.0.1:0", "--datapath"]
    for datapath in ("kernel", "auto"):
        with subprocess.Popen([*command, datapath], cwd=ROOT, stderr=subprocess.PIPE, text=True) as switch:
            assert switch.stderr is not None
            said = switch.stderr.readline()
            assert said == "softswitch: datapath kernel: BPF (tcx) at the ingress of 2 interfaces\n"
            assert switch.stderr.readline().startswith("softswitch: ready: 2 ports")
            assert [programs_at(name) for name in net.names.values()] == [1, 1]
            assert len(cpu_interfaces()) == 1
            switch.kill()
        wait_for(lambda: not any(map(programs_at, net.names.values())) and not cpu_interfaces())
