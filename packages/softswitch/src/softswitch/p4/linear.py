"""The body of an action: structured statements in one sequence, with jumps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from softswitch import ir
from softswitch.p4.arithmetic import negation
from softswitch.p4.diagnostics import NOWHERE, Position, SourceError
from softswitch.p4.flow import EXIT, Branch, Item, Label, Leave, Loop, Part, Step, Unit


def action_body(
    items: list[Item], add_message: Callable[[str], int]
) -> tuple[tuple[ir.Statement, ...], tuple[str, ...]]:
    """Return the statements of an action, and the source line of each."""
    body = _Body(add_message)
    body.add(items)
    body.place(EXIT)
    if body.is_left:
        position = next((item.position for item in items if hasattr(item, "position")), NOWHERE)
        raise SourceError(position, "expected no `return` out of a loop that runs as one action")
    return tuple(body.statements), tuple(body.locations)


class _Body:
    def __init__(self, add_message: Callable[[str], int]) -> None:
        self.statements: list[ir.Statement] = []
        self.locations: list[str] = []
        self._add_message = add_message
        self._pending: dict[Label, list[int]] = {}

    @property
    def is_left(self) -> bool:
        """Whether something leaves for a place outside of the body."""
        return bool(self._pending)

    def add(self, items: list[Item]) -> None:
        for item in items:
            match item:
                case Step(statement, position):
                    if isinstance(statement, ir.Extract | ir.Advance | ir.Verify):
                        raise SourceError(position, "expected an operation of a parser outside of actions")
                    self._emit(statement, position)
                case Branch():
                    self._branch(item)
                case Part(label, inner):
                    self.add(inner)
                    self.place(label)
                case Unit(items=inner):
                    self.add(inner)
                case Loop():
                    self._loop(item)
                case Leave(label):
                    if label is EXIT:  # which takes effect at the end of the action
                        self._emit(ir.Exit(), None)
                    self._jump_to(label)
                    return
                case _:
                    raise SourceError(item, "expected no table and no parser in an action")

    def _emit(self, statement: ir.Statement, position: Position | None) -> int:
        self.statements.append(statement)
        location = position.place if position is not None else ""
        self.locations.append(location or (self.locations[-1] if self.locations else ""))
        return len(self.statements) - 1

    def _jump_to(self, label: Label) -> None:
        self._pending.setdefault(label, []).append(self._emit(ir.Jump(-1), None))

    def place(self, label: Label) -> None:
        """Let all jumps to a label end here; a jump as the last statement is not needed."""
        here = len(self.statements)
        jumps = self._pending.pop(label, [])
        is_last = bool(jumps) and jumps[-1] == here - 1 and isinstance(self.statements[-1], ir.Jump)
        if is_last and not self._is_target(here):
            self.statements.pop()
            self.locations.pop()
            jumps.pop()
            here -= 1
        for index in jumps:
            self._set_target(index, here)

    def _is_target(self, index: int) -> bool:
        return any(
            isinstance(each, ir.Jump | ir.JumpIfZero) and each.target_position == index
            for each in self.statements
        )

    def _branch(self, item: Branch) -> None:
        negated_text = f"!({item.text})" if item.text else ""
        for items, others, condition, text in (
            (item.otherwise, item.then, item.condition, item.text),
            (item.then, item.otherwise, negation(item.condition), negated_text),
        ):
            if len(items) == 1 and isinstance(leave := items[0], Leave) and leave.label is not EXIT:
                test = self._emit(ir.JumpIfZero(condition, -1, text), item.position)
                self._pending.setdefault(leave.label, []).append(test)
                self.add(others)
                return
        test = self._emit(ir.JumpIfZero(item.condition, -1, item.text), item.position)
        self.add(item.then)
        if not item.otherwise:
            self._set_target(test, len(self.statements))
            return
        skip = self._emit(ir.Jump(-1), item.position)
        self._set_target(test, len(self.statements))
        self.add(item.otherwise)
        self._set_target(skip, len(self.statements))

    def _set_target(self, index: int, target: int) -> None:
        statement = self.statements[index]
        assert isinstance(statement, ir.Jump | ir.JumpIfZero)
        self.statements[index] = replace(statement, target_position=target)

    def _loop(self, item: Loop) -> None:
        start = len(self.statements)
        self.add(item.items)
        text = f"{item.position.place}: an endless loop: the packet is dropped"
        self._emit(ir.CountLoop(self._add_message(text)), item.position)
        self._emit(ir.Jump(start), item.position)
