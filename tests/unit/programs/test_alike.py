"""Our aggregation program behaves alike interpreted, compiled and in the kernel, to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.protocol.header import LANES
from softswitch.conformance.direct import DirectPipeline
from softswitch.conformance.pairs import Pair
from softswitch.conformance.runner import Outcome, Verdict, run
from softswitch.conformance.targets import TARGETS
from softswitch.interpreter import InterpretedPipeline
from softswitch.kernel.hooks import Hook
from softswitch.pipeline import ControlPlane, Pipeline
from switch_harness.effort import examples, seeds, steps
from switch_harness.kernel import OnLoopback, is_taken
from switch_harness.replay import ObservedPair
from tests.harness import testnet
from tests.harness.vectors import PAIRS, WITHOUT_PROGRAM, Source, hot_set

in_the_kernel = pytest.mark.usefixtures("kernel_datapath")


def compare(random: Random, oracle: Pipeline, fast: Pipeline, frames: int, lanes: int = LANES) -> None:
    """Send the same frames through both, with a fifth as many table writes in between."""
    entries = testnet.network() + hot_set(random, lanes=lanes)
    for pipeline in (oracle, fast):
        testnet.write(pipeline, entries)
    source = Source(random, oracle, lanes)
    for now in range(frames):
        port, frame = source.draw()
        assert fast.process(port, frame, now, now + 3) == oracle.process(port, frame, now, now + 3)
        if random.random() < 0.2:
            move = source.move()
            ours, reference = fast.tables.write([move]), oracle.tables.write([move])
            assert [type(error) for error in ours] == [type(error) for error in reference]
    assert testnet.state_of(fast) == testnet.state_of(oracle)


# -- compiled


def compare_compiled(random: Random, frames: int) -> None:
    compare(random, InterpretedPipeline(testnet.program()), testnet.new_switch(), frames)


@pytest.mark.parametrize("seed", seeds(10))
def test_the_compiled_program_equals_the_interpreter_on_random_traffic(seed: int) -> None:
    """Volume: 10 table states, 200 frames each; tests/bmv2 sends such vectors to BMv2 too."""
    compare_compiled(Random(seed), 200)


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_the_compiled_program_equals_the_interpreter_on_generated_traffic(random: Random) -> None:
    """Search: hypothesis chooses every draw, and shrinks to the shortest disagreement."""
    compare_compiled(random, 6)


# -- in the kernel


def compare_in_the_kernel(random: Random, lanes: int) -> None:
    """Compare 2,000 frames a table state in `make soak`."""
    program = testnet.program(lanes)
    with closing(DirectPipeline(program)) as fast:
        compare(random, InterpretedPipeline(program), fast, steps(2000), lanes)
        assert any(sum(testnet.lane_stats(fast, lane)) for lane in range(lanes // 2, lanes))


@in_the_kernel
@pytest.mark.parametrize("seed", seeds(10))
def test_the_program_in_the_kernel_equals_the_interpreter(seed: int) -> None:
    compare_in_the_kernel(Random(seed), LANES)


@in_the_kernel
@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(2))
def test_the_program_with_64_lanes_in_the_kernel_equals_the_interpreter(seed: int) -> None:
    compare_in_the_kernel(Random(seed), 64)


@pytest.fixture(params=[Hook.TCX, Hook.XDP])
def on_loopback(request: pytest.FixtureRequest) -> Iterator[OnLoopback]:
    with closing(OnLoopback(testnet.program(), request.param)) as pipeline:
        yield pipeline


@in_the_kernel
@pytest.mark.parametrize("seed", seeds(4))
def test_the_program_in_the_kernel_equals_the_interpreter_on_the_kernels_frames(
    seed: int, on_loopback: OnLoopback
) -> None:
    """Use test runs of the program that is attached to interfaces, with frames of all lengths."""
    random, oracle = Random(seed), InterpretedPipeline(testnet.program())
    for pipeline in (oracle, on_loopback):
        testnet.write(pipeline, testnet.network() + hot_set(Random(seed)))
    source, sent = Source(random, oracle), 0
    for now in range(steps(1000)):
        port, frame = source.draw()
        if is_taken(frame):
            received = oracle.process(port, frame, now, now + 3)
            assert on_loopback.process(port, frame, now, now + 3) == received
            sent += len(received)
    assert sent > steps(1000) // 2
    assert testnet.state_of(on_loopback) == testnet.state_of(oracle)


# -- vectors


@pytest.mark.parametrize("target", ["interpreter", "compiled"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.vectors.stem)
def test_the_programs_vectors_pass_interpreted_and_compiled(target: str, pair: Pair) -> None:
    assert run(TARGETS[target], *pair) == Verdict(*pair, Outcome.PASS)


@in_the_kernel
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.vectors.stem)
def test_the_programs_vectors_pass_in_the_kernel(pair: Pair) -> None:
    assert run(TARGETS["kernel"], *pair) == Verdict(*pair, Outcome.PASS)


def test_all_vectors_have_a_program() -> None:
    assert PAIRS
    assert WITHOUT_PROGRAM == []


# -- explained


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_a_trace_reports_all_and_changes_nothing(random: Random) -> None:
    entries = [*testnet.network(), *hot_set(random)]

    def prepare(pipeline: ControlPlane) -> None:
        testnet.write(pipeline, entries)

    pair = ObservedPair(testnet.program(), prepare)
    source = Source(random, pair.observed)
    for now in range(3):
        pair.process(*source.draw(), now)
    pair.check_state()
