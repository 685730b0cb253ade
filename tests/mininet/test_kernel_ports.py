"""Hotline's program in the kernel on real veths, in a separate network namespace."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest

from foundation.protocol.header import LAYOUT, Header
from softswitch.interpreter import InterpretedPipeline
from softswitch.kernel.hooks import Hook
from switch_harness.effort import steps
from switch_harness.kernel_ports import received, running, send
from switch_harness.net import Net, namespace
from tests.harness import testnet
from tests.harness.vectors import Source, hot_set

pytestmark = pytest.mark.mininet

UDP_PAYLOAD = 14 + 20 + 8
RESIDENCE_OFFSET = struct.calcsize(LAYOUT.format[: 1 + Header._fields.index("residence")])
RESIDENCE = {UDP_PAYLOAD + RESIDENCE_OFFSET + shift + at for shift in (0, 2) for at in range(4)}
"""Offsets of the bytes of `residence`, which differ; a packet-in has two bytes before its frame."""


@pytest.fixture
def stack(kernel_datapath: None) -> Iterator[ExitStack]:
    with namespace(), ExitStack() as opened:
        yield opened


def enable_gro(net: Net) -> None:
    """Enable GRO, without which a veth drops frames that XDP redirects to its peer."""
    for number in net.hosts:
        subprocess.run(["ethtool", "-K", f"h{number}", "gro", "on"], check=True, capture_output=True)


@pytest.mark.no_cover  # as in `switch_harness.effort.seeds`
@pytest.mark.parametrize(
    "hook", [pytest.param(hook, marks=[] if hook is Hook.TCX else pytest.mark.soak) for hook in Hook]
)
def test_the_hotset_program_in_the_kernel_sends_the_frames_of_the_interpreter(
    stack: ExitStack, hook: Hook
) -> None:
    """Each port sends the frames that the interpreter sends, in order; only residence times differ."""
    net, random = Net(stack, range(1, 4)), Random(3)
    enable_gro(net)
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
            assert is_expected(received(net, ports, output.port), output.frame)
            sent += 1
    assert sent > steps(1500) // 2
    assert testnet.state_of(pipeline) == testnet.state_of(oracle)
    counters = ports.counters()
    assert sum(each.tx for each in counters.ports.values()) == sent


def is_expected(arrived: bytes, expected: bytes) -> bool:
    differing = {at for at, pair in enumerate(zip(arrived, expected, strict=False)) if pair[0] != pair[1]}
    return len(arrived) == len(expected) and differing <= RESIDENCE
