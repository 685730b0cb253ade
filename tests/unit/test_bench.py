"""The bench's frames do what they claim, in the packet function itself, and its goals are judged rightly."""

from __future__ import annotations

import pytest

from bench import hotline, plain
from bench.baseline import C_LOOP
from bench.calls import installed, ns_a_packet
from bench.errors import BenchError
from bench.results import Result, at_least, at_most
from bench.switches import BMV2, SOFTSWITCH
from bench.workload import FIRST_SEQ, INGRESS, Setup, Workload

CASES = [
    (hotline.setup(entries=64), hotline.hot()),
    (hotline.setup(entries=64), hotline.hot(live=8)),
    (hotline.setup_of_cold(), hotline.cold()),
    (plain.l3_setup(8), plain.l3(8)),
    (plain.wire_setup(), plain.l3(2)),
]


def stamped(workload: Workload, k: int) -> bytes:
    frame = bytearray(workload.frames[k])
    for offset, size, value in (
        (workload.stamp.run, 4, 3),
        (workload.stamp.seq, 4, FIRST_SEQ + k),
        (workload.stamp.t0, 8, 1 << 60 | k),
    ):
        frame[offset : offset + size] = value.to_bytes(size, "big")
    return bytes(frame)


def number(frame: bytes, offset: int, size: int) -> int:
    return int.from_bytes(frame[offset : offset + size], "big")


@pytest.mark.parametrize(("setup", "workload"), CASES, ids=lambda case: getattr(case, "name", ""))
def test_every_frame_leaves_by_the_port_that_it_names_with_its_stamp(
    setup: Setup, workload: Workload
) -> None:
    pipeline = installed(setup)
    egress = set()
    for k in range(2 if setup.program is hotline.PROGRAM else 14):  # the entries are of the first slots
        (output,) = pipeline.process(INGRESS, stamped(workload, k), 0, 3)
        stamp = workload.stamp
        assert output.port == number(output.frame, stamp.egress, 2)
        assert number(output.frame, stamp.run, 4) == 3
        assert number(output.frame, stamp.seq, 4) == FIRST_SEQ + k
        assert number(output.frame, stamp.t0, 8) == 1 << 60 | k
        egress.add(output.port)
    assert egress == set(workload.egress)


def test_hit_frames_are_answered_and_cold_ones_pass() -> None:
    hit, cold = (
        installed(setup).process(INGRESS, stamped(workload, 0), 0, 3)[0]
        for setup, workload in (
            (hotline.setup(entries=64), hotline.hot()),
            (hotline.setup_of_cold(), hotline.cold()),
        )
    )
    assert (len(hit.frame), len(cold.frame)) == (98, 482)


def test_routes_are_as_many_as_asked_for_and_all_match() -> None:
    setup, prefixes = plain.routes(1000)
    assert len(setup.updates) == len(set(prefixes.tolist())) == 1000
    pipeline = installed(setup)
    for prefix in prefixes.tolist():
        address = ".".join(map(str, prefix.to_bytes(4, "big")))
        assert len(pipeline.process(INGRESS, plain.frame_to("10.0.0.1", address), 0, 3)) == 1


def test_a_measurement_of_frames_that_are_dropped_is_refused() -> None:
    with pytest.raises(BenchError, match="0 of 10 frames came out"):
        ns_a_packet(installed(Setup(plain.L3, [])), plain.l3(), 10)


def test_ratios_are_of_pairs_and_goals_of_medians() -> None:
    line = Result("s", "w", "packets/s", {SOFTSWITCH: [10, 30, 20], BMV2: [1, 10, 1], C_LOOP: [20, 40, 40]})
    assert line.value(SOFTSWITCH) == 20
    assert line.ratio(BMV2) == 10  # of 10, 3 and 20
    assert [line.is_met(goal) for goal in (at_least(10, BMV2), at_least(11, BMV2))] == [True, False]
    assert [line.is_met(goal) for goal in (at_most(20), at_most(19))] == [True, False]
    assert Result("s", "w", "ns", {SOFTSWITCH: [1]}).is_met(at_least(1, BMV2)) is None
