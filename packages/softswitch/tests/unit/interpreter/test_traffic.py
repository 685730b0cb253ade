"""The interpreter's traffic manager: clones, multicast, truncation, resubmit, recirculate, their bounds."""

from __future__ import annotations

from typing import Any

import pytest

from softswitch.interpreter import InterpretedPipeline
from softswitch.interpreter.statements import execute
from softswitch.limits import MAX_PASSES
from softswitch.pipeline import CounterValue, Output, Replica
from switch_harness.constructs import compiled, replicate

REPLICATION, ROUNDS = compiled("replication"), compiled("resubmit_recirculate")

I2E, MULTICAST, CUT, E2E, CUT_LATE, DROP_LATE, ADD, PRIORITY = (1 << bit for bit in range(8))
DROPPED = 255
PROBE_BYTES = 16


@pytest.fixture
def replication() -> InterpretedPipeline:
    pipeline = InterpretedPipeline(REPLICATION)
    replicate(pipeline)
    return pipeline


def test_a_statement_without_an_implementation_is_an_error() -> None:
    """Rather than one without effect."""
    nothing: Any = "unheard of"
    with pytest.raises(AssertionError, match="unheard of"):
        execute(nothing, nothing, nothing)


def probe(op: int, port: int = 1, group: int = 1, session: int = 1, cut: int = 20) -> bytes:
    numbers = b"".join(value.to_bytes(2, "big") for value in (group, session, cut))
    return bytes([op, port]) + numbers + bytes(8)


def reported(output: Output) -> tuple[int, int, int, int, int, int, int]:
    """Return (port, instance, rid, packet length, stored, lost, ingress port) as egress saw them."""
    instance, rid, high, low, stored, lost, source = output.frame[8:15]
    return output.port, instance, rid, high << 8 | low, stored, lost, source


def send(pipeline: InterpretedPipeline, op: int, body: bytes = b"body", **fields: int) -> list[Output]:
    return pipeline.process(7 if len(body) == 8 else 2, probe(op, **fields) + body, 0, 0)


def test_a_unicast_packet_keeps_its_metadata(replication: InterpretedPipeline) -> None:
    [output] = send(replication, 0, port=3)
    assert reported(output) == (3, 0, 0, 20, 0x5A, 0x77 + 3, 2)


def test_a_clone_from_ingress_is_the_received_packet_with_the_listed_fields(
    replication: InterpretedPipeline,
) -> None:
    clone, packet = send(replication, I2E | ADD)
    assert reported(clone) == (4, 1, 0, 20, (I2E | ADD) ^ 0x5A, 0, 0)
    assert reported(packet)[:4] == (1, 0, 0, 24)
    assert clone.frame[PROBE_BYTES:] == b"body"
    assert packet.frame[PROBE_BYTES:] == b"\xde\xad\xbe\xefbody"
    clone, _ = send(replication, I2E, cut=21)
    assert reported(clone)[5] == 1  # the other list has `also` too
    assert reported(clone)[6] == 0


def test_a_clone_from_ingress_is_parsed_with_its_ingress_port(replication: InterpretedPipeline) -> None:
    clone, packet = send(replication, I2E, b"\1\2\3\4rest")
    assert clone.frame[PROBE_BYTES:] == packet.frame[PROBE_BYTES:] == b"\1\2\3\4rest"


def test_a_packet_that_is_dropped_is_cloned(replication: InterpretedPipeline) -> None:
    assert [output.port for output in send(replication, I2E, port=DROPPED)] == [4]
    assert [output.port for output in send(replication, E2E | DROP_LATE)] == [5]
    assert send(replication, DROP_LATE) == []


def test_a_session_makes_a_copy_for_each_replica(replication: InterpretedPipeline) -> None:
    outputs = send(replication, I2E, session=3, port=DROPPED)
    assert [reported(output)[:3] for output in outputs] == [(4, 1, 7), (5, 1, 8)]


@pytest.mark.parametrize("session", [9, 0])
def test_an_unknown_session_makes_no_copies(replication: InterpretedPipeline, session: int) -> None:
    assert send(replication, I2E, session=session, port=DROPPED) == []


def test_a_session_is_removed_by_no_replicas(replication: InterpretedPipeline) -> None:
    replication.replication.write_clone_session(1, [])
    assert send(replication, I2E, port=DROPPED) == []


def test_a_clone_from_egress_has_the_headers_of_egress(replication: InterpretedPipeline) -> None:
    packet, clone = send(replication, E2E | ADD)
    assert reported(clone) == (5, 0x02, 0, 24, (((E2E | ADD) ^ 0x5A) + 1) & 255, 0, 0)
    assert clone.frame[PROBE_BYTES:] == packet.frame[PROBE_BYTES:] == b"\xde\xad\xbe\xefbody"
    assert packet.frame[15] == 1
    assert clone.frame[15] == 2  # went through egress twice


def test_multicast_takes_the_place_of_the_unicast_copy(replication: InterpretedPipeline) -> None:
    outputs = send(replication, MULTICAST)
    assert [reported(output)[:4] for output in outputs] == [(n, 5, n, 20) for n in (1, 2, 3)]
    assert send(replication, MULTICAST, group=9) == []
    replication.replication.write_multicast_group(1, [])
    assert send(replication, MULTICAST) == []


def test_multicast_and_clones_come_in_order(replication: InterpretedPipeline) -> None:
    outputs = send(replication, I2E | MULTICAST | E2E)
    assert [reported(output)[:2] for output in outputs] == [
        (4, 1), (1, 5), (2, 5), (3, 5), (5, 0x52), (5, 0x52), (5, 0x52),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "sizes"),
    [
        (CUT, [17]),
        (CUT | CUT_LATE, [10]),
        (CUT | MULTICAST, [20, 20, 20]),
        (CUT | I2E, [20, 17]),
        (CUT | E2E, [17, 20]),
        (CUT_LATE | MULTICAST, [10, 10, 10]),
        (CUT | ADD, [17]),
    ],
)
def test_truncation_ends_where_a_copy_is_made(
    replication: InterpretedPipeline, op: int, sizes: list[int]
) -> None:
    assert [len(output.frame) for output in send(replication, op, cut=17)] == sizes


def test_a_session_may_cut_its_copies(replication: InterpretedPipeline) -> None:
    replication.replication.write_clone_session(1, [Replica(4), Replica(5)], 18)
    assert [len(o.frame) for o in send(replication, I2E, port=DROPPED)] == [18, 18]
    assert [len(o.frame) for o in send(replication, I2E | CUT_LATE, port=DROPPED)] == [10, 10]


def test_a_packet_with_a_priority_without_a_queue_is_dropped_and_its_clone_is_sent(
    replication: InterpretedPipeline,
) -> None:
    assert [output.port for output in send(replication, PRIORITY | I2E)] == [4]


def test_counters_count_the_length_of_the_received_packet(replication: InterpretedPipeline) -> None:
    send(replication, ADD | I2E)
    assert replication.cells.read_counter("Send.arrived", 0, 2) == [(0, 0), (1, 20)]
    assert replication.cells.read_counter("Leave.left", 0, 2) == [(1, 20), (1, 20)]


# -- going round

CLONE, COPIES, ADD_LAP, DROP_LAP = (1 << bit for bit in range(4))


@pytest.fixture
def rounds() -> InterpretedPipeline:
    pipeline = InterpretedPipeline(ROUNDS)
    replicate(pipeline)
    return pipeline


def turn(
    pipeline: InterpretedPipeline, op: int, resubmits: int, laps: int, tail: bytes = b""
) -> list[Output]:
    return pipeline.process(7, bytes([op, resubmits << 4 | laps, 2]) + bytes(6) + tail, 0, 0)


def seen(output: Output) -> tuple[int, int, int, int, int, int]:
    """Return (port, laps left, instance, packet length, trace, ingress port) at the end."""
    at = 2 * (output.frame[0] >= 0xF0)
    _, laps, _, instance, high, low, trace, mark, source = output.frame[at : at + 9]
    return output.port, laps & 15, instance, high << 8 | low, trace << 8 | mark, source


def test_a_resubmitted_packet_starts_as_received_with_the_listed_fields(rounds: InterpretedPipeline) -> None:
    [output] = turn(rounds, 0, 2, 0, b"abc")
    assert seen(output) == (2, 0, 0, 12, 0, 0)
    cells = rounds.cells.read_counter("Send.passes", 0, 8)
    assert cells[0] == (1, 12)
    assert cells[6] == (2, 24)


def test_a_recirculated_packet_starts_as_sent_and_is_not_truncated(rounds: InterpretedPipeline) -> None:
    [output] = turn(rounds, ADD_LAP, 0, 2, b"abc")
    assert seen(output) == (2, 0, 0, 14, 0x000, 0)
    assert output.frame[:2] == b"\xf2\x02"
    assert output.frame[-3:] == b"abc"
    assert rounds.cells.read_counter("Send.passes", 0, 5)[4] == CounterValue(2, 28)
    assert rounds.cells.read_register("Leave.lengths", 0, 1) == [14]


def test_a_dropped_packet_is_not_recirculated(rounds: InterpretedPipeline) -> None:
    assert turn(rounds, DROP_LAP, 0, 1) == []


def test_each_pass_is_cloned_and_each_copy_is_recirculated(rounds: InterpretedPipeline) -> None:
    outputs = turn(rounds, CLONE, 1, 0)
    assert [seen(output)[:3] for output in outputs] == [(4, 0, 1), (4, 0, 1), (2, 0, 0)]
    outputs = turn(rounds, COPIES, 0, 1)
    assert [output.port for output in outputs] == [1, 2, 3] * 3
    assert {seen(output)[4] for output in outputs} == {0x55}


def test_endless_recirculation_is_bounded(replication: InterpretedPipeline) -> None:
    replication.replication.write_multicast_group(1, [Replica(1, n) for n in range(2 * MAX_PASSES)])
    outputs = send(replication, MULTICAST)
    assert len(outputs) == MAX_PASSES - 1
    assert len(send(replication, 0)) == 1  # nothing is left over
