"""The ledger separates sent from unknown updates at any instant of the worker's death."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hosts import ledger
from hosts.keys import KeySpace
from hosts.ledger import Ledger, LedgerError
from switch_harness.disk import files_of_at_most
from switch_harness.wording import mentions

POSITIONS = np.array([1, 4, 7])
DELTAS = np.array([10, 2**32 - 1, 30], dtype=np.uint32)


def totals(path: Path) -> tuple[list[int], list[int], int, int]:
    sums = ledger.read(path)
    return sums.sent.tolist(), sums.unknown.tolist(), sums.lanes_sent, sums.lanes_unknown


def test_a_completed_push_counts_as_sent(tmp_path: Path) -> None:
    book = Ledger(3, 9, KeySpace(8), 5, tmp_path / "l")
    for _ in range(2):
        book.open(POSITIONS, DELTAS)[:3] = True
        book.close()
    assert totals(tmp_path / "l") == ([0, 20, 0, 0, 2**32 - 2, 0, 0, 60], [0] * 8, 6, 0)
    assert (ledger.read(tmp_path / "l").job, ledger.read(tmp_path / "l").epoch) == (3, 9)


def test_in_the_middle_of_a_push_unanswered_lanes_are_unknown(tmp_path: Path) -> None:
    book = Ledger(3, 9, KeySpace(8), 5, tmp_path / "l")
    book.open(POSITIONS, DELTAS)[:3] = True
    book.close()
    answered = book.open(POSITIONS, DELTAS)
    answered[1] = True
    wanted = [0, 10, 0, 0, 2**32 - 2, 0, 0, 30], [0, 10, 0, 0, 0, 0, 0, 30], 4, 2
    assert totals(tmp_path / "l") == wanted
    # Killed while the sums take the deltas in: the undo log knows what they were.
    book._arrays.sums[POSITIONS[:2]] += DELTAS[:2]
    book._arrays.head[6] += 3  # `lanes`
    assert totals(tmp_path / "l") == wanted


def test_a_ledger_begins_with_its_magic_number(tmp_path: Path) -> None:
    Ledger(3, 9, KeySpace(8), 5, tmp_path / "l")
    assert (tmp_path / "l").read_bytes()[7::-1] == b"HOTLEDGK"


def test_a_ledger_reserves_its_disk_space_or_reports_an_error(tmp_path: Path) -> None:
    Ledger(3, 9, KeySpace(100_000), 5, tmp_path / "l")
    assert (tmp_path / "l").stat().st_blocks * 512 >= 400_000
    with files_of_at_most(1000), pytest.raises(LedgerError, match=mentions("full", "written")):
        Ledger(3, 9, KeySpace(100_000), 5, tmp_path / "full")


def test_an_invalid_ledger_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        ledger.read(tmp_path / "none")
    (tmp_path / "short").write_bytes(b"x")
    with pytest.raises(LedgerError, match=mentions("short", "ledger")):
        ledger.read(tmp_path / "short")
    Ledger(3, 9, KeySpace(8), 5, tmp_path / "l")
    (tmp_path / "l").write_bytes((tmp_path / "l").read_bytes()[:-1])
    with pytest.raises(LedgerError, match=mentions(237, 8, 236)):
        ledger.read(tmp_path / "l")
    with pytest.raises(LedgerError, match=mentions(5, 6)):
        Ledger(3, 9, KeySpace(8), 5).open(np.arange(6), np.zeros(6, np.uint32))
