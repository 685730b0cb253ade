"""The kernel as the datapath on real veths, in a network namespace of the test's own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from softswitch.errors import PortError
from softswitch.interpreter import InterpretedPipeline
from softswitch.kernel.hooks import Hook
from softswitch.kernel.pipeline import AttachedPipeline
from softswitch.kernel.ports import KernelPorts
from switch_harness import PROGRAMS
from switch_harness.constructs import CONSTRUCTS, compiled
from switch_harness.kernel_ports import cpu_interfaces, programs_at, received, running, send
from switch_harness.net import CPU, Net, frame
from switch_harness.waiting import PATIENCE_S, wait_for
from switch_harness.wording import says, says_in_one_line

pytestmark = [pytest.mark.netns, pytest.mark.usefixtures("kernel_datapath")]
PROJECT = Path(__file__).parents[2]
PROGRAM = PROGRAMS / "l2.json"


def test_clones_multicast_and_recirculation_in_the_kernel_equal_the_interpreter(stack: ExitStack) -> None:
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


def test_a_driver_without_xdp_is_refused_with_a_hint_to_the_generic_hook(stack: ExitStack) -> None:
    subprocess.run(["ip", "link", "add", "s1", "type", "bridge"], check=True)
    message = (
        r"port 1 \(s1\): attach a BPF program to interface \d+: Operation not supported;"
        " if the driver does not support XDP, use --hook xdp-generic"
    )
    with pytest.raises(PortError, match=message):
        KernelPorts({1: "s1"}, hook=Hook.XDP)
    KernelPorts({1: "s1"}, hook=Hook.XDP_GENERIC).close()


@pytest.mark.parametrize("hook", Hook)
def test_each_port_counts_its_frames_and_their_time(stack: ExitStack, hook: Hook) -> None:
    """Frames between two programs are dropped and counted; CPU time is counted at the sender's port."""
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


def test_nothing_is_left_of_a_switch_that_is_killed(stack: ExitStack) -> None:
    net = Net(stack, range(1, 3))
    command = [sys.executable, "-m", "softswitch", str(PROGRAM), "-i", "1@s1", "-i", "2@s2"]
    command += ["--cpu-port", "255", "--grpc-server-addr", "127.0.0.1:0", "--datapath"]
    for datapath in ("kernel", "auto"):
        with subprocess.Popen([*command, datapath], cwd=PROJECT, stderr=subprocess.PIPE, text=True) as switch:
            assert switch.stderr is not None
            message = switch.stderr.readline()
            assert says_in_one_line(message, "softswitch", "kernel", "BPF", 2)
            if datapath == "kernel":  # which is killed: the offloads stay off
                ends = "h1 (other end of s1), h2 (other end of s2)"
                offloads = f"offloads turned off while the switch runs: tx of {ends}"
                assert switch.stderr.readline() == f"softswitch: {offloads}\n"
            assert says(switch.stderr.readline(), "softswitch", "ready", 2)
            assert [programs_at(name) for name in net.names.values()] == [1, 1]
            assert len(cpu_interfaces()) == 1
            switch.kill()
        wait_for(lambda: not any(map(programs_at, net.names.values())) and not cpu_interfaces())
