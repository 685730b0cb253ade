"""Number the stacks and messages of a program in the order in which its JSON has them."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from softswitch import ir

T = TypeVar("T")


def in_json_order(program: ir.Program) -> ir.Program:
    """Return the program with stacks of headers before those of unions, and one text for each message."""
    return _Messages(program.messages).renumbered(_with_sorted_stacks(program))


# -- stacks


def _with_sorted_stacks(program: ir.Program) -> ir.Program:
    sharing = Counter(stack.cursor for stack in program.stacks)
    is_of_unions = {stack.cursor: _is_of_unions(stack, program) for stack in program.stacks}
    order = sorted(range(len(program.stacks)), key=lambda i: is_of_unions[program.stacks[i].cursor])
    if order == list(range(len(program.stacks))):
        return program
    index_of = {old: new for new, old in enumerate(order)}
    cursors = list(dict.fromkeys(program.stacks[i].cursor for i in order))
    assert len(cursors) == len(sharing)
    cursor_of = {old: new for new, old in enumerate(cursors)}
    stacks = tuple(replace(program.stacks[i], cursor=cursor_of[program.stacks[i].cursor]) for i in order)
    made: ir.Program = _renumbered(program, index_of, cursor_of)
    return replace(made, stacks=stacks)


def _is_of_unions(stack: ir.Stack, program: ir.Program) -> bool:
    return any(stack.headers[0] in union for union in program.unions)


def _renumbered(part: Any, index_of: dict[int, int], cursor_of: dict[int, int]) -> Any:  # of one type
    """Return a part of a program with the new positions of stacks and of their cursors."""
    match part:
        case ir.LastIndex(stack):
            return replace(part, stack=index_of[stack])
        case ir.Element(stack, index):
            return replace(part, stack=index_of[stack], index=_renumbered(index, index_of, cursor_of))
        case ir.Shift(stacks):
            return replace(part, stacks=tuple(index_of[stack] for stack in stacks))
        case ir.CopyCursor(target, source):
            return replace(part, target=cursor_of[target], source=cursor_of[source])
        case ir.Extract(stack=stack, varbit_bits=bits) if stack is not None:
            return replace(part, stack=index_of[stack], varbit_bits=_renumbered(bits, index_of, cursor_of))
        case tuple() if type(part) is tuple:
            return tuple(_renumbered(each, index_of, cursor_of) for each in part)
        case dict():
            return {key: _renumbered(each, index_of, cursor_of) for key, each in part.items()}
    if not is_dataclass(part) or isinstance(part, type):
        return part
    changed = {}
    for field in fields(part):
        before = getattr(part, field.name)
        after = _renumbered(before, index_of, cursor_of)
        if after is not before and after != before:
            changed[field.name] = after
    return replace(part, **changed) if changed else part


# -- messages


class _Messages:
    def __init__(self, texts: tuple[str, ...]) -> None:
        self._texts = texts
        self._numbered: list[str] = []

    def renumbered(self, program: ir.Program) -> ir.Program:
        parser = tuple(
            replace(state, operations=self._statements(state.operations)) for state in program.parser
        )
        actions = tuple(replace(action, body=self._statements(action.body)) for action in program.actions)
        deparser_body = self._statements(program.deparser_body)
        return replace(
            program,
            parser=parser,
            actions=actions,
            deparser_body=deparser_body,
            messages=tuple(self._numbered),
        )

    def _statements(self, statements: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(map(self._statement, statements))

    def _statement(self, statement: T) -> T:
        if isinstance(statement, ir.LogMessage | ir.Assert | ir.CountLoop):
            self._numbered.append(self._texts[statement.message])
            return replace(statement, message=len(self._numbered) - 1)
        return statement
