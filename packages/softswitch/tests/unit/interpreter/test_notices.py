"""The interpreter's notices to the control plane: digests, log lines, failed assertions; random numbers."""

from __future__ import annotations

import pytest

from softswitch.interpreter import InterpretedPipeline
from softswitch.messages import format_message
from softswitch.pipeline import DigestMessage, LogRecord, Replica
from switch_harness.constructs import compiled
from switch_harness.wording import says

PROGRAM = compiled("digests_logs")
LEARN, ALARM, LOG, RANDOM, ASSERT, ASSUME, RESUBMIT, CLONE = (1 << bit for bit in range(8))
ADDRESS = 0x020000000105
LEARNED, ALARMED = (next(i for i, d in enumerate(PROGRAM.digests) if len(d.values) == n) for n in (3, 1))


@pytest.fixture
def pipeline() -> InterpretedPipeline:
    pipeline = InterpretedPipeline(PROGRAM)
    pipeline.replication.write_clone_session(1, [Replica(4)])
    return pipeline


def send(
    pipeline: InterpretedPipeline, op: int, signed: int = 1, low: int = 0, high: int = 9
) -> list[tuple[int, int]]:
    """Return (port, drawn) of each output."""
    head = bytes([op, signed % 256]) + low.to_bytes(2, "big") + high.to_bytes(2, "big")
    outputs = pipeline.process(3, head + bytes(2) + ADDRESS.to_bytes(6, "big"), 0, 0)
    return [(output.port, int.from_bytes(output.frame[6:8], "big")) for output in outputs]


def test_a_digest_has_bit_patterns_and_replaces_an_earlier_digest(pipeline: InterpretedPipeline) -> None:
    send(pipeline, LEARN, signed=-2)
    send(pipeline, LEARN | ALARM)
    assert pipeline.take_notices() == [
        DigestMessage(LEARNED, (ADDRESS, 3, 254)),
        DigestMessage(ALARMED, ((LEARN | ALARM) ^ 1,)),
    ]
    assert pipeline.take_notices() == []


def test_a_resubmitted_packet_has_a_digest_in_each_pass(pipeline: InterpretedPipeline) -> None:
    assert send(pipeline, ALARM | RESUBMIT) == [(1, 0)]
    op = ALARM | RESUBMIT
    assert pipeline.take_notices() == [DigestMessage(ALARMED, (op ^ 1,)), DigestMessage(ALARMED, (op ^ 2,))]


def test_log_messages_have_the_values_of_their_fields(pipeline: InterpretedPipeline) -> None:
    send(pipeline, LOG, signed=-7)
    assert pipeline.take_notices() == [
        LogRecord(f"op {LOG} of {ADDRESS}, signed -7"),
        LogRecord("no values"),
    ]


@pytest.mark.parametrize(
    ("message", "values", "text"),
    [
        ("a {} b {}", [1, -2], "a 1 b -2"),
        ("a {name} b", [3], "a 3 b"),
        (r"\{\} and {}", [4], "{} and 4"),
        ("{} at the start", [5], "5 at the start"),
        ("{} {}", [6], "6 {}"),
    ],
)
def test_placeholders_in_log_messages_are_replaced_by_values(
    message: str, values: list[int], text: str
) -> None:
    assert format_message(message, values) == text


def test_a_failed_assertion_drops_the_packet(pipeline: InterpretedPipeline) -> None:
    assert send(pipeline, ASSERT | ASSUME) == [(1, 0)]
    assert send(pipeline, ASSERT, low=5, high=4) == []
    assert send(pipeline, ASSUME, signed=-1) == []
    records = [notice for notice in pipeline.take_notices() if isinstance(notice, LogRecord)]
    texts = [record.text for record in records]
    assert [text.split()[0] for text in texts] == ["assert", "assume"]
    assert all(record.failed for record in records)
    assert all(".p4:" in text and says(text, "dropped", "packet") for text in texts)


def test_a_failed_assertion_cancels_the_packets_digests_and_clones(pipeline: InterpretedPipeline) -> None:
    assert send(pipeline, LEARN | CLONE | ASSERT, low=5, high=4) == []
    [notice] = pipeline.take_notices()
    assert isinstance(notice, LogRecord)


def test_a_failed_assertion_of_a_clone_does_not_drop_the_original(pipeline: InterpretedPipeline) -> None:
    assert send(pipeline, CLONE, signed=1) == [(4, 0), (1, 0)]
    assert send(pipeline, CLONE, signed=-1) == [(1, 0)]


def test_random_is_a_sequence_from_its_seed(pipeline: InterpretedPipeline) -> None:
    def draws() -> list[int]:
        return [send(pipeline, RANDOM, low=10, high=29)[0][1] for _ in range(200)]

    first = draws()
    assert set(first) == set(range(10, 30))
    assert draws() != first
    pipeline.seed_random(0)
    assert draws() == first
    pipeline.seed_random(1)
    assert draws() != first
    # splitmix64's first output for seed 0 is 0xe220a8397b1dcdaf
    pipeline.seed_random(0)
    assert send(pipeline, RANDOM, low=0, high=0xFFFF) == [(1, 0xE220)]


def test_an_empty_range_consumes_no_random_number(pipeline: InterpretedPipeline) -> None:
    assert send(pipeline, RANDOM, low=7, high=6) == [(1, 0)]
    assert send(pipeline, RANDOM, low=0, high=0xFFFF) == [(1, 0xE220)]
    assert send(pipeline, RANDOM, low=7, high=7) == [(1, 7)]
