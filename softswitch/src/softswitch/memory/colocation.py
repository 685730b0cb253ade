"""Find arrays whose cells an action accesses at the same index, to interleave them in cache lines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import combinations
from typing import NamedTuple

from softswitch import ir


class ArrayRef(NamedTuple):
    is_counter: bool
    number: int


class CellAccess(NamedTuple):
    """An access to a cell; `index_source` is the cell's index, computed from fields before the action."""

    array: ArrayRef
    index_source: ir.Expression


def cell_accesses(action: ir.Action) -> Iterator[CellAccess]:
    assignments: dict[ir.Expression, ir.Expression] = {}
    for statement in action.body:
        match statement:
            case ir.RegisterRead(target, number, index):
                yield CellAccess(ArrayRef(is_counter=False, number=number), assignments.get(index, index))
                assignments.pop(target, None)
            case ir.RegisterWrite(number, index, _):
                yield CellAccess(ArrayRef(is_counter=False, number=number), assignments.get(index, index))
            case ir.Count(number, index):
                yield CellAccess(ArrayRef(is_counter=True, number=number), assignments.get(index, index))
            case ir.Assign(ir.FieldRef() as target, value):
                assignments[target] = value


def colocated_arrays(program: ir.Program) -> list[tuple[ArrayRef, ...]]:
    """Return groups of arrays of equal size to interleave; each array is in at most one group."""
    groups: dict[ArrayRef, set[ArrayRef]] = {}
    for action in program.actions:
        accesses = [(a.array, set(fields_of(a.index_source))) for a in cell_accesses(action)]
        for (array, sources), (other_array, other_sources) in combinations(accesses, 2):
            has_equal_size = declaration(program, array).size == declaration(program, other_array).size
            if array != other_array and sources & other_sources and has_equal_size:
                merged_group = groups.get(array, {array}) | groups.get(other_array, {other_array})
                groups.update(dict.fromkeys(merged_group, merged_group))
    # Each array refers to its whole group, which is returned once; counters come first.
    return list(
        dict.fromkeys(
            tuple(sorted(group, key=lambda array: (not array.is_counter, array.number)))
            for group in groups.values()
        )
    )


def fields_of(expression: object) -> Iterator[ir.FieldRef]:
    if isinstance(expression, ir.FieldRef):
        yield expression
    elif is_dataclass(expression):
        for part in fields(expression):
            yield from fields_of(getattr(expression, part.name))


def declaration(program: ir.Program, array: ArrayRef) -> ir.Counter | ir.Register:
    return (program.counters if array.is_counter else program.registers)[array.number]
