"""ATP's P4 program against the plain model of its published rules, state by state, byte by byte."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.forwarding import ReceiverRow
from controller.tables import GroupRow
from foundation.designs.interface import SwitchHosts
from foundation.errors import HotlineError
from hotline_allreduce.atp import control
from hotline_allreduce.atp.control import AtpLevel
from hotline_allreduce.atp.design import DESIGN
from hotline_allreduce.atp.model.rules import MASK, SIGN_BIT, AtpSwitchModel
from hotline_allreduce.atp.packet import ACK, COLLISION, ECN, OVERFLOW, RESEND, VALUES, AtpPacket, parse
from packages.allreduce.tests.harness.atp import SERVER, SwitchUnderTest, arm_with
from switch_harness.effort import examples
from tests.harness.programs import Edit, described, edited

CELLS = 2
LANES = (0, 30, 31, 61)
JOBS = (13, 14)


class Step(NamedTuple):
    host: int
    """A worker, or `SERVER`, which acknowledges."""
    cell: int
    flags: int = 0
    job: int = 13
    sequence: int = 1
    value: int = 1
    key: int = 1
    more: int = 0
    """Bits of other workers."""
    is_marked: bool = False

    def packet(self, workers: int) -> AtpPacket:
        values = tuple((self.value * (lane + 1)) & MASK for lane in range(VALUES))
        bitmap = 1 if self.host == SERVER else (1 << self.host | self.more) & (1 << workers) - 1
        flags = self.flags | (ACK if self.host == SERVER else 0)
        return AtpPacket(
            bitmap, workers, self.job, self.sequence, self.cell, values, self.key, 2 * VALUES, flags
        )


def steps(workers: int) -> st.SearchStrategy[list[Step]]:
    flags = st.sampled_from([0, 0, 0, RESEND, RESEND, OVERFLOW, OVERFLOW | RESEND, ECN, COLLISION])
    return st.lists(
        st.builds(
            Step,
            host=st.integers(SERVER, workers - 1),
            cell=st.integers(0, CELLS - 1),
            flags=flags,
            job=st.sampled_from(JOBS),
            sequence=st.integers(1, 2),
            value=st.one_of(st.integers(0, MASK), st.sampled_from([SIGN_BIT - 1, SIGN_BIT, SIGN_BIT + 1])),
            key=st.sampled_from([1, 2, 3, 2**31, 2**32 + 1]),
            more=st.sampled_from([0, 0, 0, 1, 2, MASK]),
            is_marked=st.booleans(),
        ),
        max_size=40,
    )


def same_state(program: SwitchUnderTest, model: AtpSwitchModel) -> None:
    memory = model.memory
    assert program.cells("claim.owners", CELLS) == [cell.owner for cell in memory]
    assert program.cells("bitmaps.bitmaps", CELLS) == [cell.bitmap for cell in memory]
    assert program.cells("count.counts", CELLS) == [cell.count for cell in memory]
    assert program.cells("congestion.marks", CELLS) == [cell.ecn for cell in memory]
    for lane in LANES:
        sums = program.cells(f"value_{lane:02d}.sums", CELLS)
        assert sums == [cell.values[lane] for cell in memory]
    if model.check:
        assert program.cells("claim.tensors", CELLS) == [cell.key for cell in memory]


def hold(program: SwitchUnderTest, model: AtpSwitchModel, taken: Sequence[Step]) -> None:
    """Check that program and model answer the same, and have the same state after each packet."""
    for step in taken:
        packet = step.packet(program.workers)
        output = model.take(packet, step.is_marked)
        receivers = () if output is None else range(program.workers) if output.is_multicast else (SERVER,)
        expected = [(each, output.packet) for each in receivers if output is not None]
        assert program.take(step.host, packet, step.is_marked) == expected
        same_state(program, model)


@pytest.mark.parametrize("check", [False, True], ids=["published", "check"])
@settings(max_examples=examples(150))
@given(data=st.data(), children=st.sampled_from([2, 3]), is_root=st.booleans())
def test_a_level_of_two_answers_like_the_model(check: bool, data: Any, children: int, is_root: bool) -> None:
    """A level counts its children, whatever number of workers a packet names."""
    taken = data.draw(steps(5))
    levels = [AtpLevel(job, 0, children, is_root) for job in JOBS]
    program = SwitchUnderTest(5, [arm_with(check, job=job) for job in JOBS], levels=levels)
    hold(program, AtpSwitchModel(CELLS, check, children, is_root), taken)


@pytest.mark.parametrize("check", [False, True], ids=["published", "check"])
@settings(max_examples=examples(300))
@given(data=st.data(), workers=st.sampled_from([2, 3, 5, 32]))
def test_the_program_answers_like_the_model(check: bool, data: Any, workers: int) -> None:
    taken = data.draw(steps(workers))
    arms = [arm_with(check, job=job) for job in JOBS]
    hold(SwitchUnderTest(workers, arms), AtpSwitchModel(CELLS, check), taken)


def rounds(workers: int, job: int = 13) -> list[Step]:
    """Return packets that meet each rule: copies, collisions, resent ones, acknowledgements of others."""
    found = []
    for sequence in (1, 2):
        for key in (1, 2):
            first = [Step(w, 0, sequence=sequence, key=key, value=10**w, job=job) for w in range(workers)]
            ack = Step(SERVER, 0, sequence=sequence, key=key, job=job)
            other = first[0]._replace(job=27 - job)
            found += [first[0], first[1]._replace(sequence=3 - sequence)]
            found += [first[0], *first[:2], other, ack._replace(job=27 - job), *first, first[0], ack]
            found += [first[0], first[1]._replace(flags=RESEND), first[1]._replace(flags=RESEND)]
            found += [*first, ack._replace(flags=OVERFLOW), ack]
    return found


def test_the_interpreted_program_answers_like_the_model() -> None:
    """So mutants, which are interpreted, differ from it by what is broken in them alone."""
    arms = [arm_with(job=job) for job in JOBS]
    hold(SwitchUnderTest(3, arms, described(DESIGN)), AtpSwitchModel(CELLS), rounds(3))
    arms = [arm_with(True, job=job) for job in JOBS]
    hold(SwitchUnderTest(3, arms, described(DESIGN)), AtpSwitchModel(CELLS, True), rounds(3))


# -- bytes, by hand

VALUES_OF_A = "".join(f"{lane:08x}" for lane in range(62))
VALUES_OF_B = "ffffffff" * 62
SUMS = "".join(f"{(lane - 1) & MASK:08x}" for lane in range(62))
SERVER_MAC, SERVER_IP = "020000000201", "0a000201"
IPV4 = "0800 4500 012e 0000 0000 4011"
"""EtherType; version, length 302, no id, no fragment, TTL 64, UDP."""
TENSOR = "0000000000000007 0000007c"
"""Tensor 7, of 124 values."""
CELL = "0002 1388 61a8"
"""Sequence number 2; cells 5,000 and 25,000."""


def frame(*parts: str) -> bytes:
    return bytes.fromhex("".join(parts))


def of_worker(n: int, head: str, values: str, ecn: str = IPV4, checksum: int = 0x62BE) -> bytes:
    """Return a frame of worker n, from 1 on, with the first six bytes of ATP's header."""
    return frame(
        SERVER_MAC, f"02000000010{n}", ecn, f"{checksum - n + 1:04x}", f"0a00010{n}", SERVER_IP,
        "4e2d 0700 011a 0000",  # UDP 20013 to 0x0700, 282 bytes, no checksum
        head, "000d", CELL, values, TENSOR,
    )  # fmt: skip


def of_server(n: int, head: str, values: str) -> bytes:
    """Return a frame of the server to worker n."""
    return frame(
        f"02000000010{n}", SERVER_MAC, IPV4, f"{0x62BE - n + 1:04x}", SERVER_IP, f"0a00010{n}",
        "0700 4e2d 011a 0000", head, "000d", CELL, values, TENSOR,
    )  # fmt: skip


A, B = of_worker(1, "00000001 02 00", VALUES_OF_A), of_worker(2, "00000002 02 00", VALUES_OF_B)
ACK_OF_SUM = [of_server(n, "00000001 02 01", SUMS) for n in (1, 2)]


def outcomes(program: SwitchUnderTest) -> list[int]:
    return [
        cell.packets for cell in program.pipeline.cells.read_counter("HotlineIngress.next_step.packets", 0, 8)
    ]


def test_packets_of_each_kind_have_the_expected_bytes() -> None:
    program = SwitchUnderTest(2)
    assert len(A) == 316 and round(316 / 62, 2) == 5.10  # frame bytes a value
    assert program.send(0, A) == [] and program.send(0, A) == []  # consumed, and ignored
    whole = of_worker(2, "00000003 02 00", SUMS)
    assert program.send(1, B) == [(SERVER, whole)]  # the last
    assert program.send(1, B) == [(SERVER, whole)]  # comes again
    assert program.send(SERVER, ACK_OF_SUM[0]) == [(0, ACK_OF_SUM[0]), (1, ACK_OF_SUM[1])]
    assert outcomes(program) == [1, 1, 1, 1, 0, 0, 0, 1]

    # A resent packet finds a free cell, then one with a partial sum.
    resent_a, resent_b = (
        of_worker(n, f"0000000{n} 02 04", v) for n, v in ((1, VALUES_OF_A), (2, VALUES_OF_B))
    )
    assert program.send(1, resent_b) == [(SERVER, resent_b)]
    program.send(1, B)
    assert program.send(0, resent_a) == [(SERVER, of_worker(1, "00000003 02 04", SUMS))]
    assert outcomes(program) == [2, 1, 1, 1, 0, 1, 1, 1]

    # The cell is taken: another sequence number has claimed it.
    program.send(0, A.replace(bytes.fromhex("00021388"), bytes.fromhex("00011388")))
    assert program.send(1, B) == [(SERVER, of_worker(2, "00000002 02 02", VALUES_OF_B))]

    # Floats and the request for them leave the cell alone; acknowledged floats free it.
    floats = of_worker(1, "00000001 02 80", VALUES_OF_A)
    assert program.send(0, floats) == [(SERVER, floats)]
    for flags in ("81", "85"):
        back = [of_server(n, f"00000001 02 {flags}", SUMS) for n in (1, 2)]
        assert program.send(SERVER, back[0]) == list(enumerate(back))
    assert outcomes(program) == [3, 1, 1, 1, 1, 1, 2, 3]


def test_a_long_queue_marks_packets() -> None:
    """Depths are those of the switch's queues; without any, they are 0."""
    program = SwitchUnderTest(2, [arm_with(ecn_depth=0)])
    marked = "0800 4503 012e 0000 0000 4011"
    program.send(0, A)
    expected = of_worker(2, "00000003 02 08", SUMS, marked, 0x62BB)
    assert program.send(1, B) == [(SERVER, expected)]


def test_a_packet_is_parsed_into_its_fields_and_built_again() -> None:
    found = parse(A[42:])
    assert found == AtpPacket(1, 2, 13, 2, 5_000, tuple(range(62)), 7, 124)
    assert found.build() == A[42:]


def test_a_packet_of_another_protocol_is_forwarded_or_dropped() -> None:
    program = SwitchUnderTest(2)
    other_job = A.replace(bytes.fromhex("000d00021388"), bytes.fromhex("000f00021388"))
    assert program.send(0, other_job) == [(SERVER, other_job)]
    other_port = A[:36] + bytes.fromhex("1389") + A[38:]
    assert program.send(0, other_port) == [(SERVER, other_port)]
    no_cell = A.replace(bytes.fromhex("138861a8"), bytes.fromhex("4e209c40"))
    for wrong in (A[:-1], no_cell):
        assert program.send(0, wrong) == []
    assert program.send(0, ACK_OF_SUM[1]) == []  # an acknowledgement of a worker
    counted = program.pipeline.cells.read_counter("HotlineIngress.drops", 0, 4)
    assert [cell.packets for cell in counted] == [1, 1, 0, 1]
    assert program.cells("claim.owners", 4) == [0] * 4


def test_published_rules_isolate_no_job() -> None:
    """The switch believes what a packet says of its job and worker, whatever port it comes from."""
    program = SwitchUnderTest(3, [arm_with(), arm_with(job=14)])
    program.take(0, Step(0, 0).packet(2))
    forged = Step(1, 0, value=1 << 20).packet(2)
    [(receiver, frame)] = program.send(2, program.frame(2, forged))  # worker C writes as B
    packet = parse(frame[42:])
    assert (receiver, packet.bitmap, packet.values[0]) == (SERVER, 0b11, 1 + (1 << 20))
    assert program.send(2, program.frame(SERVER, Step(SERVER, 0).packet(2))) == []  # but it frees the cell
    assert program.cells("claim.owners", 1) == [0]


def test_jobs_have_separate_rows_and_groups() -> None:
    rows = control.CONTROL.rows(SwitchHosts(2, 1), [arm_with(), arm_with(check=True, job=14)], 0)
    assert [row.receiver for row in rows if isinstance(row, ReceiverRow)] == [1, 2, 3, 4]
    groups = {row.group: row.replicas for row in rows if isinstance(row, GroupRow)}
    assert groups == {1: ((1, 1), (2, 2)), 2: ((1, 3), (2, 4))}
    for hosts, message in (
        (SwitchHosts(33, 1), "2 to 32 workers, got 33"),
        (SwitchHosts(2, 5), "4 servers, got 5"),
    ):
        with pytest.raises(HotlineError, match=message):
            control.CONTROL.rows(hosts, [arm_with()], 0)


@pytest.mark.parametrize(("check", "total"), [(False, 1 << 2 | 1 << 6), (True, 0)])
def test_a_lost_acknowledgement_makes_a_sum_wrong_unless_the_check_is_on(check: bool, total: int) -> None:
    """The shortest schedule of lost acknowledgements: A1.1, B1.1, B2.1, resent A1.1."""
    program = SwitchUnderTest(2, [arm_with(check)])
    sent = [
        program.take(step.host, step.packet(2))
        for step in (
            Step(0, 0, value=1 << 2), Step(1, 0, value=8), Step(SERVER, 0), Step(1, 0, value=1 << 6, key=2),
            Step(0, 0, RESEND, value=1 << 2),
        )
    ]  # fmt: skip
    [(receiver, packet)] = sent[-1]
    assert receiver == SERVER and packet.key == 1
    assert (packet.bitmap, packet.values[0]) == ((0b1, 1 << 2) if check else (0b11, total))


# -- a program that is broken in one place, which the model tells

BROKEN = {
    "a resent packet leaves the owner": Edit("atp/claim.p4", "owner = 0;      // freed", "// freed"),
    "another job's acknowledgement frees": Edit(
        "atp/claim.p4", "meta.is_owner && (hdr.atp.overflow", "(hdr.atp.overflow"
    ),
    "a claim does not compare the sequence": Edit(
        "atp/claim.p4", "owner == mine", "owner & 0xffff0000 == mine & 0xffff0000"
    ),
    "the bitmap is not cleared": Edit("atp/bitmaps.p4", "seen = 0;       // freed", "// freed"),
    "the count is not cleared": Edit("atp/count.p4", "count = 0;  // freed", "// freed"),
    "a repetition is added": Edit("atp/ingress.p4", "Operation.READ", "Operation.ADD"),
}


@pytest.mark.parametrize("edit", BROKEN.values(), ids=list(BROKEN))
def test_a_broken_program_differs_from_the_model(edit: Edit) -> None:
    arms = [arm_with(job=job) for job in JOBS]
    program = SwitchUnderTest(3, arms, description=edited(DESIGN, edit))
    with pytest.raises(AssertionError):
        hold(program, AtpSwitchModel(CELLS), rounds(3))
