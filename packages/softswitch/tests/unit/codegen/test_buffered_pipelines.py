"""Pipelines with queues between ingress and egress: machine code agrees with the interpreter.

Packets may be delayed or dropped in the queue. If none is, both agree with a pipeline without queues.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.jit import MachineCode
from softswitch.limits import MAX_PASSES
from softswitch.pipeline import Output, PassResult, QueueDepths, Replica, WaitingPacket
from switch_harness import constructs, ecn
from switch_harness.constructs import Construct, compiled
from switch_harness.effort import examples
from switch_harness.state import cells

CONSTRUCTS = {**constructs.CONSTRUCTS, "ecn": ecn.CONSTRUCT}
PRIORITIES = 4
MAX_WAITING = 60
"""Maximum number of waiting packets, as recirculation multiplies them; further ones are dropped."""
GO_ROUND = {"resubmit_recirculate", "traffic"}


@cache
def machine_code(name: str) -> MachineCode:
    return MachineCode(compiled(name), PRIORITIES, buffered=True)


def pair(construct: Construct) -> tuple[InterpretedPipeline, CompiledPipeline]:
    """The oracle and the machine code, with the same state."""
    program = compiled(construct.name)
    made = InterpretedPipeline(program, PRIORITIES), CompiledPipeline(program, machine_code(construct.name))
    for pipeline in made:
        construct.prepare(pipeline)
        pipeline.seed_random(7)
    return made


def reported(waiting: WaitingPacket) -> tuple[int, int, int]:
    return waiting.port, waiting.priority, waiting.length


class Both:
    """Both pipelines, which get the same packets and must agree, with their waiting packets."""

    last = 0
    """Number of waiting packets that the last packet caused."""

    def __init__(self, construct: Construct) -> None:
        self.oracle, self.fast = pair(construct)
        self.waiting: list[tuple[WaitingPacket, WaitingPacket]] = []

    def enter(self, *arguments: Any) -> None:
        self._agree(self.oracle.enter(*arguments), self.fast.enter(*arguments))

    def leave(self, place: int, depths: QueueDepths, now: int) -> None:
        ours, reference = self.waiting.pop(place)
        self._agree(self.oracle.leave(ours, depths, now), self.fast.leave(reference, depths, now))

    def _agree(self, expected: PassResult, passed: PassResult) -> None:
        assert passed.outputs == expected.outputs
        assert list(map(reported, passed.waiting)) == list(map(reported, expected.waiting))
        assert self.fast.take_notices() == self.oracle.take_notices()
        self.last = len(passed.waiting)
        self.waiting += zip(expected.waiting, passed.waiting, strict=True)
        del self.waiting[MAX_WAITING:]


@pytest.mark.parametrize("name", CONSTRUCTS)
@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False), steps=st.integers(1, 80))
def test_interpreter_and_machine_code_agree_on_packets_that_wait_in_queues(
    name: str, random: Random, steps: int
) -> None:
    both, now = Both(CONSTRUCTS[name]), random.choice([1, (1 << 32) - 5_000])
    for _ in range(steps):
        now += random.choice([0, 1, 10, 1_000, 100_000])
        if both.waiting and random.random() < 0.6:
            depths = QueueDepths(random.choice([0, 1, 63, (1 << 19) + 2]), random.randrange(64))
            both.leave(random.randrange(len(both.waiting)), depths, now)
        else:
            both.enter(*CONSTRUCTS[name].frame(random), now, now + 3)
    assert cells(both.oracle) == cells(both.fast)


def test_the_programs_cover_copies_priorities_and_second_waits_between_the_passes() -> None:
    """Copies, priorities and packets that wait a second time are among what the test above draws."""
    seen = set()
    for name in ("replication", "traffic"):
        both, random = Both(CONSTRUCTS[name]), Random(3)
        for _ in range(300):
            both.enter(*CONSTRUCTS[name].frame(random), 0, 3)
            seen |= {"many"} if len(both.waiting) > 1 else set()
            while both.waiting:
                seen |= {"priority"} if both.waiting[0][0].priority else set()
                before = len(both.waiting)
                both.leave(0, QueueDepths(), 4)
                seen |= {"again"} if len(both.waiting) >= before else set()
    assert seen == {"many", "priority", "again"}


def test_packets_waiting_after_one_frame_are_bounded_by_its_maximum_of_passes() -> None:
    both = Both(CONSTRUCTS["replication"])
    for pipeline in (both.oracle, both.fast):
        pipeline.replication.write_multicast_group(
            1, [Replica(1, instance) for instance in range(MAX_PASSES + 9)]
        )
        pipeline.replication.write_clone_session(
            2, [Replica(1, instance) for instance in range(MAX_PASSES + 9)]
        )
    both.enter(1, bytes([2, 1, 0, 1]) + bytes(12), 0, 0)  # to group 1
    assert both.last == MAX_PASSES - 1
    both.waiting.clear()
    both.enter(1, bytes([8, 1, 0, 0, 0, 1]) + bytes(10), 0, 0)  # egress clones it to session 2
    both.leave(0, QueueDepths(), 0)
    assert both.last == MAX_PASSES - 1


def test_a_packet_sees_its_queueing_metadata() -> None:
    for pipeline in pair(ecn.CONSTRUCT):
        passed = pipeline.enter(1, ecn.frame(7, priority=3, body=100), 1_000, 1_010)
        assert passed.outputs == []
        [waiting] = passed.waiting
        assert reported(waiting) == (2, 3, len(ecn.frame(7, body=100)))
        [output], again = pipeline.leave(waiting, QueueDepths(enq=5, deq=2), 1_500)
        assert (output.port, again) == (2, [])
        assert ecn.read(output.frame) == ecn.Probe(7, 1_010, 5, 490, 2, 1_500)


def by_port(outputs: list[Output]) -> dict[int, list[bytes]]:
    return {port: [out.frame for out in outputs if out.port == port] for port, _ in outputs}


@pytest.mark.parametrize("name", sorted(CONSTRUCTS.keys() - GO_ROUND))
def test_empty_queues_make_no_difference(name: str) -> None:
    """Programs that recirculate are left out: with queues, egress waits until ingress has seen all copies."""
    construct, program = CONSTRUCTS[name], compiled(name)
    plain, random = CompiledPipeline(program, priority_queues=PRIORITIES), Random(5)
    _, buffered = pair(construct)
    construct.prepare(plain)
    plain.seed_random(7)
    for now in range(0, 90_000, 300):
        port, frame = construct.frame(random)
        expected = plain.process(port, frame, now, now + 3)
        assert by_port(buffered.process(port, frame, now, now + 3)) == by_port(expected)
        assert sorted(buffered.take_notices(), key=repr) == sorted(plain.take_notices(), key=repr)
    assert cells(plain) == cells(buffered)


@pytest.mark.parametrize("name", ["arithmetic", "traffic"])
def test_a_packet_function_without_queues_hands_over_no_waiting_packet(name: str) -> None:
    """Its code has no part for queues."""
    code = MachineCode(compiled(name), PRIORITIES)
    assert code.queue_record_bytes == 0 < machine_code(name).queue_record_bytes
    pipeline = CompiledPipeline(compiled(name), code)
    CONSTRUCTS[name].prepare(pipeline)
    random = Random(1)
    for now in range(100):
        assert pipeline.enter(*CONSTRUCTS[name].frame(random), now, now).waiting == []
