"""The bench's generator on real veths: through both loops without P4, a switch, and none."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest

from softswitch.kernel.probe import probe
from switch_bench import plain
from switch_bench.baseline import C_LOOP, PORT_LOOP
from switch_bench.errors import BenchError
from switch_bench.measure import ThroughputTest
from switch_bench.network import switch_interface
from switch_bench.processes import choose_cores
from switch_bench.scale import QUICK
from switch_bench.stage import Stage
from switch_bench.switches import KERNEL, SOFTSWITCH
from switch_bench.traffic import Generator
from switch_harness.wording import mentions

pytestmark = pytest.mark.netns

PORTS, FRAMES, RATE = 3, 200, 2_000.0
WORKLOAD = plain.l3(PORTS)


@pytest.fixture(scope="module")
def stage() -> Stage:
    return Stage(choose_cores(), QUICK, random.Random(1), lambda _: None)


@pytest.fixture
def generator(stage: Stage) -> Iterator[Generator]:
    with stage.traffic(PORTS) as generator:
        generator.load(WORKLOAD)
        yield generator


@pytest.mark.parametrize("target", [C_LOOP, PORT_LOOP, SOFTSWITCH, KERNEL])
def test_every_frame_comes_out_of_its_port(stage: Stage, generator: Generator, target: str) -> None:
    if target == KERNEL and (unable := probe()) is not None:
        pytest.skip(f"the kernel cannot be the datapath: {unable}")
    with stage.target(target, PORTS, plain.l3_setup(PORTS), WORKLOAD):
        trial = generator.run(FRAMES, RATE)
    assert (trial.sent, trial.received, trial.misrouted) == (FRAMES, FRAMES, 0)


def test_frames_of_earlier_runs_are_dropped_before_the_next(generator: Generator) -> None:
    """The test sends for an overloaded switch."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind((switch_interface(2), 0))
        for _ in range(FRAMES):
            sender.send(bytes(100))
        generator.drain(0.05)
    assert generator._traffic["sinks"]["head"][1] >= FRAMES


def test_a_switch_that_forwards_nothing_is_an_error(stage: Stage, generator: Generator) -> None:
    with pytest.raises(BenchError, match=mentions(WORKLOAD.name, "5,000/s")):
        ThroughputTest(generator, stage.scale, SOFTSWITCH).highest_loss_free_rate()
