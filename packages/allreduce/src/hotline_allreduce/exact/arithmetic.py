"""Float32 sums by integer lanes: which integers a worker sends, and which float their sums are.

A value is sent as two lanes of w bits. The unit of the low lane is 2^-2w of the smallest power of two above
all values of the chunk. A worker truncates toward zero to that unit, so its error is below one unit, and the
exact sum of n addends is in (T - n, T + n), in units, where T is the sum of what was sent. If nothing was
cut off, the exact sum is T. Otherwise the rounded sum is certain if the whole interval rounds to one float.

A value whose sum is not certain is sent as *digits*: lanes of w bits that cover all of float32's range, and
a lane that counts infinities and NaNs. Their sums are exact.

All functions use integers only. A *word* is the 32 bits of a float32 (IEEE 754). An *exponent* is the biased
one, 0 to 255, in which 255 is that of infinities and NaNs.

- A sum of zero is +0, and -0 if all addends are -0. An addend of -0 is sent as lanes 1 and -2^w, whose sum
  is 0; the low lane's sum is -n * 2^w only if all n addends are -0.
- An infinite addend makes the sum infinite; infinities of both signs, or a NaN, make it `NAN`.
- An exact sum of 2^128 - 2^103 or more rounds to infinity (round to nearest), whatever partial sums are.
"""

from __future__ import annotations

from nativekit.compile import compiled
from nativekit.records import Ints

MAX_ADDENDS = 256
MAX_LANE_BITS = 26
"""Maximum of w: so that 4 * 32 * 2^2w, which is computed, is far below 2^63."""
SIGN, INFINITY, NAN, NEGATIVE_ZERO = 1 << 31, 0x7F800000, 0x7FC00000, 1 << 31  # words
UNCERTAIN = -1  # instead of a word
MANTISSA_BITS, MAX_EXPONENT = 23, 255
MIN_POWER = -149  # 2^-149 is the smallest float32 above 0
_RANGE_BITS = 277  # from 2^-149 to below 2^128
_POSITIVE, _NEGATIVE, _NANS = 1, 1 << 9, 1 << 18  # units of the lane that counts infinities and NaNs


@compiled
def lane_bits(addends: int) -> int:
    """Return w, for which the sum of `addends` lanes from -2^w to 2^w - 1 fits in 32 bits with a sign."""
    bits = MAX_LANE_BITS
    while addends << bits > 1 << 31:
        bits -= 1
    return bits


@compiled
def digit_count(bits: int) -> int:
    return (_RANGE_BITS + bits - 1) // bits


@compiled
def exponent_of_word(word: int) -> int:
    return word >> MANTISSA_BITS & MAX_EXPONENT


@compiled
def _mantissa(word: int) -> int:
    fraction = word & (1 << MANTISSA_BITS) - 1
    return fraction | 1 << MANTISSA_BITS if exponent_of_word(word) else fraction


@compiled
def _with_sign(word: int, magnitude: int) -> int:
    return -magnitude if word & SIGN else magnitude


@compiled
def _lane_shift(word: int, exponent: int, bits: int) -> int:
    """Return by how many bits a mantissa is shifted to the left to be in units of the low lane."""
    return 2 * bits - 1 - MANTISSA_BITS + max(exponent_of_word(word), 1) - max(exponent, 1)


@compiled
def truncated(word: int, exponent: int, bits: int) -> int:
    """Return a finite value in units of the low lane, truncated toward zero; `exponent` is the chunk's."""
    shift = _lane_shift(word, exponent, bits)
    magnitude = _mantissa(word) << shift if shift >= 0 else _mantissa(word) >> min(-shift, 63)
    return _with_sign(word, magnitude)


@compiled
def is_cut(word: int, exponent: int, bits: int) -> bool:
    """Return whether `truncated` has cut off bits that are not 0."""
    shift = _lane_shift(word, exponent, bits)
    return shift < 0 and _mantissa(word) & (1 << min(-shift, 62)) - 1 != 0


@compiled
def high_lane(word: int, exponent: int, bits: int) -> int:
    if word == NEGATIVE_ZERO:
        return 1
    return _with_sign(word, abs(truncated(word, exponent, bits)) >> bits)


@compiled
def low_lane(word: int, exponent: int, bits: int) -> int:
    if word == NEGATIVE_ZERO:
        return -(1 << bits)
    return _with_sign(word, abs(truncated(word, exponent, bits)) & (1 << bits) - 1)


@compiled
def rounded(magnitude: int, power: int) -> int:
    """Return the word of magnitude * 2^power, rounded to nearest, ties to even; `magnitude` < 2^62."""
    length = 0
    while magnitude >> length:
        length += 1
    shift = max(length - MANTISSA_BITS - 1, MIN_POWER - power)  # to a unit in the last place
    if shift <= 0:
        mantissa = magnitude << -shift
    else:
        shift_within_word = min(shift, 63)
        mantissa = magnitude >> shift_within_word
        rest = magnitude - (mantissa << shift_within_word)
        half = 1 << min(shift - 1, 62)
        mantissa += rest > half or (rest == half and mantissa & 1)
    if mantissa == 0:
        return 0
    # The mantissa's leading bit adds 1 to the exponent, unless the value is subnormal; so does rounding up.
    return min((power + shift - MIN_POWER << MANTISSA_BITS) + mantissa, INFINITY)


@compiled
def sum_of_lanes(high: int, low: int, has_cut: bool, addends: int, exponent: int) -> int:
    """Return the word of a sum, correctly rounded, or UNCERTAIN; `high` and `low` are sums of lanes."""
    bits = lane_bits(addends)
    if exponent == MAX_EXPONENT:  # an addend of the chunk is not finite
        return UNCERTAIN
    if low == -(addends << bits):
        return NEGATIVE_ZERO
    total = (high << bits) + low
    sign, magnitude = SIGN if total < 0 else 0, abs(total)
    power = max(exponent, 1) - 126 - 2 * bits  # of the low lane's unit
    if not has_cut:
        return sign | rounded(magnitude, power)
    if magnitude < addends:  # the sign is not certain
        return UNCERTAIN
    # In quarters of the unit no midpoint of two floats is odd. So these two round as the interval's ends do.
    smallest = rounded(4 * magnitude - 4 * addends + 1, power - 2)
    largest = rounded(4 * magnitude + 4 * addends - 1, power - 2)
    return sign | smallest if smallest == largest else UNCERTAIN


@compiled
def digit(word: int, index: int, bits: int) -> int:
    """Return a digit of a value, the lowest of which is in units of 2^-149; 0 for what is not finite."""
    if word == NEGATIVE_ZERO:
        return -(1 << bits) if index == 0 else int(index == 1)
    shift = max(exponent_of_word(word), 1) - 1 - index * bits
    if exponent_of_word(word) == MAX_EXPONENT or shift >= bits or shift < -MANTISSA_BITS:
        return 0
    magnitude = _mantissa(word) << shift if shift >= 0 else _mantissa(word) >> -shift
    return _with_sign(word, magnitude & (1 << bits) - 1)


@compiled
def not_finite(word: int) -> int:
    """Return a value's addend to the lane that counts infinities and NaNs."""
    if exponent_of_word(word) != MAX_EXPONENT:
        return 0
    if word & (1 << MANTISSA_BITS) - 1:
        return _NANS
    return _NEGATIVE if word & SIGN else _POSITIVE


@compiled
def sum_of_digits(digits: Ints, count: int, not_finite_sum: int, addends: int) -> int:
    """Return the word of a sum, correctly rounded; `digits` [>= count] are sums, and are overwritten."""
    has_positive, has_negative = not_finite_sum & _NEGATIVE - 1 != 0, not_finite_sum & _NANS - _NEGATIVE != 0
    if not_finite_sum >= _NANS or (has_positive and has_negative):
        return NAN
    if not_finite_sum:
        return SIGN | INFINITY if has_negative else INFINITY
    bits = lane_bits(addends)
    if digits[0] == -(addends << bits):
        return NEGATIVE_ZERO
    _carry(digits, count, bits)
    sign = 0
    if digits[count - 1] < 0:
        sign = SIGN
        for j in range(count):
            digits[j] = -digits[j]
        _carry(digits, count, bits)
    j, magnitude = count, 0
    while j > 0 and magnitude < 1 << 30:
        j -= 1
        magnitude = magnitude << bits | digits[j]
    power = MIN_POWER + j * bits
    has_more = False
    while j > 0:
        j -= 1
        has_more = has_more or digits[j] != 0
    # The magnitude has more than 30 bits if lower digits follow, so one more bit stands for them.
    return sign | rounded(2 * magnitude + has_more, power - 1)


@compiled
def _carry(digits: Ints, count: int, bits: int) -> None:
    """Bring all digits but the last into the range from 0 to 2^bits - 1; the last has the sum's sign."""
    for j in range(count - 1):
        carry = digits[j] >> bits
        digits[j] -= carry << bits
        digits[j + 1] += carry
