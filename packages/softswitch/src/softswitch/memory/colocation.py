"""Find arrays whose cells a packet accesses at the same index, to interleave them in cache lines.

Arrays that an action accesses at one index are one group. Groups whose indices an action copies from each
other are neighbours: a packet that executes the action reaches all of them at one index.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


def neighbouring_groups(
    program: ir.Program, groups: Sequence[tuple[ArrayRef, ...]]
) -> list[list[tuple[ArrayRef, ...]]]:
    """Return `groups` of arrays in lists of those whose cells of one index should lie side by side.

    They have equally many cells, and an action copies the field that is an index of one from that of another.
    """
    group_of_array = {array: number for number, group in enumerate(groups) for array in group}
    groups_of_field: dict[ir.FieldRef, set[int]] = {}
    for action in program.actions:
        for array, index_source in cell_accesses(action):
            for field in fields_of(index_source):
                groups_of_field.setdefault(field, set()).add(group_of_array[array])
    joined = {number: {number} for number in range(len(groups))}
    for target, source in _copies(program):
        for number in groups_of_field.get(target, ()):
            for other in groups_of_field.get(source, ()):
                if _size(program, groups[number]) == _size(program, groups[other]):
                    merged = joined[number] | joined[other]
                    joined.update(dict.fromkeys(merged, merged))
    return [
        [groups[member] for member in sorted(joined[number])]
        for number in range(len(groups))
        if number == min(joined[number])
    ]


def _copies(program: ir.Program) -> Iterator[tuple[ir.FieldRef, ir.FieldRef]]:
    for action in program.actions:
        for statement in action.body:
            match statement:
                case ir.Assign(ir.FieldRef() as target, ir.FieldRef() as source):
                    yield target, source


def _size(program: ir.Program, group: tuple[ArrayRef, ...]) -> int:
    return declaration(program, group[0]).size


def fields_of(expression: object) -> Iterator[ir.FieldRef]:
    if isinstance(expression, ir.FieldRef):
        yield expression
    elif is_dataclass(expression):
        for part in fields(expression):
            yield from fields_of(getattr(expression, part.name))


def declaration(program: ir.Program, array: ArrayRef) -> ir.Counter | ir.Register:
    return (program.counters if array.is_counter else program.registers)[array.number]
