"""Lowering of `if` and `switch`."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4 import arithmetic, tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.flow import Branch, Item
from softswitch.p4.frames import Frame
from softswitch.p4.lower_expressions import lower, lower_scalar
from softswitch.p4.operand_copies import saved
from softswitch.p4.operands import Scalar

CONDITION_IN_DEPARSER = "conditions in a deparser are not supported by BMv2 and softswitch"


def lower_conditional(statement: tree.Conditional, frame: Frame) -> None:
    if (hit := _hit_of(statement.condition, frame)) is not None:
        call, holds = hit
        applied = frame.nested.table(call, frame)
        branches = ("hit", "miss") if holds else ("miss", "hit")
        _into(statement.then, frame, applied.branches.setdefault(branches[0], []))
        _into(statement.otherwise, frame, applied.branches.setdefault(branches[1], []))
        return
    condition = lower_scalar(statement.condition, frame)
    if isinstance(condition, ir.Constant):
        chosen = statement.then if condition.value else statement.otherwise
        _into(chosen, frame, frame.items)
        return
    branch = Branch(condition, statement.condition.position, text_of(statement.condition, frame))
    frame.items.append(branch)
    emitted_before = len(frame.state.emitted)
    _into(statement.then, frame, branch.then)
    _into(statement.otherwise, frame, branch.otherwise)
    if len(frame.state.emitted) > emitted_before:
        raise SourceError(statement.condition, CONDITION_IN_DEPARSER)
    if not branch.then and not branch.otherwise:
        frame.items.remove(branch)


def lower_switch(statement: tree.Switch, frame: Frame) -> None:
    found = frame.type_of(statement.value)
    if isinstance(found, types.ActionRun):
        _switch_on_action(statement, frame)
        return
    value = lower(statement.value, frame)
    if not isinstance(value, Scalar):
        raise SourceError(statement, "expected a number or an enum to switch on")
    emitted_before = len(frame.state.emitted)
    if not value.is_constant and not isinstance(value.expression, ir.FieldRef):
        value = Scalar(saved(value, frame, statement), value.type)
    items = frame.items
    pending: list[ir.Expression] = []
    default: tree.Block | None = None
    for i, case in enumerate(statement.cases):
        if isinstance(case.label, tree.Default):
            default = _body_from(statement.cases, i)
            pending = []
            continue
        label = lower_scalar(case.label, frame, found)
        pending.append(arithmetic.binary("==", value.expression, label, types.BOOL, case))
        if case.body is None:
            continue
        condition = arithmetic.any_of(pending)
        pending = []
        branch = Branch(condition, case.position, text_of(case.label, frame))
        items.append(branch)
        _into(case.body, frame, branch.then)
        items = branch.otherwise
    _into(default, frame, items)
    if len(frame.state.emitted) > emitted_before:
        raise SourceError(statement, CONDITION_IN_DEPARSER)


def _switch_on_action(statement: tree.Switch, frame: Frame) -> None:
    assert isinstance(statement.value, tree.Member)
    assert isinstance(statement.value.base, tree.Call)
    applied = frame.nested.table(statement.value.base, frame)
    lowered: dict[tree.Block | None, list[Item]] = {}
    for i, case in enumerate(statement.cases):
        body = _body_from(statement.cases, i)
        if body not in lowered:  # several labels may share it
            lowered[body] = []
            _into(body, frame, lowered[body])
        items = lowered[body]
        if isinstance(case.label, tree.Default):
            applied.other = items
        else:
            declaration = frame.facts.references[case.label]
            for index in frame.state.tables[applied.table].actions_from(declaration):
                applied.branches[index] = items


def _body_from(cases: list[tree.SwitchCase], start: int) -> tree.Block | None:
    return next((case.body for case in cases[start:] if case.body is not None), None)


def _into(statement: tree.Statement | None, frame: Frame, items: list[Item]) -> None:
    if statement is not None:
        frame.nested.statement(statement, frame.within(items))


def _hit_of(condition: tree.Expression, frame: Frame) -> tuple[tree.Call, bool] | None:
    """Return the call in `table.apply().hit`, or `.miss`, or its negation, and whether a hit holds."""
    if isinstance(condition, tree.Unary) and condition.operator == "!":
        inner = _hit_of(condition.operand, frame)
        return None if inner is None else (inner[0], not inner[1])
    if not isinstance(condition, tree.Member) or not isinstance(condition.base, tree.Call):
        return None
    if not isinstance(frame.facts.types.get(condition.base), types.ApplyResult):
        return None
    return condition.base, condition.name == "hit"


def text_of(expression: tree.Expression, frame: Frame) -> str:
    """Return the source of an expression, as far as its line has it."""
    lines = frame.state.sources.lines.get(expression.position.file, [])
    if not 1 <= expression.position.line <= len(lines):
        return ""
    text = lines[expression.position.line - 1][expression.position.column - 1 :].strip()
    open_count = 0
    for i, character in enumerate(text):
        open_count += {"(": 1, ")": -1}.get(character, 0)
        if open_count < 0:
            return text[:i]
    return text.rstrip("{").rstrip()
