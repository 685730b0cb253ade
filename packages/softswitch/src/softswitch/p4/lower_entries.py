"""Lowering of the entries of tables, and of the calls of actions in them."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4 import operands, tree, types
from softswitch.p4.constants import wrap
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.frames import Frame
from softswitch.p4.lower_expressions import lower
from softswitch.p4.lowering_state import TableSpec
from softswitch.p4.operands import Operand, Scalar

TOP_PRIORITY = (1 << 31) - 1
SELECTOR = "selector"


def lower_entries(table: tree.Table, spec: TableSpec, frame: Frame) -> list[ir.ConstEntry]:
    has_priority = any(part.kind.takes_priority for part in spec.key)
    numbers = priorities(table, frame)
    entries: list[ir.ConstEntry] = []
    elements = [each for each in table.key if each.kind != SELECTOR]
    for entry, number in zip(table.entries, numbers, strict=True):
        keys = expanded_keys(entry.keys, len(elements))
        key = tuple(
            _match(value, part, frame.type_of(element.expression), frame)
            for value, part, element in zip(keys, spec.key, elements, strict=True)
        )
        priority = TOP_PRIORITY - number if has_priority else 0
        entries.append(ir.ConstEntry(key, priority, lower_invocation(entry.action, spec, frame)))
    return entries


def priorities(table: tree.Table, frame: Frame) -> list[int]:
    """Return BMv2's priority of each entry: the first entry, or the one with the best priority, wins."""
    largest = table.properties.get("largest_priority_wins")
    largest_wins = largest is None or frame.evaluator.value(largest.value) is not False
    given = [entry.priority for entry in table.entries]
    if all(each is None for each in given):
        return [_annotated_priority(entry) or i for i, entry in enumerate(table.entries, 1)]
    delta_property = table.properties.get("priority_delta")
    delta = frame.evaluator.integer(delta_property.value) if delta_property is not None else 1
    numbers: list[int] = []
    step = -delta if largest_wins else delta
    first = 1 + delta * (len(given) - 1) if largest_wins else 1
    for entry, priority in zip(table.entries, given, strict=True):
        if priority is not None:
            number = frame.evaluator.integer(priority)
        else:
            number = numbers[-1] + step if numbers else first
        if number < 0:
            text = f"expected a priority of 0 or more, got {number}: `priority_delta` is {delta}"
            raise SourceError(entry, text)
        numbers.append(number)
    if not largest_wins:
        return numbers
    top = max(numbers) + 1
    return [top - number for number in numbers]


def _annotated_priority(entry: tree.Entry) -> int | None:
    """Return the number in `@priority(...)`, which p4c takes; the smallest wins."""
    for annotation in entry.annotations:
        if annotation.name == "priority" and annotation.integers:
            return annotation.integers[0]
    return None


def _match(value: tree.Expression, part: ir.KeyField, given: types.Type, frame: Frame) -> ir.Match:
    full = (1 << part.width) - 1
    if isinstance(value, tree.Default):
        if part.kind is ir.MatchKind.RANGE:
            return ir.RangeMatch(0, full)
        if part.kind is ir.MatchKind.EXACT:
            raise SourceError(value, "expected a value for an exact match, got one that matches all")
        return ir.Masked(0, 0)
    if isinstance(value, tree.Mask):
        number, mask = (lower_constant(each, given, frame) & full for each in (value.value, value.mask))
        if part.kind is ir.MatchKind.LPM and mask != full & ~(full >> mask.bit_count()):
            raise SourceError(value, f"expected the mask of a prefix, got {mask:#x}")
        if part.kind is ir.MatchKind.EXACT:
            raise SourceError(value, "expected a value for an exact match, got a mask")
        return ir.Masked(number & mask, mask)
    if isinstance(value, tree.Range):
        low, high = (lower_constant(each, given, frame) & full for each in (value.low, value.high))
        if part.kind is not ir.MatchKind.RANGE:
            raise SourceError(value, f"expected a value for a match of kind {part.kind.value}, got a range")
        return ir.RangeMatch(low, high)
    number = lower_constant(value, given, frame) & full
    if part.kind is ir.MatchKind.EXACT:
        return number
    return ir.RangeMatch(number, number) if part.kind is ir.MatchKind.RANGE else ir.Masked(number, full)


def lower_constant(value: tree.Expression, given: types.Type, frame: Frame) -> int:
    operand: Operand = lower(value, frame, given)
    if isinstance(operand, operands.Struct) and len(operand.fields) == 1:
        [operand] = operand.fields.values()
    if not isinstance(operand, Scalar) or not isinstance(operand.expression, ir.Constant):
        raise SourceError(value, "expected a value that is known when compiling")
    return wrap(operand.expression.value, given)


def expanded_keys(keys: list[tree.Expression], count: int) -> list[tree.Expression]:
    """Return one set for each part of a key; `default` stands for all of them."""
    if len(keys) == 1 and isinstance(keys[0], tree.ListExpression):
        return keys[0].elements
    if len(keys) == 1 and isinstance(keys[0], tree.Default):
        return keys * count
    return keys


def lower_invocation(value: tree.Expression, spec: TableSpec, frame: Frame) -> ir.Invocation:
    target = frame.facts.calls[value]
    index = next(i for i, each in spec.action_declarations.items() if each is target.declaration)
    arguments: list[int] = []
    for parameter, argument in zip(target.parameters, target.arguments, strict=True):
        expression = argument.value if argument is not None else parameter.default
        assert expression is not None
        operand = lower(expression, frame, frame.declared(parameter))
        if not isinstance(operand, Scalar) or not isinstance(operand.expression, ir.Constant):
            raise SourceError(expression, "expected a value that is known when compiling")
        arguments.append(
            operand.expression.value & ((1 << frame.state.actions[index].parameters[len(arguments)]) - 1)
        )
    return ir.Invocation(index, tuple(arguments))
