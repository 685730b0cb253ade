"""Compile P4 arithmetic to LLVM integers of N bits (`iN`).

BMv2 computes on integers of unlimited width and p4c writes each wrap as a mask, so an expression has one
exact value. Two facts bound the width of machine code: the low n bits of +, -, *, <<, &, |, ^ and ~ depend
only on the low n bits of the operands (`modulo`), and where all bits matter (comparisons, >>, conditions)
interval arithmetic gives their number (`exact`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.errors import UnsupportedConstruct
from softswitch.limits import MAX_EXPRESSION_BITS
from softswitch.llvmir import integer, resize, sign_extend
from softswitch.target import target_of

COMPARISONS = {
    ir.Op.EQ: "==",
    ir.Op.NE: "!=",
    ir.Op.LT: "<",
    ir.Op.GT: ">",
    ir.Op.LE: "<=",
    ir.Op.GE: ">=",
}


class Interval(NamedTuple):
    """Bounds of all values of an expression, both included."""

    low: int
    high: int

    @property
    def bits(self) -> int:
        """Bits that hold the interval, in two's complement if it includes negative numbers."""
        if self.low >= 0:
            return max(1, self.high.bit_length())
        return 1 + max((~self.low).bit_length(), max(self.high, 0).bit_length())


class Sources(Protocol):
    def type_of(self, ref: ir.LValue) -> ir.FieldType: ...

    def load_stored(self, ref: ir.LValue) -> llvm.Value:
        """Return a field's value in all of its stored bits (`FieldType.stored_bits`)."""

    def last_index(self, stack: int) -> llvm.Value:
        """Return the position of a stack's last element, an `i64`."""

    def lookahead(self, offset: int, width: int) -> llvm.Value:
        """Return `width` bits, `offset` bits after the parser's position."""

    def is_valid(self, header: int) -> llvm.Value: ...

    def parameter(self, index: int) -> llvm.Value:
        """Return a run-time parameter of the action being compiled, in its declared width."""


def _full_range(width: int, signed: bool) -> Interval:
    if signed:
        return Interval(-(1 << (width - 1)), (1 << (width - 1)) - 1)
    return Interval(0, (1 << width) - 1)


class Arithmetic:
    def __init__(self, builder: llvm.IRBuilder, sources: Sources) -> None:
        self.b = builder
        self.sources = sources

    def interval(self, expression: ir.Expression) -> Interval:
        match expression:
            case ir.Constant(value):
                return Interval(value, value)
            case ir.FieldRef() | ir.ElementField():
                declared = self.sources.type_of(expression)
                return Interval(declared.min_value, declared.max_value)
            case ir.Parameter(_, width) | ir.Lookahead(_, width):
                return _full_range(width, signed=False)
            case ir.LastIndex():
                return _full_range(64, signed=False)
            case ir.Cast(fit, _, width):
                return _full_range(width, signed=fit is not ir.Fit.SATURATE)
            case ir.Unary(ir.Op.COMPLEMENT, operand):
                operand_bounds = self.interval(operand)
                return Interval(~operand_bounds.high, ~operand_bounds.low)
            case ir.Ternary(_, left, right):
                left_bounds, right_bounds = self.interval(left), self.interval(right)
                return Interval(
                    min(left_bounds.low, right_bounds.low), max(left_bounds.high, right_bounds.high)
                )
            case ir.Binary(ir.Op.AND, left, right):
                return _and_bounds(*self._bounds_of_and(left, right))
            case ir.Binary(op, left, right) if op in BOUNDS:
                bounds = BOUNDS[op](self.interval(left), self.interval(right))
                if bounds.bits > MAX_EXPRESSION_BITS:
                    raise UnsupportedConstruct(
                        f"an expression of more than {MAX_EXPRESSION_BITS} bits (operator `{op.value}`)"
                    )
                return bounds
        return Interval(0, 1)  # comparisons, conditions and validity

    def _bounds_of_and(self, left: ir.Expression, right: ir.Expression) -> tuple[Interval, Interval]:
        """Return the bounds of both operands; one of too many bits has those of its mask.

        (A number that is shifted by 64 bits' worth of positions is emitted modulo the width of the mask.)
        """
        try:
            bounds = self.interval(left)
        except UnsupportedConstruct:
            mask = self.interval(right)
            if mask.low < 0:
                raise
            return mask, mask
        return bounds, self.interval(right)

    def modulo(self, expression: ir.Expression, width: int) -> llvm.Value:
        b = self.b
        match expression:
            case ir.Constant(value):
                return integer(width, value)
            case ir.FieldRef() | ir.ElementField():
                widen = sign_extend if self.sources.type_of(expression).signed else resize
                return widen(b, self.sources.load_stored(expression), width)
            case ir.LastIndex(stack):
                return resize(b, self.sources.last_index(stack), width)
            case ir.Lookahead(offset, bits):
                return resize(b, self.sources.lookahead(offset, bits), width)
            case ir.Parameter(index, _):
                return resize(b, self.sources.parameter(index), width)
            case ir.Cast(ir.Fit.WRAP_SIGNED, operand, bits):
                return sign_extend(b, self.modulo(operand, bits), width)
            case ir.Cast(_, operand, _):
                return self._saturate(operand, self.interval(expression), width)
            case ir.Binary(ir.Op.DIV | ir.Op.MOD as op, left, right):
                return self._divide(op, left, right, width)
            case ir.Ternary(condition, left, right):
                return b.select(self.truth(condition), self.modulo(left, width), self.modulo(right, width))
            case ir.Unary(ir.Op.COMPLEMENT, operand):
                return b.not_(self.modulo(operand, width))
            case ir.Binary(ir.Op.AND, left, right):
                bounds = self._bounds_of_and(left, right)
                # The result has no more bits than an operand that is not negative.
                needed_bits = min([width, *(side.bits for side in bounds if side.low >= 0)])
                return resize(
                    b, b.and_(self.modulo(left, needed_bits), self.modulo(right, needed_bits)), width
                )
            case ir.Binary(ir.Op.SHL, left, right):
                return self._shift_left(left, right, width)
            case ir.Binary(ir.Op.SHR, left, right):
                return self._shift_right(left, right, width)
            case ir.Binary(op, left, right) if op in (ir.Op.ADD, ir.Op.SUB, ir.Op.MUL, ir.Op.OR, ir.Op.XOR):
                emit = {
                    ir.Op.ADD: b.add,
                    ir.Op.SUB: b.sub,
                    ir.Op.MUL: partial(target_of(b.module).multiply, b),
                    ir.Op.OR: b.or_,
                    ir.Op.XOR: b.xor,
                }[op]
                return emit(self.modulo(left, width), self.modulo(right, width))
        return resize(b, self.truth(expression), width)

    def exact(self, expression: ir.Expression) -> tuple[llvm.Value, Interval]:
        """Emit an expression in all of its bits; it is signed if the interval includes negative numbers."""
        interval = self.interval(expression)
        return self.modulo(expression, interval.bits), interval

    def exact_modulo(self, expression: ir.Expression, width: int) -> llvm.Value:
        """Emit a number modulo 2^width, in as few bits as hold it if it is never negative."""
        interval = self.interval(expression)
        return self.modulo(expression, min(interval.bits, width) if interval.low >= 0 else width)

    def truth(self, expression: ir.Expression) -> llvm.Value:
        b = self.b
        match expression:
            case ir.IsValid(header):
                return self.sources.is_valid(header)
            case ir.Unary(ir.Op.NOT, operand):
                return b.not_(self.truth(operand))
            case ir.Binary(ir.Op.BOOL_AND, left, right):
                return b.and_(self.truth(left), self.truth(right))
            case ir.Binary(ir.Op.BOOL_OR, left, right):
                return b.or_(self.truth(left), self.truth(right))
            case ir.Binary(op, left, right) if op in COMPARISONS:
                return self._compare(op, left, right)
        value, _ = self.exact(expression)
        return b.icmp_unsigned("!=", value, integer(value.type.width, 0))

    def _compare(self, op: ir.Op, left: ir.Expression, right: ir.Expression) -> llvm.Value:
        left_bounds, right_bounds = self.interval(left), self.interval(right)
        signed = min(left_bounds.low, right_bounds.low) < 0
        width = Interval(
            min(left_bounds.low, right_bounds.low), max(left_bounds.high, right_bounds.high)
        ).bits
        values = [
            self._extend(side, interval, width)
            for side, interval in ((left, left_bounds), (right, right_bounds))
        ]
        compare = self.b.icmp_signed if signed else self.b.icmp_unsigned
        return compare(COMPARISONS[op], *values)

    def _extend(self, expression: ir.Expression, interval: Interval, width: int) -> llvm.Value:
        value = self.modulo(expression, interval.bits)
        if interval.low < 0 and interval.bits < width:
            return self.b.sext(value, llvm.IntType(width))
        return resize(self.b, value, width)

    def _saturate(self, operand: ir.Expression, bounds: Interval, width: int) -> llvm.Value:
        b = self.b
        operand_bounds = self.interval(operand)
        # One more bit is the sign, since the comparisons are signed.
        working_width = (
            Interval(min(operand_bounds.low, bounds.low), max(operand_bounds.high, bounds.high)).bits + 1
        )
        value = self._extend(operand, operand_bounds, working_width)
        for comparison, bound, is_reached in (
            (">", bounds.high, operand_bounds.high > bounds.high),
            ("<", bounds.low, operand_bounds.low < bounds.low),
        ):
            if is_reached:
                limit = integer(working_width, bound)
                value = b.select(b.icmp_signed(comparison, value, limit), limit, value)
        return sign_extend(b, value, width)

    def _divide(self, op: ir.Op, left: ir.Expression, right: ir.Expression, width: int) -> llvm.Value:
        """Emit quotient or remainder, 0 for a divisor of 0; BMv2 asserts that operands are not negative."""
        b = self.b
        dividend, left_bounds = self.exact(left)
        divisor, right_bounds = self.exact(right)
        if min(left_bounds.low, right_bounds.low) < 0:
            raise UnsupportedConstruct(f"`{op.value}` of numbers that may be negative")
        working_width = max(dividend.type.width, divisor.type.width)
        dividend, divisor = resize(b, dividend, working_width), resize(b, divisor, working_width)
        is_zero = b.icmp_unsigned("==", divisor, integer(working_width, 0))
        nonzero_divisor = b.select(is_zero, integer(working_width, 1), divisor)
        target = target_of(b.module)
        result = (target.quotient if op is ir.Op.DIV else target.remainder)(b, dividend, nonzero_divisor)
        return resize(b, b.select(is_zero, integer(working_width, 0), result), width)

    def _shift_left(self, left: ir.Expression, right: ir.Expression, width: int) -> llvm.Value:
        b = self.b
        value = self.modulo(left, width)
        amount, amount_interval = self.exact(right)
        # The amount is compared with `width`, so this number must fit, too.
        working_width = max(width, amount.type.width, width.bit_length() + 1)
        amount = (resize if amount_interval.low >= 0 else sign_extend)(b, amount, working_width)
        shifted = resize(
            b, target_of(b.module).shift(b, "shl", resize(b, value, working_width), amount), width
        )
        is_in_range = b.icmp_unsigned("<", amount, integer(working_width, width))
        return b.select(is_in_range, shifted, integer(width, 0))

    def _shift_right(self, left: ir.Expression, right: ir.Expression, width: int) -> llvm.Value:
        b = self.b
        value, interval = self.exact(left)
        amount, amount_interval = self.exact(right)
        working_width = max(value.type.width, amount.type.width, value.type.width.bit_length() + 1)
        amount = (resize if amount_interval.low >= 0 else sign_extend)(b, amount, working_width)
        limit = integer(working_width, working_width - 1)  # the largest shift that LLVM defines
        if interval.low < 0:
            wide = sign_extend(b, value, working_width)
            clamped = b.select(b.icmp_unsigned("<", amount, limit), amount, limit)
            shifted = target_of(b.module).shift(b, "ashr", wide, clamped)
            return (
                b.sext(shifted, llvm.IntType(width)) if width > working_width else resize(b, shifted, width)
            )
        is_in_range = b.icmp_unsigned("<=", amount, limit)
        clamped = b.select(is_in_range, amount, integer(working_width, 0))
        shifted = target_of(b.module).shift(b, "lshr", resize(b, value, working_width), clamped)
        return resize(b, b.select(is_in_range, shifted, integer(working_width, 0)), width)


def _corner_bounds(combine: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    def bounds(left: Interval, right: Interval) -> Interval:
        corners = [combine(x, y) for x in left for y in right]
        return Interval(min(corners), max(corners))

    return bounds


def _and_bounds(left: Interval, right: Interval) -> Interval:
    highs = [side.high for side in (left, right) if side.low >= 0]
    return Interval(0, min(highs)) if highs else _or_bounds(left, right)


def _or_bounds(left: Interval, right: Interval) -> Interval:
    bits = max(left.bits, right.bits)
    if min(left.low, right.low) >= 0:
        return Interval(0, (1 << bits) - 1)
    return Interval(-(1 << bits), (1 << bits) - 1)


def _shl_bounds(left: Interval, right: Interval) -> Interval:
    shift = min(max(right.high, 0), MAX_EXPRESSION_BITS + 1)  # `interval` refuses wider results
    # A negative number is smallest after the largest shift. A shift by a negative amount yields 0.
    return Interval(min(left.low << shift, left.low, 0), max(left.high << shift, left.high, 0))


def _shr_bounds(left: Interval, right: Interval) -> Interval:
    min_shift = max(right.low, 0)
    # A shift by a negative amount shifts out all bits.
    max_shift = MAX_EXPRESSION_BITS if right.low < 0 else min(right.high, MAX_EXPRESSION_BITS)
    return Interval(min(left.low >> min_shift, left.low >> max_shift), max(left.high >> min_shift, 0))


def _quotient_bounds(dividend: Interval, _: Interval) -> Interval:
    return Interval(min(dividend.low, 0), max(dividend.high, 0))


def _remainder_bounds(dividend: Interval, divisor: Interval) -> Interval:
    return Interval(0, max(min(dividend.high, divisor.high), 0))


BOUNDS: dict[ir.Op, Callable[[Interval, Interval], Interval]] = {
    ir.Op.DIV: _quotient_bounds,
    ir.Op.MOD: _remainder_bounds,
    ir.Op.ADD: _corner_bounds(lambda x, y: x + y),
    ir.Op.SUB: _corner_bounds(lambda x, y: x - y),
    ir.Op.MUL: _corner_bounds(lambda x, y: x * y),
    ir.Op.OR: _or_bounds,
    ir.Op.XOR: _or_bounds,
    ir.Op.SHL: _shl_bounds,
    ir.Op.SHR: _shr_bounds,
}
