"""Changes of actions that are made already: statements are left out, and bodies joined."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from typing import TypeGuard

from softswitch import ir

Jumping = ir.Jump | ir.JumpIfZero


def is_hidden(node: object) -> TypeGuard[ir.Table]:
    """Return whether a node is a table that the compiler has made to run statements."""
    return isinstance(node, ir.Table) and not node.key and node.name.startswith("$")


def shortened(action: ir.Action, dropped: Container[int]) -> ir.Action:
    """Return an action without the statements at some positions; jumps to them go on after them."""
    remaining = [i for i in range(len(action.body)) if i not in dropped]
    if len(remaining) == len(action.body):
        return action
    moved: dict[int, int] = {}
    count = 0
    for i in range(len(action.body) + 1):
        moved[i] = count
        count += i < len(action.body) and i not in dropped
    body = tuple(
        replace(each, target_position=moved[each.target_position]) if isinstance(each, Jumping) else each
        for each in (action.body[i] for i in remaining)
    )
    locations = tuple(action.locations[i] for i in remaining) if action.locations else ()
    return replace(action, body=body, locations=locations)


def without_idle_jumps(action: ir.Action) -> ir.Action:
    """Return an action without statements that nothing reaches, and without jumps to the next one."""
    while dropped := _unreached(action.body) | _idle(action.body):
        action = shortened(action, dropped)
    return action


def _unreached(body: tuple[ir.Statement, ...]) -> set[int]:
    reached: set[int] = set()
    pending = [0]
    while pending:
        i = pending.pop()
        if i in reached or i >= len(body):
            continue
        reached.add(i)
        statement = body[i]
        if isinstance(statement, Jumping):
            pending.append(statement.target_position)
        if not isinstance(statement, ir.Jump):
            pending.append(i + 1)
    return {i for i in range(len(body)) if i not in reached}


def _idle(body: tuple[ir.Statement, ...]) -> set[int]:
    return {i for i, each in enumerate(body) if isinstance(each, Jumping) and each.target_position == i + 1}


def joined(one: ir.Action, other: ir.Action) -> ir.Action:
    """Return an action that runs one and then the other, neither of which has parameters."""
    offset = len(one.body)
    moved = tuple(
        replace(each, target_position=each.target_position + offset) if isinstance(each, Jumping) else each
        for each in other.body
    )
    return replace(one, body=one.body + moved, locations=one.locations + other.locations)
