"""Leave out temporary variables of actions that have a value for the next statement only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import fields, is_dataclass, replace

from softswitch import ir
from softswitch.ir.names import SCALARS

_Jumping = ir.Jump | ir.JumpIfZero


def without_temporaries(program: ir.Program, metadata: Collection[tuple[int, int]]) -> ir.Program:
    """Let `t = e; x = t` of an action be `x = e` where nothing else of the program mentions `t`.

    The fields of the program's `metadata`, each a header and a field, remain for traces.
    """
    scalars = next((i for i, header in enumerate(program.headers) if header.name == SCALARS), None)
    if scalars is None:
        return program
    mentions: Counter[ir.FieldRef] = Counter()
    for field in fields(program):
        if field.name != "field_index":
            _count(getattr(program, field.name), mentions)
    temporary = {
        each
        for each, count in mentions.items()
        if each.header == scalars and count == 2 and (each.header, each.field) not in metadata
    }
    if not temporary:
        return program
    types = [header.fields for header in program.headers]
    return replace(program, actions=tuple(_shortened(each, temporary, types) for each in program.actions))


def _count(part: object, mentions: Counter[ir.FieldRef]) -> None:
    stack = [part]
    while stack:
        each = stack.pop()
        if isinstance(each, ir.FieldRef):
            mentions[each] += 1
        elif isinstance(each, tuple | list):
            stack += each
        elif isinstance(each, dict):
            stack += each.values()
        elif is_dataclass(each):
            stack += [getattr(each, field.name) for field in fields(each)]


def _shortened(
    action: ir.Action, temporary: set[ir.FieldRef], types: list[tuple[ir.FieldType, ...]]
) -> ir.Action:
    targets = {each.target_position for each in action.body if isinstance(each, _Jumping)}
    body: list[ir.Statement] = []
    origins: list[int] = []
    """The first statement of the action that each statement of the body is."""
    for i, statement in enumerate(action.body):
        before = body[-1] if body and i not in targets else None
        match before, statement:
            case ir.Assign(ir.FieldRef() as one, value), ir.Assign(ir.FieldRef() as target, read) if (
                one == read and one in temporary
            ):
                if _has_type_of(types[one.header][one.field], types[target.header][target.field]):
                    body[-1] = ir.Assign(target, value)
                    continue
        body.append(statement)
        origins.append(i)
    if len(body) == len(action.body):
        return action
    new_positions = {old: sum(each < old for each in origins) for old in targets}
    moved = [
        replace(each, target_position=new_positions[each.target_position])
        if isinstance(each, _Jumping)
        else each
        for each in body
    ]
    locations = tuple(action.locations[i] for i in origins) if action.locations else ()
    return replace(action, body=tuple(moved), locations=locations)


def _has_type_of(one: ir.FieldType, other: ir.FieldType) -> bool:
    return (one.width, one.signed, one.varbit) == (other.width, other.signed, other.varbit)
