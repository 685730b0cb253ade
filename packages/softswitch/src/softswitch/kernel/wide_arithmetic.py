"""Arithmetic for which LLVM calls functions that the kernel lacks: wider than 64 bits, or with a `double`."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch.codegen.loops import Variable, repeat_while
from softswitch.codegen.wire import join, split
from softswitch.llvmir import I1, I32, integer, resize, sign_extend

WORD = 64  # bits
_HALF = 32
_LOG2_WORD = 6
_HALF_MASK = (1 << _HALF) - 1


def multiply(b: llvm.IRBuilder, left: llvm.Value, right: llvm.Value) -> llvm.Value:
    """Return the product modulo 2^width, by long multiplication of 32-bit digits."""
    width = left.type.width
    count = -(-width // _HALF)
    left_digits, right_digits = _digits(b, left, count), _digits(b, right, count)
    columns: list[llvm.Value] = [integer(WORD, 0)] * (count + 1)
    for i, left_digit in enumerate(left_digits):
        for j, right_digit in enumerate(right_digits[: count - i]):
            product = b.mul(left_digit, right_digit)
            columns[i + j] = b.add(columns[i + j], b.and_(product, integer(WORD, _HALF_MASK)))
            columns[i + j + 1] = b.add(columns[i + j + 1], b.lshr(product, integer(WORD, _HALF)))
    result: llvm.Value = integer(width, 0)
    carry: llvm.Value = integer(WORD, 0)
    for position, column in enumerate(columns[:count]):
        digit_sum = b.add(column, carry)
        digit = resize(b, b.and_(digit_sum, integer(WORD, _HALF_MASK)), width)
        result = b.or_(result, b.shl(digit, integer(width, _HALF * position)))
        carry = b.lshr(digit_sum, integer(WORD, _HALF))
    return result


def _digits(b: llvm.IRBuilder, value: llvm.Value, count: int) -> list[llvm.Value]:
    wide = resize(b, value, max(count * _HALF, WORD))
    parts = (b.lshr(wide, integer(wide.type.width, _HALF * i)) if i else wide for i in range(count))
    return [b.and_(resize(b, part, WORD), integer(WORD, _HALF_MASK)) for part in parts]


def divide(b: llvm.IRBuilder, dividend: llvm.Value, divisor: llvm.Value) -> tuple[llvm.Value, llvm.Value]:
    """Return quotient and remainder of unsigned numbers, by long division of bits."""
    kind, width = dividend.type, dividend.type.width
    one = integer(width, 1)
    # The rest of the dividend is in the high bits of `quotient`, above the quotient's bits so far.
    quotient, remainder, step = Variable(b, kind, dividend), Variable(b, kind), Variable(b, I32)
    with repeat_while(b, lambda: b.icmp_unsigned("<", step.get(), integer(32, width))):
        quotient_bits, remainder_bits = quotient.get(), remainder.get()
        overflows = b.trunc(b.lshr(remainder_bits, integer(width, width - 1)), I1)
        remainder_bits = b.or_(b.shl(remainder_bits, one), b.lshr(quotient_bits, integer(width, width - 1)))
        divisor_fits = b.or_(overflows, b.icmp_unsigned(">=", remainder_bits, divisor))
        remainder.set(b.select(divisor_fits, b.sub(remainder_bits, divisor), remainder_bits))
        quotient.set(b.or_(b.shl(quotient_bits, one), resize(b, divisor_fits, width)))
        step.set(b.add(step.get(), integer(32, 1)))
    return quotient.get(), remainder.get()


def shift(b: llvm.IRBuilder, operation: str, value: llvm.Value, amount: llvm.Value) -> llvm.Value:
    """Shift by `shl`, `lshr` or `ashr`, whole words first; the amount is less than the width."""
    width = value.type.width
    bits = -(-width // WORD) * WORD
    is_left, is_signed = operation == "shl", operation == "ashr"
    words = split(b, (sign_extend if is_signed else resize)(b, value, bits))
    fill = b.ashr(words[-1], integer(WORD, WORD - 1)) if is_signed else integer(WORD, 0)
    if is_left:
        words.reverse()  # from here on, bits move from the next word to each word
    amount = resize(b, amount, WORD)
    word_count, bit_count = b.lshr(amount, integer(WORD, _LOG2_WORD)), b.and_(amount, integer(WORD, WORD - 1))
    for power in range((len(words) - 1).bit_length()):
        is_bit_set = b.trunc(b.lshr(word_count, integer(WORD, power)), I1)
        moved_words = [*words[1 << power :], *[fill] * min(1 << power, len(words))]
        words = [
            b.select(is_bit_set, moved_word, word)
            for moved_word, word in zip(moved_words, words, strict=True)
        ]
    shift_bits, shift_carry = (b.shl, b.lshr) if is_left else (b.lshr, b.shl)
    # The carry is shifted in two steps, as LLVM does not define a shift of a whole word.
    carry_count = b.sub(integer(WORD, WORD - 1), bit_count)
    shifted = [
        b.or_(shift_bits(word, bit_count), shift_carry(shift_carry(next_word, integer(WORD, 1)), carry_count))
        for word, next_word in zip(words, [*words[1:], fill], strict=True)
    ]
    return resize(b, join(b, [(word, WORD) for word in (shifted if is_left else reversed(shifted))]), width)


_FRACTION = 52  # bits of a double's fraction
_BIAS = 1075  # a double with the biased exponent e is its 53-bit significand times 2^(e - 1075)


def scale_by_double(b: llvm.IRBuilder, number: llvm.Value, factor: llvm.Value) -> llvm.Value:
    """Return floor(number x factor), where the product is rounded as a CPU rounds a product of doubles.

    `number` is below 2^53; `factor` has the bits of a finite double that is not negative.
    """

    def word(value: int) -> llvm.Constant:
        return integer(WORD, value)

    exponent = b.lshr(factor, word(_FRACTION))
    factor_significand = b.or_(b.and_(factor, word((1 << _FRACTION) - 1)), word(1 << _FRACTION))
    product = multiply(b, resize(b, number, 2 * WORD), resize(b, factor_significand, 2 * WORD))
    low, high = resize(b, product, WORD), resize(b, b.lshr(product, integer(2 * WORD, WORD)), WORD)
    # `ctlz` with false is defined for 0, too.
    has_high = b.icmp_unsigned("!=", high, word(0))
    product_bits = b.select(
        has_high,
        b.sub(word(2 * WORD), b.ctlz(high, integer(1, 0))),
        b.sub(word(WORD), b.ctlz(low, integer(1, 0))),
    )
    # Round to 53 bits, ties to even.
    excess = b.sub(product_bits, word(_FRACTION + 1))
    needs_rounding = b.icmp_signed(">", excess, word(0))
    # Without rounding, 1 keeps the shifts below defined; their result is not used.
    dropped_count = b.select(needs_rounding, excess, word(1))
    truncated = b.or_(
        b.lshr(low, dropped_count), b.shl(high, b.and_(b.sub(word(WORD), dropped_count), word(WORD - 1)))
    )
    dropped = b.and_(low, b.sub(b.shl(word(1), dropped_count), word(1)))
    half = b.shl(word(1), b.sub(dropped_count, word(1)))
    is_odd = b.icmp_unsigned("!=", b.and_(truncated, word(1)), word(0))
    rounds_up = b.or_(
        b.icmp_unsigned(">", dropped, half),
        b.and_(b.icmp_unsigned("==", dropped, half), is_odd),
    )
    significand = b.select(needs_rounding, b.add(truncated, resize(b, rounds_up, WORD)), low)
    power = b.sub(b.add(exponent, b.select(needs_rounding, excess, word(0))), word(_BIAS))
    shifted_left = b.shl(significand, b.and_(power, word(WORD - 1)))
    right_count = b.sub(word(0), power)
    shifted_right = b.select(
        b.icmp_unsigned("<", right_count, word(WORD)),
        b.lshr(significand, b.and_(right_count, word(WORD - 1))),
        word(0),
    )
    result = b.select(b.icmp_signed(">=", power, word(0)), shifted_left, shifted_right)
    # With the exponent 0, the factor is 0 or so small that the product is below 1.
    return b.select(b.icmp_unsigned("==", exponent, word(0)), word(0), result)
