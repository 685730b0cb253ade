"""`group_action` of P4Runtime 1.6: a one-shot group's action, which runs before the selected member's.

The data plane runs one action per member. So for each action of scope `GROUP_ACTION`, and each other action
of its table, the program gets an action that runs both, with the parameters of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from softswitch import ir
from softswitch.ir import Program
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import P4Info
from softswitch.pipeline import ActionCall


def group_action(message: p4r.ActionProfileActionSet) -> p4r.Action | None:
    untyped: Any = message  # finsy's type hints lack the field
    return untyped.group_action if untyped.HasField("group_action") else None


def compose_calls(first: ActionCall, second: ActionCall) -> ActionCall:
    return ActionCall(_composed_name(first.name, second.name), (*first.args, *second.args))


def add_group_actions(program: Program, p4info: P4Info) -> Program:
    actions = list(program.actions)
    tables: dict[str, ir.Table] = {}
    for table_info in p4info.tables.values():
        table = program.tables.get(table_info.name)
        first_names = {action.name for action in table_info.group_actions.values()}
        if table is None or table.profile is None or not first_names:
            continue
        index_by_name = {program.actions[i].name: i for i in table.actions}
        action_indices, next_nodes = list(table.actions), dict(table.next_nodes)
        for first in sorted(first_names):
            for second in sorted(index_by_name.keys() - first_names):
                action_indices.append(len(actions))
                next_nodes[len(actions)] = table.next_nodes[index_by_name[second]]
                actions.append(
                    _compose_actions(*(program.actions[index_by_name[name]] for name in (first, second)))
                )
        tables[table_info.name] = replace(table, actions=tuple(action_indices), next_nodes=next_nodes)
    if not tables:
        return program
    ingress, egress = (
        replace(control, nodes={name: tables.get(name, node) for name, node in control.nodes.items()})
        for control in (program.ingress, program.egress)
    )
    return replace(program, actions=tuple(actions), ingress=ingress, egress=egress)


def _composed_name(first: str, second: str) -> str:
    return f"{first} + {second}"


def _compose_actions(first: ir.Action, second: ir.Action) -> ir.Action:
    second_body = _shift_indices(second.body, len(first.parameters), len(first.body))
    return ir.Action(
        name=_composed_name(first.name, second.name),
        parameters=(*first.parameters, *second.parameters),
        body=(*first.body, *second_body),
        locations=_texts_or_blanks(first.locations, len(first.body))
        + _texts_or_blanks(second.locations, len(second.body)),
        parameter_names=_texts_or_blanks(first.parameter_names, len(first.parameters))
        + _texts_or_blanks(second.parameter_names, len(second.parameters)),
    )


def _shift_indices(node: Any, parameter_shift: int, statement_shift: int) -> Any:
    """Return a part of an action body with its parameter indices and jump targets increased."""
    if type(node) is tuple:
        return tuple(_shift_indices(element, parameter_shift, statement_shift) for element in node)
    if not is_dataclass(node) or isinstance(node, type):
        return node
    values = {
        field.name: _shift_indices(getattr(node, field.name), parameter_shift, statement_shift)
        for field in fields(node)
    }
    if isinstance(node, ir.Parameter):
        values["index"] += parameter_shift
    elif isinstance(node, ir.Jump | ir.JumpIfZero):
        values["target_position"] += statement_shift
    return type(node)(**values)


def _texts_or_blanks(texts: Sequence[str], count: int) -> tuple[str, ...]:
    # A program's locations and parameter names are optional.
    return tuple(texts) if len(texts) == count else ("",) * count
