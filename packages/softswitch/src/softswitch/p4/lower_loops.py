"""Lowering of loops: those whose repetitions are known are written out, others are loops of an action."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.effects import assigned_declarations
from softswitch.p4.flow import Branch, Item, Label, Leave, Loop, Part
from softswitch.p4.frames import Frame
from softswitch.p4.lower_expressions import lower, lower_scalar
from softswitch.p4.lowering_state import MAX_UNROLLED
from softswitch.p4.operand_copies import assign, stable_copy
from softswitch.p4.operand_values import constant_operand, leaves_of, parts_of
from softswitch.p4.operands import Operand


def lower_for(statement: tree.For, frame: Frame) -> None:
    values = _first_values(statement, frame)
    if values is not None and _unroll(statement, values, frame):
        return
    frame = frame.unit(statement.position)
    if frame.body != "action":
        text = "expected a loop whose repetitions are known: a constant start, condition and step"
        raise SourceError(statement, text)
    _loop(statement, frame)


def _first_values(statement: tree.For, frame: Frame) -> dict[tree.Declaration, object] | None:
    """Return the values with which a loop begins, if only its updates change its variables."""
    assigned = assigned_declarations(statement.body, frame)
    values: dict[tree.Declaration, object] = {}
    for each in statement.initial:
        if not isinstance(each, tree.Variable) or each.initial is None or each in assigned:
            return None
        values[each] = frame.evaluator.convert(frame.evaluator.value(each.initial), frame.declared(each))
    return None if None in values.values() else values


def _unroll(statement: tree.For, values: dict[tree.Declaration, object], frame: Frame) -> bool:
    """Write a loop out; return whether the values of its variables are known throughout."""
    frame.bindings.update(values)
    holds = frame.evaluator.value(statement.condition)
    if not isinstance(holds, bool):
        for each in values:
            frame.bindings.pop(each, None)
        return False
    ended = _part("break", frame.items)
    while holds:
        frame.state.count_repetition(statement)
        frame.nested.statement(statement.body, _repetition(ended, ended.items, frame))
        for update in statement.updates:
            if not isinstance(update, tree.Assignment) or not isinstance(update.target, tree.Name):
                raise SourceError(update, "expected an assignment to a variable of the loop")
            declaration = frame.facts.references[update.target]
            value = frame.evaluator.value(frame.facts.combined.get(update, update.value))
            value = frame.evaluator.convert(value, frame.declared(declaration))
            if value is None:
                raise SourceError(update, "expected a step that is known when compiling")
            frame.bindings[declaration] = value
        holds = frame.evaluator.value(statement.condition)
    return True


def _loop(statement: tree.For, frame: Frame) -> None:
    """Lower a loop of an action to one at run time."""
    for each in statement.initial:
        frame.nested.statement(each, frame)
    ended = _part("break", frame.items)
    loop = Loop(Label("loop"), statement.position)
    ended.items.append(loop)
    around = frame.within(loop.items)
    condition = lower_scalar(statement.condition, around)
    branch = Branch(condition, statement.condition.position, "", otherwise=[Leave(ended.label)])
    loop.items.append(branch)
    frame.nested.statement(statement.body, _repetition(ended, loop.items, frame))
    for update in statement.updates:
        frame.nested.statement(update, around)


def lower_for_in(statement: tree.ForIn, frame: Frame) -> None:
    declaration = frame.facts.references[statement]
    given = frame.declared(declaration)
    elements = _elements(statement, frame, given)
    is_assigned = statement.type is None or declaration in assigned_declarations(statement.body, frame)
    ended = _part("break", frame.items)
    for element in elements:
        frame.state.count_repetition(statement)
        inner = _repetition(ended, ended.items, frame)
        if is_assigned:
            if not isinstance(frame.bindings.get(declaration), Operand):
                frame.bindings[declaration] = frame.storage.make(given, statement.name, statement)
            target = frame.bindings[declaration]
            assert isinstance(target, Operand)
            assign(target, element, inner, statement)
        else:
            frame.bindings[declaration] = element
        frame.nested.statement(statement.body, inner)


def _part(name: str, items: list[Item]) -> Part:
    items.append(part := Part(Label(name)))
    return part


def _repetition(ended: Part, items: list[Item], frame: Frame) -> Frame:
    """Return the frame of a loop's body: `break` leaves for the end of a part, `continue` for its own."""
    repeated = _part("continue", items)
    inner = frame.within(repeated.items)
    inner.loops = [*frame.loops, (ended.label, repeated.label)]
    return inner


def _elements(statement: tree.ForIn, frame: Frame, given: types.Type) -> list[Operand]:
    collection = statement.collection
    if isinstance(collection, tree.Range):
        low, high = (frame.evaluator.value(each) for each in (collection.low, collection.high))
        if not isinstance(low, int) or not isinstance(high, int):
            raise SourceError(statement, "expected a range whose ends are known when compiling")
        if high - low >= MAX_UNROLLED:
            raise SourceError(statement, f"expected at most {MAX_UNROLLED} repetitions, got {high - low + 1}")
        return [constant_operand(value, frame, given, statement) for value in range(low, high + 1)]
    if isinstance(collection, tree.Cast) and isinstance(frame.declared(collection), types.List):
        collection = collection.operand
    # The collection is evaluated once, before its elements are changed by the body.
    bound = [frame.bindings.get(each) for each in assigned_declarations(statement.body, frame)]
    written = set().union(*(leaves_of(each, frame) for each in bound if isinstance(each, Operand)))
    elements = parts_of(lower(collection, frame), frame, statement)
    return [
        stable_copy(each, frame, statement) if leaves_of(each, frame) & written else each for each in elements
    ]
