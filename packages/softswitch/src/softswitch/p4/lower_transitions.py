"""Lowering of transitions of parser states, and of the cases of their selects."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TypeGuard

from softswitch import ir
from softswitch.p4 import arithmetic, tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.frames import Frame
from softswitch.p4.lower_entries import expanded_keys, lower_constant
from softswitch.p4.lower_expressions import lower
from softswitch.p4.operand_copies import saved
from softswitch.p4.operand_values import flattened
from softswitch.p4.operands import Scalar

ALL_BITS = -1
MAX_RANGE_CASES = 1 << 10


@dataclass(slots=True)
class Ending:
    """How a state ends: by a select over a key."""

    key: tuple[ir.KeyPart, ...] = ()
    cases: tuple[ir.Case, ...] = ()

    @classmethod
    def to(cls, state: int | None) -> Ending:
        return cls((), (ir.Case(0, 0, state),))


def lower_transition(state: tree.State, targets: dict[str, int | None], frame: Frame) -> Ending:
    if state.next is None:
        return Ending.to(None)
    if isinstance(state.next, str):
        return Ending.to(targets[state.next])
    parts: list[ir.KeyPart] = []
    kinds: list[types.Type] = []
    for value in state.next.values:
        for part in flattened(lower(value, frame), frame, value):
            expression = part.expression
            if _is_key_part(expression):
                parts.append(expression)
            else:
                parts.append(saved(Scalar(expression, part.type), frame, value))
            kinds.append(part.type)
    if not parts:
        first = state.next.cases[0].state if state.next.cases else "reject"
        return Ending.to(targets[first])
    widths = [
        frame.storage.field_type(types.Bits(32) if kind == types.INT else kind, "", state).width
        for kind in kinds
    ]
    cases: list[ir.Case] = []
    for case in state.next.cases:
        cases += _cases(case, kinds, widths, targets[case.state], frame)
        always = next((i for i, each in enumerate(cases) if _matches_always(each)), None)
        if always is not None:
            del cases[always + 1 :]
            break
    return Ending(tuple(parts), tuple(cases))


def _cases(
    case: tree.SelectCase, kinds: list[types.Type], widths: list[int], target: int | None, frame: Frame
) -> list[ir.Case]:
    if len(case.keys) == 1 and (number := _value_set(case.keys[0], frame)) is not None:
        return [ir.Case(0, ALL_BITS, target, number)]
    keys = expanded_keys(case.keys, len(kinds))
    if all(isinstance(key, tree.Default) for key in keys):
        return [ir.Case(0, 0, target)]
    if len(keys) != len(kinds):
        raise SourceError(case, f"expected {len(kinds)} values, got {len(keys)}")
    choices = [_masks(key, kind, width, frame) for key, kind, width in zip(keys, kinds, widths, strict=True)]
    is_exact = not any(isinstance(key, tree.Default | tree.Mask | tree.Range) for key in keys)
    cases: list[ir.Case] = []
    for chosen in product(*choices):
        value = ir.join_key((value & mask for value, mask in chosen), widths)
        mask = ALL_BITS if is_exact else ir.join_key((mask for _, mask in chosen), widths)
        cases.append(ir.Case(value, mask, target))
    if len(cases) > MAX_RANGE_CASES:
        raise SourceError(case, f"expected ranges of at most {MAX_RANGE_CASES} prefixes, got {len(cases)}")
    return cases


def _value_set(key: tree.Expression, frame: Frame) -> int | None:
    declaration = frame.facts.references.get(key)
    if not isinstance(declaration, tree.ValueSet):
        return None
    return frame.state.set_index[frame.owner, declaration]


def _masks(key: tree.Expression, kind: types.Type, width: int, frame: Frame) -> list[tuple[int, int]]:
    """Return the values and masks of a part of a case; a range becomes several."""
    full = arithmetic.mask_of(width)
    if isinstance(key, tree.Default):
        return [(0, 0)]
    if isinstance(key, tree.Mask):
        value, mask = (lower_constant(each, kind, frame) & full for each in (key.value, key.mask))
        return [(value & mask, mask)]
    if isinstance(key, tree.Range):
        low, high = (lower_constant(each, kind, frame) & full for each in (key.low, key.high))
        return range_masks(low, high, width)
    return [(lower_constant(key, kind, frame) & full, full)]


def _is_key_part(expression: ir.Expression) -> TypeGuard[ir.KeyPart]:
    """Return whether BMv2 can select on an expression: a field, also of the last element of a stack."""
    match expression:
        case ir.FieldRef() | ir.Lookahead():
            return True
        case ir.ElementField(ir.Element(stack, index)):
            return index == ir.LastIndex(stack)
    return False


def _matches_always(case: ir.Case) -> bool:
    return case.mask == 0 and case.value_set is None


def range_masks(low: int, high: int, width: int) -> list[tuple[int, int]]:
    """Return prefixes, as values and masks, that cover a range."""
    found: list[tuple[int, int]] = []
    full = arithmetic.mask_of(width)
    while low <= high:
        size = low & -low or 1 << width
        while low + size - 1 > high:
            size >>= 1
        found.append((low, full & ~(size - 1)))
        low += size
    return found
