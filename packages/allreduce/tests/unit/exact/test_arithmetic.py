"""The arithmetic of `exact` against exact rationals, rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from hotline_allreduce.exact import arithmetic
from hotline_allreduce.exact.arithmetic import MAX_ADDENDS, MAX_EXPONENT, NAN, UNCERTAIN
from hotline_allreduce.exact.reference import correctly_rounded_sum, correctly_rounded_sums, round_to_float32
from nativekit.plain import plain
from switch_harness.effort import examples

digit = plain(arithmetic.digit)
digit_count = plain(arithmetic.digit_count)
exponent_of_word = plain(arithmetic.exponent_of_word)
high_lane = plain(arithmetic.high_lane)
is_cut = plain(arithmetic.is_cut)
lane_bits = plain(arithmetic.lane_bits)
low_lane = plain(arithmetic.low_lane)
not_finite = plain(arithmetic.not_finite)
rounded = plain(arithmetic.rounded)
sum_of_digits = plain(arithmetic.sum_of_digits)
sum_of_lanes = plain(arithmetic.sum_of_lanes)
truncated = plain(arithmetic.truncated)

SIGN, TINY, LARGEST, INFINITE = 1 << 31, 1, 0x7F7FFFFF, 0x7F800000
ONE, HALF_UNIT, BELOW_HALF = 0x3F800000, 0x33800000, 0x337FFFFF  # 1, 2^-24 and the float below that
INT32 = range(-(2**31), 2**31)


def word(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


def value(word: int) -> np.float32:
    floats: list[np.float32] = list(np.array([word], np.uint32).view(np.float32))
    return floats[0]


def lanes_of(words: Sequence[int], exponent: int) -> tuple[int, int, bool]:
    bits = lane_bits(len(words))
    high = sum(high_lane(each, exponent, bits) for each in words)
    low = sum(low_lane(each, exponent, bits) for each in words)
    assert high in INT32 and low in INT32
    return high, low, any(is_cut(each, exponent, bits) for each in words)


def by_lanes(words: Sequence[int], exponent: int | None = None) -> int:
    """Return the sum by the first pass; `exponent` is the chunk's, at least that of the words."""
    least = max(map(exponent_of_word, words))
    exponent = max(least, exponent or 0)
    if exponent == MAX_EXPONENT:
        return sum_of_lanes(0, 0, False, len(words), exponent)
    return sum_of_lanes(*lanes_of(words, exponent), len(words), exponent)


def by_digits(words: Sequence[int]) -> int:
    bits = lane_bits(len(words))
    count = digit_count(bits)
    digits = np.array([sum(digit(each, j, bits) for each in words) for j in range(count)], np.int64)
    assert all(int(each) in INT32 for each in digits)
    kinds = sum(map(not_finite, words))
    assert kinds in INT32
    return sum_of_digits(digits, count, kinds, len(words))


def expected(words: Sequence[int]) -> int:
    total = correctly_rounded_sum([value(each) for each in words])
    return NAN if np.isnan(total) else word(float(total))


def check(words: Sequence[int], exponent: int | None = None) -> bool:
    """Check both passes; return whether the first one is certain."""
    assert by_digits(words) == expected(words)
    found = by_lanes(words, exponent)
    assert found in (UNCERTAIN, expected(words))
    return found != UNCERTAIN


any_word = st.integers(0, 2**32 - 1)
finite = st.builds(lambda sign, rest: sign << 31 | rest, st.integers(0, 1), st.integers(0, LARGEST))
near = st.builds(  # magnitudes close to each other, so that sums cancel and tie
    lambda sign, exponent, fraction: sign << 31 | exponent << 23 | fraction,
    st.integers(0, 1), st.integers(120, 134), st.sampled_from([0, 1, 2, 3, 0x400000, 0x7FFFFE, 0x7FFFFF]),
)  # fmt: skip
edges = st.sampled_from(
    [0, SIGN, TINY, TINY | SIGN, 0x7FFFFF, 0x800000, 0x800001, ONE, ONE | SIGN, HALF_UNIT, HALF_UNIT | SIGN,
     BELOW_HALF, LARGEST, LARGEST | SIGN, LARGEST - 1, 0x73000000, 0x72FFFFFF, 0x73000001]
)  # fmt: skip
not_finite_edges = st.sampled_from([INFINITE, INFINITE | SIGN, 0x7FC00000, 0xFFC00001, 0x7F800001])


@settings(max_examples=examples(1_000))
@given(
    words=st.one_of(
        *(st.lists(kind, min_size=1, max_size=12) for kind in (near, edges | near, finite, edges | finite)),
        st.lists(edges | near | not_finite_edges, min_size=1, max_size=12), st.lists(any_word, min_size=1),
    ),
    exponent=st.integers(0, 254),
)  # fmt: skip
@example(words=[ONE, HALF_UNIT, word(2.0**-80)], exponent=0)  # `math.fsum` rounds this twice
@example(words=[ONE, HALF_UNIT], exponent=0)  # a tie, to even
@example(words=[ONE + 1, HALF_UNIT], exponent=0)
@example(words=[ONE, HALF_UNIT, word(-(2.0**-149))], exponent=254)
@example(words=[LARGEST, LARGEST, LARGEST | SIGN, LARGEST | SIGN, TINY], exponent=0)  # partial sums overflow
@example(words=[LARGEST, 0x73000000], exponent=0)  # 2^103: the least that makes infinity of it
@example(words=[LARGEST, 0x73000000, TINY | SIGN], exponent=0)
@example(words=[LARGEST | SIGN] * 256, exponent=0)
@example(words=[TINY] * 256, exponent=0)
@example(words=[SIGN, SIGN, SIGN], exponent=254)
@example(words=[INFINITE, INFINITE | SIGN], exponent=0)
@example(words=[INFINITE | SIGN, LARGEST], exponent=0)
@example(words=[0x7FC00000, INFINITE], exponent=0)
@example(words=[SIGN, 0], exponent=0)
@example(words=[SIGN] * 256, exponent=0)
def test_sums_are_exact_and_rounded_once(words: list[int], exponent: int) -> None:
    check(words[:MAX_ADDENDS], exponent)


@settings(max_examples=examples(200))
@given(words=st.lists(near | edges, min_size=2, max_size=8), data=st.data())
def test_the_order_of_addends_and_their_distribution_do_not_matter(
    words: list[int], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(words))
    assert by_lanes(words) == by_lanes(shuffled) and by_digits(words) == by_digits(shuffled)


@pytest.mark.parametrize(
    "words",
    [
        [0, 0], [SIGN, SIGN], [ONE, ONE | SIGN], [ONE, HALF_UNIT], [ONE + 1, HALF_UNIT], [LARGEST, LARGEST],
        [ONE, word(2.0**-50)], [word(3e-39)] * 7, [TINY, TINY | SIGN],
    ],
)  # fmt: skip
def test_a_sum_without_truncated_bits_is_certain(words: list[int]) -> None:
    """Zeros, cancellation and ties, too, of which an interval that is not empty would have a boundary."""
    assert check(words)


def test_a_sum_next_to_a_rounding_boundary_with_truncated_bits_is_uncertain() -> None:
    tail = word(2.0**-60)
    assert not check([ONE, HALF_UNIT, tail])  # next to a tie
    assert not check([ONE, ONE | SIGN, tail])  # next to zero
    assert not check([INFINITE, ONE]) and check([ONE, word(2.0**-30), tail])
    assert not check(
        [ONE, ONE | SIGN, word(2.0**-51), tail]
    )  # a unit in the last place is less than the unit


@pytest.mark.parametrize("base", [ONE, ONE + 1], ids=["even", "odd"])
@pytest.mark.parametrize("side", [-1, 1])
def test_a_sum_is_certain_if_and_only_if_no_midpoint_is_in_its_interval(base: int, side: int) -> None:
    """Four addends: the interval is open, and ends 4 units of 2^-51 from the sum of what was sent."""
    for distance in range(9):
        words = [base, HALF_UNIT, word(side * distance * 2.0**-51), word(2.0**-60)]
        assert check(words) == (distance >= 4)
    opposite = [each ^ SIGN for each in (base, HALF_UNIT, word(4 * side * 2.0**-51), word(2.0**-60))]
    assert check(opposite)


@settings(max_examples=examples(300))
@given(st.lists(finite | near, min_size=1, max_size=6), st.integers(0, 254))
def test_a_truncated_value_is_less_than_a_unit_from_the_value(words: list[int], exponent: int) -> None:
    bits, exponent = lane_bits(len(words)), max(exponent, *map(exponent_of_word, words))
    unit = Fraction(2) ** (max(exponent, 1) - 126 - 2 * bits)
    for each in words:
        exact = Fraction(float(value(each)))
        sent = truncated(each, exponent, bits) * unit
        assert abs(sent) <= abs(exact) < abs(sent) + unit and (sent == exact) != is_cut(each, exponent, bits)
        lanes = (high_lane(each, exponent, bits) << bits) + low_lane(each, exponent, bits)
        assert lanes * unit == sent


def test_a_value_is_cut_from_the_first_bit_below_the_unit_on() -> None:
    """With 26 bits a lane, the last bit of 1 + 2^-23 is the unit if the chunk's exponent is 28 larger."""
    assert [is_cut(ONE + 1, 127 + more, 26) for more in (27, 28, 29, 30, 80, 127)] == [False] * 2 + [True] * 4
    assert not any(is_cut(ONE, 127 + more, 26) for more in range(52)) and is_cut(ONE, 127 + 52, 26)


def test_lanes_of_all_addends_fit() -> None:
    for addends in range(1, MAX_ADDENDS + 1):
        bits = lane_bits(addends)
        assert addends * (2**bits - 1) < 2**31 and addends * -(2**bits) >= -(2**31)
        assert 23 <= bits <= 26 and (bits == 26 or addends << bits + 1 > 2**31)
        assert digit_count(bits) * bits >= 277 > (digit_count(bits) - 1) * bits


@settings(max_examples=examples(500))
@given(st.integers(0, 2**61), st.integers(-210, 110))
def test_rounding_agrees_with_exact_rationals(magnitude: int, power: int) -> None:
    assume(magnitude == 0 or power + magnitude.bit_length() < 300)
    assert rounded(magnitude, power) == word(float(round_to_float32(magnitude * Fraction(2) ** power)))


def test_the_reference_agrees_with_numpy_and_rounds_once() -> None:
    rng = np.random.default_rng(1)
    for _ in range(500):
        one, other = rng.integers(0, 2**32, 2, np.uint32).view(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            total, ours = one + other, correctly_rounded_sum([one, other])
        assert (np.isnan(total) and np.isnan(ours)) or word(float(total)) == word(float(ours))
    three = [np.float32(each) for each in (1.0, 2.0**-24, 2.0**-80)]
    assert float(correctly_rounded_sum(three)) == 1 + 2.0**-23
    assert float(np.float32(math.fsum(map(float, three)))) == 1.0  # rounded twice
    vectors = rng.integers(0, 2**32, (5, 300), np.uint32).view(np.float32)
    vectors[:, ::7], vectors[1, ::5] = -0.0, -vectors[0, ::5]
    sums = correctly_rounded_sums(vectors)
    one_by_one = [correctly_rounded_sum(vectors[:, i]) for i in range(300)]
    assert np.array_equal(sums, one_by_one, equal_nan=True)
    assert np.signbit(sums[~np.isnan(sums)]).tolist() == [bool(np.signbit(s)) for s in one_by_one if s == s]
