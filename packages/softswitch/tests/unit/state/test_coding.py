"""Keys and run-time data as words: each number where the packet function looks for it, and read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from softswitch import ir
from softswitch.ir import Masked, MatchKind, RangeMatch
from softswitch.memory.coding import data_words, match_words, read_data, read_key
from softswitch.memory.words import join_words, pack_halves, split_words, words_of
from switch_harness.state_programs import State, key_field, program, table

ONES = (1 << 64) - 1


@pytest.mark.parametrize(("bits", "words"), [(0, 1), (1, 1), (64, 1), (65, 2), (128, 2), (129, 3)])
def test_a_number_takes_a_word_for_each_64_bits(bits: int, words: int) -> None:
    assert words_of(bits) == words


def test_words_are_least_significant_first() -> None:
    assert split_words(5, 1) == [5]
    assert split_words(3 << 64 | 7, 2) == [7, 3]
    assert split_words(1 << 191, 3) == [0, 0, 1 << 63]
    assert join_words([7, 3]) == 3 << 64 | 7
    assert join_words([]) == 0
    assert pack_halves(3, 7) == 3 << 32 | 7


@given(st.integers(0, (1 << 320) - 1))
def test_splitting_is_undone_by_joining(value: int) -> None:
    assert join_words(split_words(value, 5)) == value


EXACT = table("exact", [key_field(4), key_field(62, mask=0xFF)], 2)
RANKED = table(
    "ranked",
    [
        key_field(8),
        key_field(16, MatchKind.TERNARY),
        key_field(60, MatchKind.RANGE),
        key_field(4, MatchKind.OPTIONAL),
        key_field(66, MatchKind.RANGE),
    ],
    2,
)
PREFIXES = table("prefixes", [key_field(32, MatchKind.LPM), key_field(8)], 2)
STATE = State(program(EXACT, RANKED, PREFIXES))
LAYOUTS = STATE.layout.tables


def test_an_exact_key_is_its_fields_joined_the_first_at_the_top() -> None:
    assert match_words(LAYOUTS["exact"], (0xA, 0x1FF), 0) == [0x80000000000000FF, 2]
    assert read_key(LAYOUTS["exact"], [0x80000000000000FF, 2], []) == (0xA, 0xFF)


def test_a_ranked_key_is_value_and_mask_rank_and_bounds() -> None:
    key = (
        0xAB,
        Masked(0x1200, 0xFF00),
        RangeMatch(3, 1 << 59),
        Masked(0, 0),
        RangeMatch(1 << 65, (1 << 66) - 1),
    )
    words = match_words(LAYOUTS["ranked"], key, 41)
    below = 60 + 4 + 66
    value, mask = 0xAB1200 << below, 0xFFFF00 << below
    bounds = [3, 1 << 59, 0, 2, ONES, 3]
    assert words == [*split_words(value, 3), *split_words(mask, 3), 42, *bounds]
    record = [*words[:3], 0, 42, 0, *bounds]
    assert read_key(LAYOUTS["ranked"], record, words[3:6]) == key


def test_the_rank_of_prefixes_is_their_length() -> None:
    words = match_words(LAYOUTS["prefixes"], (Masked(0x0A000000, 0xFF000000), 7), 0)
    assert words == [0x0A00000007, 0xFF000000FF, 9]


NARROW_WORDS, WIDE_WORDS = [0, 65535], [1, 511, 0, 1 << 63, 3]


@pytest.mark.parametrize(
    ("invocation", "words"),
    [
        (ir.Invocation(0, (65535,)), NARROW_WORDS),
        (ir.Invocation(1, (511, 3 << 128 | 1 << 127)), WIDE_WORDS),
        (ir.Invocation(2, ()), [2]),
    ],
)
def test_data_is_the_action_and_a_run_of_words_for_each_parameter(
    invocation: ir.Invocation, words: list[int]
) -> None:
    assert data_words(STATE.program, invocation) == words
    assert read_data(STATE.program, [*words, 99, 99]) == invocation


@pytest.mark.parametrize("args", [(), (1, 2)])
def test_an_action_with_a_wrong_number_of_arguments_is_not_encoded(args: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="zip"):
        data_words(STATE.program, ir.Invocation(0, args))
