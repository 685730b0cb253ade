"""Read constants and other variables instead of the variables to which they were assigned.

A value that is read once is computed where it is read. Assignments in vain then go with `dead_code`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from softswitch import ir
from softswitch.ir.graph import successors, topological_order
from softswitch.p4.action_bodies import Jumping, is_hidden
from softswitch.p4.arithmetic import mask_of
from softswitch.p4.folding import fits, rewritten
from softswitch.p4.operands import expression_parts
from softswitch.p4.storage_bits import VALIDITY, StorageBits

_MAX_PARTS = {1: 24, 2: 3}
"""Parts of an expression that is computed where it is read, by the number of places that read it."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The value that a variable has; the set has the variable and what the value reads."""

    value: ir.Expression
    storage: int


_Values = dict[ir.FieldRef, _Known]


@dataclass(frozen=True, slots=True)
class Variables:
    """Fields that only statements of controls use, and headers of the same kind."""

    fields: frozenset[ir.FieldRef]
    headers: frozenset[int]


class Propagation:
    def __init__(self, program: ir.Program, bits: StorageBits, variables: Variables) -> None:
        self._program, self._bits, self._variables = program, bits, variables
        self._reads = _reads(program)
        self._actions = list(program.actions)

    def run(self) -> ir.Program:
        uses = Counter(index for table in self._program.tables.values() for index in table.actions)
        for index in uses:
            if not self._actions[index].name.startswith("$"):
                self._actions[index], _ = self._action(self._actions[index], {})
        # A packet comes to ingress from the parser, which leaves the headers of controls invalid.
        invalid = {
            ir.FieldRef(header, VALIDITY): _Known(ir.Constant(0), self._bits.validity(header))
            for header in self._variables.headers
        }
        ingress = self._control(self._program.ingress, invalid)
        egress = self._control(self._program.egress, {})
        return replace(self._program, actions=tuple(self._actions), ingress=ingress, egress=egress)

    def _control(self, control: ir.Control, values: _Values) -> ir.Control:
        before: dict[str, _Values] = {control.start: values} if control.start else {}
        nodes = dict(control.nodes)
        for name in topological_order(control):
            node, values = nodes[name], before[name]
            if isinstance(node, ir.Conditional):
                nodes[name] = replace(node, condition=self._read(node.condition, values))
            elif is_hidden(node):
                [index] = node.actions
                self._actions[index], values = self._action(self._actions[index], values)
            else:
                values = _without(values, self._written_by(node))
            for successor in successors(node):
                before[successor] = _common(before.get(successor, values), values)
        return replace(control, nodes=nodes)

    def _written_by(self, table: ir.Table) -> int:
        written = self._bits.field(table.meter.target) if table.meter else 0
        for index in table.actions:
            for statement in self._actions[index].body:
                if not isinstance(statement, Jumping):
                    written |= self._bits.effects(statement).written
        return written

    # -- statements

    def _action(self, action: ir.Action, values: _Values) -> tuple[ir.Action, _Values]:
        """Return an action that reads what is known, and what is known after it."""
        body: list[ir.Statement] = []
        at: dict[int, _Values] = {}
        starts = {
            each.target_position
            for i, each in enumerate(action.body)
            if isinstance(each, Jumping) and each.target_position <= i
        }
        is_reached = True
        for i, statement in enumerate(action.body):
            if i in at:
                values = _common(at[i], values) if is_reached else at[i]
                is_reached = True
            if i in starts:  # of loops, which change what was known before them
                values = {}
            made, values = self._statement(statement, values, i + 1)
            body.append(made)
            if isinstance(made, Jumping) and made.target_position > i:
                at[made.target_position] = _common(at.get(made.target_position, values), values)
            is_reached = is_reached and not isinstance(made, ir.Jump)
        if len(body) in at:
            values = _common(at[len(body)], values) if is_reached else at[len(body)]
        is_same = all(one is other for one, other in zip(body, action.body, strict=True))
        return action if is_same else replace(action, body=tuple(body)), values

    def _statement(
        self, statement: ir.Statement, values: _Values, next_: int
    ) -> tuple[ir.Statement, _Values]:
        """Return a statement with what it leaves known; one that does nothing is a jump to the next."""
        if isinstance(statement, ir.Jump):
            return statement, values
        if isinstance(statement, ir.JumpIfZero):
            condition = self._read(statement.condition, values)
            if isinstance(condition, ir.Constant):
                return ir.Jump(next_ if condition.value else statement.target_position), values
            is_same = condition is statement.condition
            return statement if is_same else replace(statement, condition=condition), values
        validity = self._validity_after(statement)
        if validity is not None and (known := values.get(validity[0])) and known.value == validity[1]:
            return ir.Jump(next_), values
        made = self._with_values(statement, values)
        if isinstance(made, ir.Assign) and self._is_idle(made, values):
            return ir.Jump(next_), values
        values = _without(values, self._bits.effects(made).written)
        if isinstance(made, ir.Assign) and isinstance(made.target, ir.FieldRef):
            value = self._known_value(made.target, made.value)
            if value is not None:
                storage = self._bits.field(made.target) | self._bits.read(value)
                values = values | {made.target: _Known(value, storage)}
        elif validity is not None:
            storage = self._bits.validity(validity[0].header)
            values = values | {validity[0]: _Known(validity[1], storage)}
        return made, values

    def _is_idle(self, statement: ir.Assign, values: _Values) -> bool:
        """Return whether a variable already has the value that is assigned to it."""
        known = values.get(statement.target) if isinstance(statement.target, ir.FieldRef) else None
        return statement.value == statement.target or (known is not None and statement.value == known.value)

    def _validity_after(self, statement: ir.Statement) -> tuple[ir.FieldRef, ir.Constant] | None:
        match statement:
            case ir.SetInvalid(int() as header) | ir.SetValid(int() as header):
                if header in self._variables.headers:
                    is_valid = isinstance(statement, ir.SetValid)
                    return ir.FieldRef(header, VALIDITY), ir.Constant(int(is_valid))
        return None

    def _known_value(self, target: ir.FieldRef, value: ir.Expression) -> ir.Expression | None:
        """Return the value of a variable after an assignment if later statements can take it instead."""
        if target not in self._variables.fields or self._bits.read(value) & self._bits.field(target):
            return None
        found = self._program.type_of(target)
        match value:
            case ir.Constant(number):
                if not found.signed:
                    return ir.Constant(number & mask_of(found.width))
                return value if -(1 << found.width - 1) <= number < 1 << found.width - 1 else None
            case ir.FieldRef() if self._are_alike(value, target):
                return value
            case ir.FieldRef() | ir.Parameter():
                if not found.signed and fits(value, found.width, self._program):
                    return value
        if not self._program.headers[target.header].metadata:
            return None
        parts = sum(1 for _ in expression_parts(value))
        return value if parts <= _MAX_PARTS.get(self._reads[target], 0) else None

    # -- expressions

    def _with_values(self, statement: ir.Statement, values: _Values) -> ir.Statement:
        """Return a statement that reads what is known; externs read no more than a field or a constant."""
        match statement:
            case ir.Assign(target, value):
                target = self._place(target, values)
                if isinstance(value, ir.FieldRef) and value in values and self._are_alike(value, target):
                    return ir.Assign(target, values[value].value)  # which stores the same bits
                value = self._read(value, values)
                is_same = value is statement.value and target is statement.target
                return statement if is_same else ir.Assign(target, value)
            case ir.LogMessage(message, logged):
                read = tuple(self._read(each, values, is_extern=True) for each in logged)
                return ir.LogMessage(message, read)
        changed: dict[str, Any] = {  # a parameter of each kind of statement
            name: made
            for name in _OPERANDS
            if (operand := getattr(statement, name, None)) is not None
            if (made := self._read(operand, values, is_extern=True)) is not operand
        }
        return replace(statement, **changed) if changed else statement

    def _are_alike(self, one: ir.FieldRef, other: ir.LValue) -> bool:
        """Return whether two fields have the same bits for each value."""
        types = self._program.type_of(one), self._program.type_of(other)
        return len({(each.width, each.signed) for each in types}) == 1

    def _read(self, expression: ir.Expression, values: _Values, is_extern: bool = False) -> ir.Expression:
        def known(part: ir.Expression) -> ir.Expression:
            if isinstance(part, ir.ElementField):
                return self._place(part, values)
            key = ir.FieldRef(part.header, VALIDITY) if isinstance(part, ir.IsValid) else part
            if not isinstance(key, ir.FieldRef) or key not in values:
                return part
            value = self._wrapped(values[key].value, key)
            is_simple = isinstance(value, ir.Constant | ir.FieldRef | ir.Parameter)
            return value if is_simple or not is_extern else part

        return rewritten(expression, known)

    def _place(self, place: ir.LValue, values: _Values) -> ir.LValue:
        """Return a place in a stack by a known position, or by the field that has it."""
        if isinstance(place, ir.FieldRef):
            return place
        element = place.element
        index = self._read(element.index, values, is_extern=not isinstance(element.index, ir.FieldRef))
        headers = self._program.stacks[element.stack].headers
        if isinstance(index, ir.Constant):
            is_inside = 0 <= index.value < len(headers)
            return ir.FieldRef(headers[index.value], place.field) if is_inside else place
        return (
            place
            if index is element.index
            else ir.ElementField(ir.Element(element.stack, index), place.field)
        )

    def _wrapped(self, value: ir.Expression, variable: ir.FieldRef) -> ir.Expression:
        """Return a value as a variable would have it that it is assigned to."""
        if isinstance(value, ir.Constant):
            return value
        found = self._program.type_of(variable)
        if isinstance(value, ir.FieldRef) and self._are_alike(value, variable):
            return value
        if found.signed:
            if isinstance(value, ir.Cast) and value.fit is not ir.Fit.SATURATE and value.width <= found.width:
                return value
            return variable
        if fits(value, found.width, self._program):
            return value
        return ir.Binary(ir.Op.AND, value, ir.Constant(mask_of(found.width)))


_OPERANDS = ("index", "value", "condition", "base", "size", "low", "high", "session", "length")
"""Attributes of statements that are expressions."""


def _without(values: _Values, written: int) -> _Values:
    return {key: known for key, known in values.items() if not known.storage & written}


def _common(one: _Values, other: _Values) -> _Values:
    if one is other:
        return one
    return {key: known for key, known in one.items() if other.get(key) == known}


def _reads(program: ir.Program) -> Counter[object]:
    """Count the places that read a field, without those at which its value is not put."""
    nodes = [*program.ingress.nodes.values(), *program.egress.nodes.values()]
    expressions = [node.condition for node in nodes if isinstance(node, ir.Conditional)]
    found: Counter[object] = Counter(part.source for table in program.tables.values() for part in table.key)
    for action in program.actions:
        for statement in action.body:
            operands = [getattr(statement, name, None) for name in _OPERANDS]
            if isinstance(target := getattr(statement, "target", None), ir.ElementField):
                operands.append(target.element.index)
            expressions += [each for each in operands if each is not None]
    for each in expressions:
        found.update(part for part in expression_parts(each) if isinstance(part, ir.FieldRef))
    return found
