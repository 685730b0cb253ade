"""Records that the packet function hands over, byte by byte."""

from __future__ import annotations

import pytest

from softswitch import ir
from softswitch.memory.output import DIGEST, LOG, read_head, read_records, read_values, record_bytes
from softswitch.pipeline import DigestMessage, LogRecord
from softswitch.state.pipeline import decode_notice, is_notice
from switch_harness.state_programs import program

FAILS = ir.Action("fails", (), (ir.Assert(ir.Constant(0), 1),))
PROGRAM = program(messages=("a is {}", "failed"), actions=(FAILS,))


def words(*values: int) -> bytes:
    return b"".join((value % 2**64).to_bytes(8, "little") for value in values)


@pytest.mark.parametrize(("length", "size"), [(0, 8), (1, 16), (8, 16), (9, 24), (60, 72)])
def test_records_begin_at_multiples_of_eight(length: int, size: int) -> None:
    assert record_bytes(length) == size


def test_records_are_kind_length_data_and_padding() -> None:
    memory = bytes.fromhex("01000000 03000000 414243") + b"?" * 5 + bytes.fromhex("feffff7f 00000000")
    assert read_head(memory) == (1, 3)
    assert list(read_records(memoryview(memory), 2)) == [(1, b"ABC"), (0x7FFFFFFE, b"")]
    assert list(read_records(memoryview(memory), 1)) == [(1, b"ABC")]
    assert list(read_records(memoryview(memory), 0)) == []


def test_values_are_words_behind_their_count_and_a_negative_count_means_signed() -> None:
    data = words(1, 7) + words(-1, -7) + words(2, 5, 1) + words(-2, -1, -1) + words(1, 2**64 - 1)
    assert list(read_values(data)) == [7, -7, 1 << 64 | 5, -1, 2**64 - 1]
    assert list(read_values(b"")) == []


def test_kinds_of_records_tell_notices_from_frames() -> None:
    assert [is_notice(kind) for kind in (0, 511, LOG - 1, LOG, DIGEST, DIGEST + 3)] == [
        False, False, False, True, True, True,
    ]  # fmt: skip
    assert (LOG, DIGEST) == (0x40000000, 0x80000000)


def test_records_of_digests_and_logs_are_decoded() -> None:
    assert decode_notice(PROGRAM, DIGEST + 2, words(1, 4, 1, 5)) == DigestMessage(2, (4, 5))
    assert decode_notice(PROGRAM, LOG, words(-1, -3)) == LogRecord("a is -3", failed=False)
    assert decode_notice(PROGRAM, LOG + 1, b"") == LogRecord("failed", failed=True)
