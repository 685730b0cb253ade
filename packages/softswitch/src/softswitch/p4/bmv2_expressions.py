"""Write expressions in BMv2's JSON, which distinguishes numbers ("data") from truth values ("bool")."""

from __future__ import annotations

from softswitch import ir
from softswitch.load.expressions import BOOLEAN_OPS
from softswitch.p4.bmv2_names import VALIDITY_FIELD, Json, JsonNames, hex_value


class ExpressionWriter:
    def __init__(self, names: JsonNames) -> None:
        self._names = names

    def value(self, expression: ir.Expression) -> Json:
        """Return an expression as a number."""
        match expression:
            case ir.Constant(value):
                return hex_value(value)
            case ir.FieldRef():
                return {"type": "field", "value": self._names.field(expression)}
            case ir.ElementField(element):
                if element.index == ir.LastIndex(element.stack):
                    return self._last_field(expression)
                return self._access_field(expression)
            case ir.LastIndex(stack):
                return _operation("last_stack_index", None, self._stack(stack))
            case ir.IsValid(header):
                return {"type": "field", "value": [self._names.header(header), VALIDITY_FIELD]}
            case ir.Parameter(index):
                return {"type": "local", "value": index}
            case ir.Lookahead(offset, width):
                return {"type": "lookahead", "value": [offset, width]}
            case ir.Cast(fit, operand, width):
                return _operation(fit.value, self.value(operand), hex_value(width))
            case ir.Ternary(condition, left, right):
                made = _operation("?", self.value(left), self.value(right))
                made["value"]["cond"] = self.condition(condition)
                return made
            case ir.Unary(op) | ir.Binary(op) if op in BOOLEAN_OPS:
                return _operation("b2d", None, self.condition(expression))
            case ir.Unary(op, operand):
                return _operation(op.value, None, self.value(operand))
            case ir.Binary(op, left, right):
                return _operation(op.value, self.value(left), self.value(right))

    def condition(self, expression: ir.Expression) -> Json:
        """Return an expression as a truth value."""
        match expression:
            case ir.Constant(0 | 1 as value):
                return {"type": "bool", "value": bool(value)}
            case ir.Unary(ir.Op.NOT, operand):
                return _operation("not", None, self.condition(operand))
            case ir.Binary((ir.Op.BOOL_AND | ir.Op.BOOL_OR) as op, left, right):
                return _operation(op.value, self.condition(left), self.condition(right))
            case ir.Binary(op, left, right) if op in BOOLEAN_OPS:
                return _operation(op.value, self.value(left), self.value(right))
        return _operation("d2b", None, self.value(expression))

    def argument(self, expression: ir.Expression) -> Json:
        """Return an expression as an argument of a primitive, in which only simple values stand alone."""
        if isinstance(expression, ir.Parameter):
            return {"type": "runtime_data", "value": expression.index}
        value = self.value(expression)
        if value["type"] in ("expression", "stack_field", "union_stack_field"):
            return {"type": "expression", "value": value}
        return value

    def target(self, place: ir.LValue) -> Json:
        """Return a place that a primitive assigns to."""
        if isinstance(place, ir.FieldRef):
            return self.value(place)
        return {"type": "expression", "value": self._access_field(place)}

    def header(self, reference: ir.HeaderRef) -> Json:
        """Return a header as an argument of a primitive."""
        if isinstance(reference, int):
            return {"type": "header", "value": self._names.header(reference)}
        return {"type": "expression", "value": self._element(reference)}

    def _last_field(self, ref: ir.ElementField) -> Json:
        stack, field = self._names.stacks[ref.element.stack], self._names.element_field(ref)
        if stack.member:
            return {"type": "union_stack_field", "value": [stack.name, stack.member, field]}
        return {"type": "stack_field", "value": [stack.name, field]}

    def _access_field(self, ref: ir.ElementField) -> Json:
        access = {"op": "access_field", "left": self._element(ref.element), "right": ref.field}
        return {"type": "expression", "value": access}

    def _element(self, element: ir.Element) -> Json:
        index, stack = self.value(element.index), self._names.stacks[element.stack]
        if not stack.member:
            return _operation("dereference_header_stack", self._stack(element.stack), index)
        union = _operation("dereference_union_stack", self._stack(element.stack), index)
        access = {"op": "access_union_header", "left": union, "right": stack.member_index}
        return {"type": "expression", "value": access}

    def _stack(self, index: int) -> Json:
        stack = self._names.stacks[index]
        return {"type": stack.kind, "value": stack.name}


def _operation(op: str, left: Json | None, right: Json) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}
