"""Sums of ledgers against what servers and switch hold."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from analysis.record import Accounting
from experiment.errors import AccountingError
from experiment.phases.check_updates import Lanes, check_accounting, count_lanes_served_by_switch, reconcile
from foundation.designs.combination import Combination
from foundation.protocol.rows import RowRange
from hosts.keys import KeySpace
from hosts.ledger import count_mismatches
from switch_harness.wording import says_in_one_line
from topologies.update_comparison import values_at_servers

KEYS = 5
values = arrays(np.uint32, KEYS)


@given(st.lists(values, min_size=1, max_size=4))
def test_sums_wrap_and_match(sent: list[np.ndarray]) -> None:
    held = np.zeros(KEYS, dtype=np.uint32)
    for each in sent:
        held += each
    assert count_mismatches(sent, [np.zeros_like(held)] * len(sent), held, KeySpace(KEYS)) == 0


@given(values, st.integers(0, KEYS - 1), st.integers(1, 2**32 - 1))
def test_one_wrong_key_is_found(sent: np.ndarray, key: int, error: int) -> None:
    held = sent.copy()
    held[key : key + 1] += np.uint32(error)
    assert count_mismatches([sent], [np.zeros_like(sent)], held, KeySpace(KEYS)) == 1


@given(values, values, values, arrays(np.bool_, KEYS), arrays(np.bool_, KEYS))
def test_each_unknown_push_may_be_added_or_not(
    sent: np.ndarray, first: np.ndarray, second: np.ndarray, first_is_in: np.ndarray, second_is_in: np.ndarray
) -> None:
    """Two workers died; a key has or lacks each of the pushes that they saw no answer to."""
    held = sent + first * first_is_in + second * second_is_in
    assert count_mismatches([sent], [first, second], held, KeySpace(KEYS)) == 0


def test_an_unknown_push_that_was_added_twice_is_found() -> None:
    sent, unknown = np.zeros(2, dtype=np.uint32), np.array([0, 7], dtype=np.uint32)
    assert count_mismatches([sent], [unknown], 2 * unknown, KeySpace(2)) == 1


def test_shares_of_servers_are_put_together_by_key() -> None:
    space = KeySpace(3, np.array([10, 20, 2**63], dtype=np.uint64))
    dumps: list[dict[str, np.ndarray]] = [
        {"job4_keys": np.array(keys, np.uint64), "job4_sums": np.array(values, np.uint32)}
        for keys, values in (([10], [1]), ([2**63, 20], [2**32 - 1, 3]))
    ]
    assert values_at_servers(dumps, 4, space).tolist() == [1, 3, 2**32 - 1]


@given(arrays(np.uint32, 3 + 2 * 4), arrays(np.uint32, 4, elements=st.integers(1, 2**32 - 1)))
def test_an_unknown_update_counts_only_if_all_values_of_a_row_have_the_update(
    sent: np.ndarray, update: np.ndarray
) -> None:
    space = KeySpace(5, None, (RowRange(0, 1), RowRange(3, 4)))
    unknown = np.zeros_like(sent)
    unknown[7:] = update
    assert count_mismatches([sent], [unknown], sent + unknown, space) == 0
    for torn in (slice(7, 8), slice(7, 10), slice(8, 11)):
        held = sent.copy()
        held[torn] += unknown[torn]
        assert count_mismatches([sent], [unknown], held, space) == 1
    # Two rows that are wrong count twice, however many of their values are.
    held = sent + unknown + 1
    assert count_mismatches([sent], [unknown], held, space) >= 4


def test_served_lanes_of_pushes_are_counted_over_all_parts(tmp_path: Path) -> None:
    for worker, op, served in ((1, "push", 200), (1, "pull", 7), (2, "push", 100)):
        rows = pl.DataFrame({"op": [op, op], "served": pl.Series([served, served], dtype=pl.UInt8)})
        rows.write_parquet(tmp_path / f"rpc-worker-{worker}-{op}.parquet")
    assert count_lanes_served_by_switch(tmp_path) == 600


@pytest.mark.parametrize(
    ("lanes", "is_logged", "applied", "lost"),
    [
        (Lanes(sent=100, unknown=0, at_servers=60, at_switch=40, mismatched_keys=0), True, 100, 0),
        (Lanes(sent=100, unknown=5, at_servers=57, at_switch=40, mismatched_keys=0), True, 97, 0),
        (Lanes(sent=100, unknown=5, at_servers=50, at_switch=40, mismatched_keys=2), True, 90, 5),
        (Lanes(sent=100, unknown=0, at_servers=60, at_switch=40, mismatched_keys=3), True, 100, 3),
        # Rows of the log were dropped: the switch has served more lanes than the log has.
        (Lanes(sent=100, unknown=0, at_servers=60, at_switch=30, mismatched_keys=0), False, 100, 0),
        (Lanes(sent=100, unknown=5, at_servers=60, at_switch=30, mismatched_keys=2), False, 93, 2),
    ],
)
def test_applied_and_lost_lanes_are_reconciled_from_servers_and_switch(
    lanes: Lanes, is_logged: bool, applied: int, lost: int
) -> None:
    found = reconcile(lanes, is_logged, Combination.ADD)
    assert (found.applied, found.lost) == (applied, lost)
    assert (found.sent, found.unknown, found.mismatched_keys) == (100, lanes.unknown, lanes.mismatched_keys)


def test_nothing_is_lost_or_applied_where_a_design_declares_no_combination(tmp_path: Path) -> None:
    lanes = Lanes(sent=100, unknown=2, at_servers=0, at_switch=10, mismatched_keys=9)
    found = reconcile(lanes, True, Combination.NONE)
    assert (found.sent, found.unknown) == (100, 2)
    assert (found.applied, found.lost, found.mismatched_keys) == (0, 0, 0)
    check_accounting(found, tmp_path)


def test_an_error_names_the_values_that_keys_do_not_hold(tmp_path: Path) -> None:
    lanes = Lanes(sent=100, unknown=0, at_servers=60, at_switch=40, mismatched_keys=3)
    with pytest.raises(AccountingError) as refused:
        check_accounting(reconcile(lanes, True, Combination.MAX), tmp_path)
    assert says_in_one_line(str(refused.value), "3 keys do not hold the maximum of its pushes", tmp_path)


def test_importing_mininet_leaves_other_loggers_unchanged() -> None:
    assert logging.getLoggerClass() is logging.Logger
    assert logging.getLogger("made.after.mininet").getEffectiveLevel() == logging.getLogger().level


@pytest.mark.parametrize(("is_script", "where"), [(False, "CONFIG"), (True, "hotline.Worker(scale=...)")])
def test_an_overflow_says_where_the_scale_is_set(tmp_path: Path, is_script: bool, where: str) -> None:
    account = Accounting(sent=9, applied=9, lost=0, unknown=0, mismatched_keys=0, overflows=2)
    with pytest.raises(AccountingError) as refused:
        check_accounting(account, tmp_path, is_script)
    assert says_in_one_line(str(refused.value), 2, "overflowed", where)
