"""Which registers and counters lie cell beside cell: those that an action reaches by the same field.

A packet that reads the one then finds the other in the same cache line. They have as many cells each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import combinations
from typing import Any, NamedTuple

from softswitch import ir


class ArrayRef(NamedTuple):
    """A register or counter, by its number."""

    is_counter: bool
    number: int


class CellAccess(NamedTuple):
    """A cell that an action reaches, by an index in terms of what fields held before the action."""

    array: ArrayRef
    index_source: ir.Expression


def cell_accesses(action: ir.Action) -> Iterator[CellAccess]:
    """Cells of registers and counters that an action's statements reach."""
    assigned: dict[ir.Expression, ir.Expression] = {}
    for statement in action.body:
        match statement:
            case ir.RegisterRead(target, number, index):
                yield CellAccess(ArrayRef(False, number), assigned.get(index, index))
                assigned.pop(target, None)
            case ir.RegisterWrite(number, index, _):
                yield CellAccess(ArrayRef(False, number), assigned.get(index, index))
            case ir.Count(number, index):
                yield CellAccess(ArrayRef(True, number), assigned.get(index, index))
            case ir.Assign(ir.FieldRef() as target, value):
                assigned[target] = value


def colocated_arrays(program: ir.Program) -> list[tuple[ArrayRef, ...]]:
    """Arrays of as many cells that lie beside each other; each is in one of these at most."""
    groups: dict[ArrayRef, set[ArrayRef]] = {}
    for action in program.actions:
        found = [(use.array, set(fields_of(use.index_source))) for use in cell_accesses(action)]
        for (one, index_source), (other, by_other) in combinations(found, 2):
            if one != other and index_source & by_other and _cells(program, one) == _cells(program, other):
                joined = groups.get(one, {one}) | groups.get(other, {other})
                groups.update(dict.fromkeys(joined, joined))
    return list(dict.fromkeys(tuple(sorted(group, reverse=True)) for group in groups.values()))


def fields_of(expression: Any) -> Iterator[ir.FieldRef]:
    """Fields in an expression."""
    if isinstance(expression, ir.FieldRef):
        yield expression
    elif is_dataclass(expression):
        for part in fields(expression):
            yield from fields_of(getattr(expression, part.name))


def _cells(program: ir.Program, array: ArrayRef) -> int:
    return (program.counters if array.is_counter else program.registers)[array.number].size
