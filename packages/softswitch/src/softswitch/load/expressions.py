from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import Any

from softswitch import ir
from softswitch.errors import ProgramError, UnsupportedConstruct
from softswitch.load.scope import VALIDITY_FIELD, Json, Scope

UNARY_OPS = {"~": ir.Op.COMPLEMENT, "not": ir.Op.NOT}
BINARY_OPS = {op.value: op for op in ir.Op if op.value not in UNARY_OPS}
CASTS = {fit.value: fit for fit in ir.Fit}
BOOLEAN_OPS = frozenset(
    {ir.Op.EQ, ir.Op.NE, ir.Op.LT, ir.Op.GT, ir.Op.LE, ir.Op.GE, ir.Op.BOOL_AND, ir.Op.BOOL_OR, ir.Op.NOT}
)
HEADER_TYPES = ("header", "header_union")


class Expressions:
    """Loader of a state's, table's or action's expressions; `parameters` are widths in bits."""

    def __init__(self, scope: Scope, location: str, parameters: list[int] | None = None) -> None:
        self.scope = scope
        self.location = location
        self.parameters = parameters or []

    def value(self, item: Json) -> ir.Expression:
        if "type" not in item:
            return self._load_operation(item)
        kind = item["type"]
        value: Any = item.get("value")  # of a type that depends on the kind
        match kind:
            case "expression":
                return self.value(value)
            case "hexstr":
                return ir.Constant(int(value, 16))
            case "bool":
                return ir.Constant(int(value))
            case "field" if value[1] == VALIDITY_FIELD:
                return ir.IsValid(self.scope.header(value[0]))
            case "field":
                return self.scope.field(value)
            case "stack_field" | "union_stack_field":
                return self._last_field(value)
            case "lookahead":
                return ir.Lookahead(*value)
            case "local" | "runtime_data":
                if value >= len(self.parameters):
                    count = len(self.parameters)
                    raise ProgramError(
                        f"{self.location}: expected the index of one of {count} action parameters, "
                        f"got {value}"
                    )
                return ir.Parameter(value, self.parameters[value])
        raise UnsupportedConstruct(f"an expression of type `{kind}`", self.location)

    def target(self, item: Json) -> ir.LValue:
        lvalue = self.value(item)
        if isinstance(lvalue, ir.FieldRef | ir.ElementField):
            return lvalue
        raise UnsupportedConstruct(f"assignment to `{item.get('value')}` ({item['type']})", self.location)

    def header(self, item: Json) -> ir.HeaderRef:
        operand = _unwrap(item)
        if operand.get("type") == "header":
            return self.scope.header_index[operand["value"]]
        if operand.get("type") == "stack_field" and operand["value"][1] == "last":
            stack = self.scope.stack_index[operand["value"][0]]
            return ir.Element(stack, ir.LastIndex(stack))
        if operand.get("op") == "dereference_header_stack":
            return ir.Element(self._stack_index(operand["left"]), self.value(operand["right"]))
        if operand.get("op") == "access_union_header":
            return self._union_element(_unwrap(operand["left"]), operand["right"])
        raise UnsupportedConstruct(
            f"a header given by `{operand.get('op', operand.get('type'))}`", self.location
        )

    def name(self, item: Json, *kinds: str) -> str:
        if item["type"] not in kinds:
            raise ProgramError(f"{self.location}: expected a `{kinds[0]}`, got a `{item['type']}`")
        return str(item["value"])

    def _union_element(self, union: Json, member: int) -> ir.Element:
        """Load a member of a union at a computed position of a stack."""
        stacks = self._union_stacks(union["left"]) if union.get("op") == "dereference_union_stack" else ()
        if not stacks:
            raise UnsupportedConstruct(f"a header of the union `{union.get('value')}`", self.location)
        if member >= len(stacks):
            raise ProgramError(
                f"{self.location}: expected one of {len(stacks)} members of a union, got {member}"
            )
        index = self.value(union["right"])
        if index == ir.LastIndex(stacks[0]):  # that of all stacks for members of the same unions
            index = ir.LastIndex(stacks[member])
        return ir.Element(stacks[member], index)

    def _union_stacks(self, item: Json) -> tuple[int, ...]:
        operand = _unwrap(item)
        if operand.get("type") != "header_union_stack" or operand["value"] not in self.scope.union_stacks:
            return ()
        return tuple(self.scope.union_stacks[operand["value"]].values())

    def _stack_index(self, item: Json) -> int:
        operand = _unwrap(item)
        if operand.get("type") != "header_stack" or operand["value"] not in self.scope.stack_index:
            raise UnsupportedConstruct(f"a computed position in `{operand.get('value')}`", self.location)
        return self.scope.stack_index[operand["value"]]

    def _last_field(self, path: list[str]) -> ir.ElementField:
        """Load a field of the last element of `[stack, field]` or `[stack of unions, member, field]`."""
        stack, *member, name = path
        index = self.scope.union_stacks[stack][member[0]] if member else self.scope.stack_index[stack]
        first_header = self.scope.stacks[index].headers[0]
        field = self.scope.field([self.scope.headers[first_header].name, name]).field
        return ir.ElementField(ir.Element(index, ir.LastIndex(index)), field)

    def _load_operation(self, item: Json) -> ir.Expression:
        op = item["op"]
        match op:
            case "d2b":  # data to bool
                operand = self.value(item["right"])
                return operand if self._is_bool(operand) else ir.Binary(ir.Op.NE, operand, ir.Constant(0))
            case "b2d":  # bool to data
                return self.value(item["right"])
            case "?":
                return ir.Ternary(*(self.value(item[part]) for part in ("cond", "left", "right")))
            case "access_field":
                header = self.header(item["left"])
                return self._make_field(header, item["right"])
            case "last_stack_index":
                unions = self._union_stacks(item["right"])
                return ir.LastIndex(unions[0] if unions else self._stack_index(item["right"]))
            case "valid":
                header = self.header(item["right"])
                if isinstance(header, int):  # not an element of a stack, which is refused below
                    return ir.IsValid(header)
            case "valid_union":
                members = self.scope.union_members[self.name(_unwrap(item["right"]), "header_union")]
                return _join(ir.Op.BOOL_OR, map(ir.IsValid, members))
            case "==" | "!=" if _unwrap(item["left"]).get("type") in HEADER_TYPES:
                equal = self._equal_headers(_unwrap(item["left"]), _unwrap(item["right"]))
                return equal if op == "==" else ir.Unary(ir.Op.NOT, equal)
        if op in CASTS:
            width = self.value(item["right"])
            if not isinstance(width, ir.Constant) or width.value < 0:
                raise UnsupportedConstruct("a cast to a computed width", self.location)
            return ir.Cast(CASTS[op], self.value(item["left"]), width.value)
        if op in UNARY_OPS:
            return ir.Unary(UNARY_OPS[op], self.value(item["right"]))
        if op in BINARY_OPS:
            left, right = item.get("left"), self.value(item["right"])
            if op in ("<<", ">>") and isinstance(right, ir.Constant) and right.value < 0:
                raise UnsupportedConstruct("a shift by a negative number", self.location)
            # A unary plus or minus has no left operand.
            return ir.Binary(BINARY_OPS[op], ir.Constant(0) if left is None else self.value(left), right)
        raise UnsupportedConstruct(f"operator `{op}`", self.location)

    def _is_bool(self, expression: ir.Expression) -> bool:
        """Return whether an expression is 0 or 1, so that it is its own truth value."""
        match expression:
            case ir.IsValid():
                return True
            case ir.Constant(value):
                return value in (0, 1)
            case ir.Binary(op) | ir.Unary(op):
                return op in BOOLEAN_OPS
            case ir.Ternary(_, left, right):
                return self._is_bool(left) and self._is_bool(right)
            case ir.FieldRef(header, field):
                return _is_bit(self.scope.headers[header].fields[field])
            case ir.ElementField(ir.Element(stack), field):
                return _is_bit(self.scope.headers[self.scope.stacks[stack].headers[0]].fields[field])
            case ir.Parameter(_, width) | ir.Lookahead(_, width):
                return width == 1
        return False

    def _make_field(self, header: ir.HeaderRef, field: int) -> ir.LValue:
        index = header if isinstance(header, int) else self.scope.stacks[header.stack].headers[0]
        count = len(self.scope.headers[index].fields)
        if field >= count:
            raise ProgramError(f"{self.location}: expected the index of one of {count} fields, got {field}")
        return ir.FieldRef(index, field) if isinstance(header, int) else ir.ElementField(header, field)

    def _equal_headers(self, left: Json, right: Json) -> ir.Expression:
        """Compare headers (equal if valid with equal fields) or unions (equal if any pair of members is)."""
        names = [self.name(side, left["type"]) for side in (left, right)]
        if left["type"] == "header_union":
            left_members, right_members = (self.scope.union_members[name] for name in names)
            if len(left_members) != len(right_members):
                raise ProgramError(f"{self.location}: expected unions of one type, got {' and '.join(names)}")
            return _join(ir.Op.BOOL_OR, map(self._equal_header_fields, left_members, right_members))
        return self._equal_header_fields(*(self.scope.header_index[name] for name in names))

    def _equal_header_fields(self, left: int, right: int) -> ir.Expression:
        fields = self.scope.headers[left].fields
        if fields != self.scope.headers[right].fields:
            raise ProgramError(f"{self.location}: expected two headers of one type to compare")
        if any(f.varbit for f in fields):
            raise UnsupportedConstruct("comparison of headers with a varbit field", self.location)
        equal_fields = [
            ir.Binary(ir.Op.EQ, ir.FieldRef(left, i), ir.FieldRef(right, i)) for i in range(len(fields))
        ]
        conditions: list[ir.Expression] = [ir.IsValid(left), ir.IsValid(right), *equal_fields]
        return _join(ir.Op.BOOL_AND, conditions)


def _is_bit(field: ir.FieldType) -> bool:
    return field.width == 1 and not field.signed and not field.varbit


def _unwrap(item: Json) -> Json:
    while item.get("type") == "expression":
        item = item["value"]
    return item


def _join(op: ir.Op, conditions: Iterable[ir.Expression]) -> ir.Expression:
    return reduce(lambda left, right: ir.Binary(op, left, right), conditions)
