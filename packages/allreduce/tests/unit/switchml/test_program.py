"""SwitchML's P4 program against the plain model of its published rules, state by state, byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.forwarding import ReceiverRow
from controller.tables import GroupRow
from foundation.designs.interface import Design, SwitchHosts
from foundation.errors import HotlineError
from hotline_allreduce.exact import design as exact
from hotline_allreduce.switchml import control
from hotline_allreduce.switchml.design import DESIGN
from hotline_allreduce.switchml.model.rules import (
    MASK,
    SwitchAnswer,
    SwitchMLSwitchModel,
    SwitchMLWindowModel,
)
from hotline_allreduce.switchml.packet import VALUES, SwitchMLPacket, parse
from packages.allreduce.tests.harness.switchml import SwitchUnderTest, arm_with
from switch_harness.effort import examples
from tests.harness.programs import Edit, described, edited

SLOTS = 2
LANES = (0, 31, 63)


class Step(NamedTuple):
    worker: int
    slot: int
    set: int
    chunk: int = 0
    value: int = 1
    exponents: tuple[int, int] = (0, 0)
    us: int = 0
    """After the one before."""
    cut: int | None = None
    """Cut bits, in packets of `exact`."""

    @property
    def packet(self) -> SwitchMLPacket:
        values = tuple((self.value * (lane + 1)) & MASK for lane in range(VALUES))
        return SwitchMLPacket(
            self.chunk, self.slot, self.set, values, self.exponents, self.chunk & 0xFF, cut=self.cut
        )


def steps(workers: int, cuts: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[list[Step]]:
    exponent = st.integers(-128, 127)
    return st.lists(
        st.builds(
            Step,
            worker=st.integers(0, workers - 1),
            slot=st.integers(0, SLOTS - 1),
            set=st.integers(0, 1),
            chunk=st.one_of(st.integers(0, 3), st.sampled_from([2**31 - 1, 2**31, 2**32 - 1])),
            value=st.integers(0, MASK),
            exponents=st.tuples(exponent, exponent),
            us=st.integers(0, 30),
            cut=st.none() if cuts is None else cuts,
        ),
        max_size=40,
    )


def expected(answer: SwitchAnswer | None, worker: int, workers: int) -> list[tuple[int, SwitchMLPacket]]:
    if answer is None:
        return []
    return [(each, answer.packet) for each in (range(workers) if answer.is_multicast else [worker])]


def same_state(program: SwitchUnderTest, model: SwitchMLSwitchModel) -> None:
    entries = [model.sets[index % 2][index // 2] for index in range(2 * SLOTS)]
    bitmaps = [one.bitmap | two.bitmap << 32 for one, two in zip(*model.sets, strict=True)]
    assert program.cells("bitmaps.bitmaps", SLOTS) == bitmaps
    assert program.cells("count.remaining", 2 * SLOTS) == [entry.missing_workers for entry in entries]
    largest = [(entry.exponents[0] & 0xFF) << 8 | entry.exponents[1] & 0xFF for entry in entries]
    assert program.cells("exponents.largest", 2 * SLOTS) == largest
    for lane in LANES:
        sums = program.cells(f"value_{lane:02d}.sums", 2 * SLOTS)
        assert sums == [entry.values[lane] for entry in entries]
    if model.check:
        assert program.cells("stale_chunk_filter.numbers", 2 * SLOTS) == [entry.number for entry in entries]
    if any(entry.cut is not None for entry in entries):
        assert program.cells("cut_bits.cut", 2 * SLOTS) == [entry.cut or 0 for entry in entries]
    if model.slot_timeout_us:
        assert program.cells("slot_timeout.since", 2 * SLOTS) == [entry.begun_us for entry in entries]


def hold(program: SwitchUnderTest, model: SwitchMLSwitchModel, taken: Sequence[Step]) -> None:
    """Check that program and model answer the same, and have the same state after each packet."""
    now = 0
    for step in taken:
        now += step.us
        answer = model.take(step.worker, step.packet, now)
        assert program.take(step.worker, step.packet, now) == expected(answer, step.worker, model.workers)
        same_state(program, model)


CUTS = st.integers(0, MASK)


@pytest.mark.parametrize(
    ("check", "slot_timeout_us", "design", "cuts"),
    [
        (False, 0, DESIGN, None),
        (True, 0, DESIGN, None),
        (True, 40, DESIGN, None),
        (True, 0, exact.DESIGN, CUTS),
    ],
    ids=["published", "check", "patience", "exact"],
)
@settings(max_examples=examples(300))
@given(data=st.data(), workers=st.sampled_from([1, 2, 3, 5, 32]))
def test_the_program_answers_like_the_model(
    check: bool, slot_timeout_us: int, design: Design, cuts: st.SearchStrategy[int] | None, data: Any,
    workers: int,
) -> None:  # fmt: skip
    taken = data.draw(steps(workers, cuts))
    hold(
        SwitchUnderTest(workers, arm_with(check, slot_timeout_us), design=design),
        SwitchMLSwitchModel(workers, SLOTS, check, slot_timeout_us),
        taken,
    )


def rounds(workers: int, chunks: int) -> list[Step]:
    """Return the packets of workers that lose none: turn after turn in all slots, the first worker twice."""
    return [
        Step(worker, slot, turn % 2, turn, 10**worker + turn, (worker + slot - turn, 0))
        for turn in range(chunks)
        for worker in (0, *range(workers))
        for slot in range(SLOTS)
    ]


def test_the_interpreted_program_answers_like_the_model() -> None:
    """So mutants, which are interpreted, differ from it by what is broken in them alone."""
    hold(SwitchUnderTest(3, description=described(DESIGN)), SwitchMLSwitchModel(3, SLOTS), rounds(3, 4))


# -- bytes, by hand

VALUES_OF_A = "".join(f"{lane:08x}" for lane in range(64))
VALUES_OF_B = "ffffffff" * 64
SUMS = "".join(f"{(lane - 1) & MASK:08x}" for lane in range(64))
TO_SWITCH, FROM_SWITCH = "020000000301", "020000000301"
IPV4 = "0800 4500 0126 0000 0000 4011"
"""EtherType; version, length 294, no id, no fragment, TTL 64, UDP."""


def frame(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts))


REQUEST_OF_A = frame(
    TO_SWITCH, "020000000101", IPV4, "61c6 0a000101 0a000301",  # 10.0.1.1 to the switch's 10.0.3.1
    "4e29 bee0 0112 0000",  # UDP 20009 to 0xbee0, 274 bytes, no checksum
    "11 05 00000007 8003",  # kind 1, 256 bytes; all-reduce 5; packet 7; set 1, slot 3
    "fe 00", VALUES_OF_A,  # exponent -2
)  # fmt: skip
REQUEST_OF_B = frame(
    TO_SWITCH, "020000000102", IPV4, "61c5 0a000102 0a000301", "4e29 bee0 0112 0000",
    "11 05 00000007 8003", "03 00", VALUES_OF_B,
)  # fmt: skip
RESULTS = [
    frame(
        f"02000000010{n}", FROM_SWITCH, IPV4, checksum, "0a000301", f"0a00010{n}", "bee0 4e29 0112 0000",
        "11 05 00000007 8003", "03 00", SUMS,
    )
    for n, checksum in ((1, "61c6"), (2, "61c5"))
]  # fmt: skip


def test_packets_of_each_kind_have_the_expected_bytes() -> None:
    program = SwitchUnderTest(2)
    assert len(REQUEST_OF_A) == 308 and 308 / 64 == 4.8125  # frame bytes a value
    assert program.send(0, REQUEST_OF_A) == []  # consumed
    assert program.send(0, REQUEST_OF_A) == []  # comes again, to an entry that is not full
    assert program.send(1, REQUEST_OF_B) == [(0, RESULTS[0]), (1, RESULTS[1])]  # the last: to all
    assert program.send(0, REQUEST_OF_A) == [(0, RESULTS[0])]  # comes again: to its sender
    counted = program.pipeline.cells.read_counter("HotlineIngress.next_step.packets", 0, 5)
    assert [cell.packets for cell in counted] == [1, 1, 1, 1, 0]


def test_a_packet_is_parsed_into_its_fields_and_built_again() -> None:
    found = parse(REQUEST_OF_A[42:])
    assert found == SwitchMLPacket(7, 3, 1, tuple(range(64)), (-2, 0), job=5)
    assert found.build() == REQUEST_OF_A[42:]


def test_a_packet_of_another_protocol_is_forwarded_or_dropped() -> None:
    program = SwitchUnderTest(2)
    to_a = bytes.fromhex("020000000101")
    other_options = to_a + REQUEST_OF_B[6:36] + bytes.fromhex("1389") + REQUEST_OF_B[38:]  # UDP port 5001
    assert program.send(1, other_options) == [(0, other_options)]
    stranger = REQUEST_OF_A[:34] + bytes.fromhex("4e2a") + REQUEST_OF_A[36:]  # UDP port of no job
    assert program.send(0, stranger) == []  # to the switch's own address: no route
    short, other_size, no_slot = (
        REQUEST_OF_A[:-1],
        REQUEST_OF_A[:42] + b"\x13" + REQUEST_OF_A[43:],
        REQUEST_OF_A[:48] + b"\xa0\x00" + REQUEST_OF_A[50:],
    )
    for wrong in (short, other_size, no_slot):
        assert program.send(0, wrong) == []
    counted = program.pipeline.cells.read_counter("HotlineIngress.drops", 0, 3)
    assert [cell.packets for cell in counted] == [1, 2, 0]
    assert program.cells("bitmaps.bitmaps", 4) == [0] * 4


def test_jobs_have_separate_rows_and_groups() -> None:
    rows = control.CONTROL.rows(SwitchHosts(2, 1), [arm_with(), arm_with(check=True)], 0)
    receivers = [row.receiver for row in rows if isinstance(row, ReceiverRow)]
    assert receivers == [1, 2, 3, 4]
    groups = {row.group: row.replicas for row in rows if isinstance(row, GroupRow)}
    assert groups == {1: ((1, 1), (2, 2)), 2: ((1, 3), (2, 4))}
    with pytest.raises(HotlineError, match="got 33"):
        control.CONTROL.rows(SwitchHosts(33, 1), [arm_with()], 0)


@pytest.mark.parametrize(("check", "total"), [(False, 1 << 10), (True, 1 << 2 | 1 << 10)])
def test_a_late_copy_makes_a_sum_wrong_unless_the_check_is_on(check: bool, total: int) -> None:
    """The shortest schedule that the model finds: A0, B0, A1, late A0, B1."""
    program, window = SwitchUnderTest(2, arm_with(check)), SwitchMLWindowModel(0, 3, 1)

    def request(worker: int, chunk: int) -> SwitchMLPacket:
        addend = 1 << (8 * worker + 2 * chunk)
        return SwitchMLPacket(chunk, *window.slot_and_set(chunk), values=(addend,) * VALUES)

    a0, b0, a1, late, b1 = [
        program.take(worker, request(worker, chunk))
        for worker, chunk in ((0, 0), (1, 0), (0, 1), (0, 0), (1, 1))
    ]
    assert [len(each) for each in (a0, b0, a1, b1)] == [0, 2, 0, 2]
    assert [packet.values[0] for _, packet in late] == ([1 + (1 << 8)] if check else [])
    assert [packet.values[0] for _, packet in b1] == [total, total]


# -- programs with one broken rule, which the model detects

BROKEN = {
    "the other set's bit is not cleared": Edit(
        "switchml/bitmaps.p4", "filter_stale == 1 ? (workers_t)0", "filter_stale == 0 ? (workers_t)0"
    ),
    "multicast one worker early": Edit("switchml/next_step.p4", "meta.remaining == 1", "meta.remaining == 2"),
    "what comes again is added again": Edit(
        "switchml/value.p4", "(!meta.is_retransmit)", "(!meta.timed_out)"
    ),
    "the largest exponent of another chunk": Edit(
        "switchml/exponents.p4", "largest.write(meta.index", "largest.write((pool_index_t)meta.receiver"
    ),
}


@pytest.mark.parametrize("edit", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_program_differs_from_the_model(edit: Edit) -> None:
    program, model = SwitchUnderTest(3, description=edited(DESIGN, edit)), SwitchMLSwitchModel(3, SLOTS)
    with pytest.raises(AssertionError):
        hold(program, model, rounds(3, 4))
