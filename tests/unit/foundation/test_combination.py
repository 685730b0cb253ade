"""What switch and servers make of pushed values, as words, as arrays, and in a worker's ledger."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from foundation.designs.combination import Combination, combine
from foundation.designs.hotset import DESIGN as HOTSET
from foundation.designs.interface import Reduction, ShownRegister
from hosts.keys import KeySpace
from hosts.ledger import Ledger, count_mismatches, read
from hosts.scapy.ledger import LedgerFile
from hosts.scapy.server import ScapyStore

WORDS = (0, 1, 5, 2**31 - 1, 2**31, 2**32 - 5, 2**32 - 1)
BY_PYTHON: dict[Combination, Callable[[list[int]], int]] = {
    Combination.ADD: sum,
    Combination.MAX: lambda pushed: max(0, *pushed),
    Combination.MIN: lambda pushed: min(0, *pushed),
    Combination.COUNT: len,
    Combination.NONE: sum,
}


def signed(word: int) -> int:
    return word - 2**32 if word >= 2**31 else word


@pytest.mark.parametrize("combination", Combination)
def test_words_and_arrays_are_combined_as_by_python(combination: Combination) -> None:
    rng = Random(combination.value)
    for _ in range(200):
        pushed = [rng.choice(WORDS) for _ in range(rng.randrange(1, 6))]
        expected = BY_PYTHON[combination]([signed(word) for word in pushed]) % 2**32
        assert reduce(lambda value, word: combine(combination.code, value, word), pushed, 0) == expected
        arrays = [combination.units(np.array([word], np.uint32)) for word in pushed]
        at_server, at_switch = (
            reduce(combination.merge, part, np.zeros(1, np.uint32)) for part in (arrays[::2], arrays[1::2])
        )
        assert combination.merge(at_server, at_switch).tolist() == [expected]


@pytest.mark.parametrize(
    ("combination", "sent", "unknown"),
    [
        (Combination.ADD, [7, 0, 10], [0, 4, 0]),
        (Combination.MAX, [5, 0, 9], [0, 4, 0]),
        (Combination.COUNT, [2, 0, 2], [0, 1, 0]),
    ],
)
def test_both_kinds_of_ledgers_tell_answered_from_unanswered_pushes(
    combination: Combination, sent: list[int], unknown: list[int], tmp_path: Path
) -> None:
    """A worker dies in its second push, of which two of three keys were answered."""
    space, positions = KeySpace(3), np.arange(3)
    deltas = [np.array(each, np.uint32) for each in ([5, 0, 1], [2, 4, 9])]
    compiled = Ledger(1, 1, space, 3, tmp_path / "compiled", combination)
    compiled.open(np.array([0, 2]), deltas[0][[0, 2]])[:] = True
    compiled.close()
    compiled.open(positions, deltas[1])[[0, 2]] = True
    of_scapy = LedgerFile(1, 1, space, 3, tmp_path / "scapy", combination)
    for keys, each, answered in (([0, 2], deltas[0][[0, 2]], [0, 2]), ([0, 1, 2], deltas[1], [0, 2])):
        of_scapy.open(keys, np.array(keys), each)
        for key in answered:
            of_scapy.add(key)
        if keys == answered:
            of_scapy.close()
    for file in ("compiled", "scapy"):
        found = read(tmp_path / file)
        assert (found.sent.tolist(), found.unknown.tolist()) == (sent, unknown)
        assert (found.lanes_sent, found.lanes_unknown) == (4, 1)


def test_a_maximum_with_or_without_an_unanswered_push_is_explained() -> None:
    sent, unknown = [np.array([5, 3], np.uint32), np.array([2, 8], np.uint32)], np.array([9, 1], np.uint32)
    mismatches = [
        count_mismatches(sent, [unknown], np.array(held, np.uint32), KeySpace(2), Combination.MAX)
        for held in ([5, 8], [9, 8], [7, 11], [5, 3])
    ]
    assert mismatches == [0, 0, 2, 1]


def test_a_server_of_scapy_keeps_the_largest_row_value_by_value() -> None:
    store = ScapyStore(range(4), 0, 1, combination=Combination.MAX)
    for row in ((5,), (2**32 - 1,), (3,)):
        assert not store.push(0, row)
    assert (store.row(0), store.updates[0]) == ((5,), 3)


@pytest.mark.parametrize("field", ["is_durable", "optimises", "is_lockstep"])
def test_a_design_whose_recovery_or_training_adds_cannot_declare_another_combination(field: str) -> None:
    fields: dict[str, Any] = {**dict.fromkeys(("is_durable", "optimises", "is_lockstep"), False), field: True}
    with pytest.raises(ValueError, match="combination max: expected add"):
        replace(HOTSET, **fields, combination=Combination.MAX)


def test_a_register_is_reduced_to_its_sum_its_largest_cell_or_its_used_cells() -> None:
    cells = [0, 4, 0, 9]
    assert [each.of(cells) for each in Reduction] == [13, 9, 2]
    assert ShownRegister("HotlineIngress.updates", Reduction.USED).title == "HotlineIngress.updates (used)"
