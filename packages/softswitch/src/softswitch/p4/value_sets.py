"""Value sets of parsers, and the calls of parsers in states, by which further ones are reached."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from softswitch import ir
from softswitch.p4 import tree, types
from softswitch.p4.frames import Frame
from softswitch.p4.objects import CallableObject, control_plane_name
from softswitch.p4.operand_values import default_value, flattened


@dataclass(slots=True)
class SubParser:
    """A call of a parser in a state, with the context in which its states are lowered."""

    found: CallableObject
    frame: Frame


def sub_parser(found: CallableObject, frame: Frame) -> SubParser:
    add_value_sets(found, frame)
    return SubParser(found, frame)


def add_value_sets(found: CallableObject, frame: Frame) -> None:
    """Add the value sets of a parser, unless it was called before."""
    state = frame.state
    for local in found.declaration.locals:
        if isinstance(local, tree.ValueSet) and (found, local) not in state.set_index:
            given = frame.declared(local)
            assert isinstance(given, types.Set)
            parts = flattened(default_value(given.element, frame, local), frame, local)
            widths = tuple(frame.storage.field_type(each.type, "", local).width for each in parts)
            state.set_index[found, local] = len(state.value_sets)
            size = frame.evaluator.integer(local.size)
            state.value_sets.append(ir.ValueSet(control_plane_name(local, found.path), widths, size))


def finished_value_sets(sets: list[ir.ValueSet], states: Iterable[ir.ParserState]) -> tuple[ir.ValueSet, ...]:
    """Return the value sets; BMv2's JSON has the widths of a member's parts only in a select."""
    used = {case.value_set for state in states for case in state.cases}
    return tuple(
        each if number in used else replace(each, widths=(sum(each.widths),))
        for number, each in enumerate(sets)
    )
