"""Load primitives of actions, and of the parser, as statements."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from softswitch import ir
from softswitch.errors import ProgramError, UnsupportedConstruct, add_location
from softswitch.load.expressions import Expressions
from softswitch.load.scope import Json, Scope, source_line, source_text
from softswitch.v1model import STANDARD_METADATA, Standard

_P4C_FRAGMENT = "if"  # what p4c quotes of the statement; softswitch's compiler quotes the condition
_JUMPS = {"_jump": 0, "_jump_if_zero": 1}  # number of conditions of each primitive that jumps


def load_action(scope: Scope, item: Json) -> ir.Action:
    parameters = [data["bitwidth"] for data in item["runtime_data"]]
    body: list[ir.Statement] = []
    locations: list[str] = []
    starts: list[int] = []  # position in `body` of the first statement of each primitive
    for number, primitive in enumerate(item["primitives"]):
        starts.append(len(body))
        if primitive["op"] in _JUMPS:
            statements = _load_jump(scope, primitive, parameters, number)
        else:
            statements = load_statement(scope, primitive, parameters)
        body += statements
        locations += [source_line(primitive)] * len(statements)
    starts.append(len(body))
    resolved_body = (_resolve_target(statement, starts) for statement in body)
    names = tuple(data["name"] for data in item["runtime_data"])
    return ir.Action(item["name"], tuple(parameters), tuple(resolved_body), tuple(locations), names)


def _load_jump(scope: Scope, item: Json, parameters: list[int], number: int) -> list[ir.Statement]:
    """Load a jump whose target is still the position of a primitive; `number` is that of the jump."""
    location = source_line(item)
    expressions = Expressions(scope, location, parameters)
    if not item["parameters"]:
        raise ProgramError(f"{location}: `{item['op']}`: expected the primitive to jump to, there is none")
    *conditions, target = (expressions.value(parameter) for parameter in item["parameters"])
    if not isinstance(target, ir.Constant):
        raise UnsupportedConstruct("jump to a computed primitive", location)
    if len(conditions) != _JUMPS[item["op"]] or target.value < 0:
        expected = f"expected {_JUMPS[item['op']]} conditions and a target from 0 on"
        raise ProgramError(
            f"{location}: `{item['op']}`: {expected}, got {len(conditions)} and {target.value}"
        )
    fragment = source_text(item)
    text = "" if fragment == _P4C_FRAGMENT else fragment
    jump = ir.JumpIfZero(conditions[0], target.value, text) if conditions else ir.Jump(target.value)
    if target.value > number:
        return [jump]
    # A jump backwards may be repeated without end: `CountLoop` drops the packet after too many.
    location_prefix = f"{location}: " if location else ""
    text = f"{location_prefix}an endless loop: the packet is dropped"
    return [ir.CountLoop(scope.add_message(text)), jump]


def _resolve_target(statement: ir.Statement, starts: list[int]) -> ir.Statement:
    """Change a jump's target from a primitive to a statement; targets past the last one end the action."""
    if isinstance(statement, ir.Jump | ir.JumpIfZero):
        return replace(statement, target_position=starts[min(statement.target_position, len(starts) - 1)])
    return statement


def load_statement(scope: Scope, item: Json, parameters: list[int], fallback: str = "") -> list[ir.Statement]:
    """Load one primitive; `fallback` is its location if p4c recorded no source line."""
    location = source_line(item) or fallback
    load_primitive = PRIMITIVES.get(item["op"])
    if load_primitive is None:
        raise UnsupportedConstruct(f"primitive `{item['op']}`", location)
    arguments = (_Primitives(scope, location, parameters), *item["parameters"])
    try:
        _signature(load_primitive).bind(*arguments)
    except TypeError as error:
        raise ProgramError(f"{location}: primitive `{item['op']}`: {error}") from None
    with add_location(location):
        return load_primitive(*arguments)


@cache
def _signature(load_primitive: Callable[..., list[ir.Statement]]) -> inspect.Signature:
    return inspect.signature(load_primitive)


class _Primitives:
    """Loaders of BMv2's primitives, which `PRIMITIVES` lists by name."""

    def __init__(self, scope: Scope, location: str, parameters: list[int]) -> None:
        self._scope = scope
        self._location = location
        self._expressions = Expressions(scope, location, parameters)

    def no_op(self) -> list[ir.Statement]:
        return []

    def exit(self) -> list[ir.Statement]:
        return [ir.Exit()]

    # -- assignment

    def assign(self, target: Json, value: Json) -> list[ir.Statement]:
        return [ir.Assign(self._expressions.target(target), self._expressions.value(value))]

    def assign_VL(self, target: Json, source: Json) -> list[ir.Statement]:
        target_field, source_field = self._expressions.target(target), self._expressions.target(source)
        if not isinstance(target_field, ir.FieldRef) or not isinstance(source_field, ir.FieldRef):
            raise UnsupportedConstruct("assignment of a varbit field of a stack's element", self._location)
        return [ir.AssignVarbit(target_field, source_field)]

    def assign_header(self, target: Json, source: Json) -> list[ir.Statement]:
        return [self._load_copy(target, source)]

    def _load_copy(self, target: Json, source: Json) -> ir.Statement:
        expression = source
        while expression.get("type") == "expression":
            expression = expression["value"]
        if expression.get("op") == "?":
            condition = self._expressions.value(expression["cond"])
            return ir.If(
                condition,
                self._load_copy(target, expression["left"]),
                self._load_copy(target, expression["right"]),
            )
        return ir.AssignHeader(self._expressions.header(target), self._expressions.header(source))

    def assign_union(self, target: Json, source: Json) -> list[ir.Statement]:
        target_members, source_members = (
            self._scope.union_members[self._expressions.name(side, "header_union")]
            for side in (target, source)
        )
        if len(target_members) != len(source_members):
            raise ProgramError(f"{self._location}: expected two unions of one type to assign")
        return [ir.AssignHeader(*pair) for pair in zip(target_members, source_members, strict=True)]

    def assign_header_stack(self, target: Json, source: Json) -> list[ir.Statement]:
        return self._copy_stacks(*(self._expressions.name(side, "header_stack") for side in (target, source)))

    def assign_union_stack(self, target: Json, source: Json) -> list[ir.Statement]:
        return self._copy_stacks(
            *(self._expressions.name(side, "header_union_stack") for side in (target, source))
        )

    def _copy_stacks(self, target: str, source: str) -> list[ir.Statement]:
        """Copy element by element, and within an element member by member, as BMv2 does."""
        stacks = self._scope.stacks
        targets, sources = ([stacks[i] for i in self._scope.stacks_of(name)] for name in (target, source))
        if [len(part.headers) for part in targets] != [len(part.headers) for part in sources]:
            raise ProgramError(f"{self._location}: expected two stacks of one type to assign")
        copies: list[ir.Statement] = [ir.CopyCursor(targets[0].cursor, sources[0].cursor)]
        for position in range(len(targets[0].headers)):
            for target_stack, source_stack in zip(targets, sources, strict=True):
                copies.append(ir.AssignHeader(target_stack.headers[position], source_stack.headers[position]))
        return copies

    # -- headers

    def add_header(self, header: Json) -> list[ir.Statement]:
        return [ir.SetValid(self._expressions.header(header))]

    def remove_header(self, header: Json) -> list[ir.Statement]:
        return [ir.SetInvalid(self._expressions.header(header))]

    def push(self, stack: Json, count: Json) -> list[ir.Statement]:
        return self._load_shift(stack, self._literal_value(count))

    def pop(self, stack: Json, count: Json) -> list[ir.Statement]:
        return self._load_shift(stack, -self._literal_value(count))

    def _load_shift(self, stack: Json, count: int) -> list[ir.Statement]:
        if count == 0:
            return []
        name = self._expressions.name(stack, "header_stack", "header_union_stack")
        stacks = self._scope.stacks_of(name)
        size = len(self._scope.stacks[stacks[0]].headers)
        sources = ir.shift_sources(size, count)
        shifted_in = tuple(i for i in range(size) if not 0 <= i - count < size)
        # BMv2 invalidates the elements that are shifted in if they are headers, but not if they are unions.
        is_of_unions = name in self._scope.union_stacks
        return [ir.Shift(stacks, count, sources, () if is_of_unions else shifted_in)]

    def _literal_value(self, item: Json) -> int:
        value = self._expressions.value(item)
        if isinstance(value, ir.Constant):
            return value.value
        raise UnsupportedConstruct("push or pop by a computed count", self._location)

    # -- externs

    def count(self, counter: Json, index: Json) -> list[ir.Statement]:
        return [
            ir.Count(
                self._scope.counter_index[self._expressions.name(counter, "counter_array")],
                self._expressions.value(index),
            )
        ]

    def execute_meter(self, meter: Json, index: Json, target: Json) -> list[ir.Statement]:
        meter_index = self._scope.meter_index[self._expressions.name(meter, "meter_array")]
        return [
            ir.ExecuteMeter(meter_index, self._expressions.value(index), self._expressions.target(target))
        ]

    def register_read(self, target: Json, register: Json, index: Json) -> list[ir.Statement]:
        register_index = self._scope.register_index[self._expressions.name(register, "register_array")]
        return [
            ir.RegisterRead(self._expressions.target(target), register_index, self._expressions.value(index))
        ]

    def register_write(self, register: Json, index: Json, value: Json) -> list[ir.Statement]:
        register_index = self._scope.register_index[self._expressions.name(register, "register_array")]
        return [
            ir.RegisterWrite(register_index, self._expressions.value(index), self._expressions.value(value))
        ]

    def modify_field_with_hash_based_offset(
        self, target: Json, base: Json, calculation: Json, size: Json
    ) -> list[ir.Statement]:
        calculation_index = self._scope.calculation_index[self._expressions.name(calculation, "calculation")]
        return [
            ir.Hash(
                self._expressions.target(target),
                self._expressions.value(base),
                calculation_index,
                self._expressions.value(size),
            )
        ]

    def modify_field_rng_uniform(self, target: Json, low: Json, high: Json) -> list[ir.Statement]:
        return [
            ir.Random(
                self._expressions.target(target), self._expressions.value(low), self._expressions.value(high)
            )
        ]

    # -- forwarding

    def mark_to_drop(self, header: Json) -> list[ir.Statement]:
        return self._load_drop(self._expressions.name(header, "header"))

    def drop(self) -> list[ir.Statement]:
        return self._load_drop(STANDARD_METADATA)

    def _load_drop(self, name: str) -> list[ir.Statement]:
        return [ir.MarkToDrop(self._standard(name, Standard.EGRESS_SPEC), self._mcast_grp(name))]

    def _mcast_grp(self, header: str) -> ir.FieldRef | None:
        return self._scope.field_index.get((header, Standard.MCAST_GRP.value))

    def _standard(self, header: str, field: Standard) -> ir.FieldRef:
        ref = self._scope.field_index.get((header, field.value))
        if ref is None:
            raise ProgramError(f"expected a header with the field `{field.value}`, got `{header}`")
        return ref

    def clone(self, session: Json, fields: Json) -> list[ir.Statement]:
        return [ir.Clone(self._expressions.value(session), self._field_list(fields))]

    def resubmit(self, fields: Json) -> list[ir.Statement]:
        return [ir.Resubmit(self._field_list(fields))]

    def recirculate(self, fields: Json) -> list[ir.Statement]:
        return [ir.Recirculate(self._field_list(fields))]

    def _field_list(self, item: Json) -> int:
        return self._scope.field_list_index[self._literal_value(item)]

    def generate_digest(self, _receiver: Json, fields: Json) -> list[ir.Statement]:
        return [ir.Digest(self._scope.digest_index[self._literal_value(fields)])]

    def truncate(self, length: Json) -> list[ir.Statement]:
        return [ir.Truncate(self._expressions.value(length))]

    # -- messages

    def log_msg(self, text: Json, values: Json | None = None) -> list[ir.Statement]:
        if values is not None and values["type"] != "parameters_vector":
            raise ProgramError(f"{self._location}: expected a `parameters_vector`, got a `{values['type']}`")
        items: list[Json] = [] if values is None else values["value"] or []
        arguments = tuple(self._expressions.value(value) for value in items)
        return [ir.LogMessage(self._scope.add_message(self._expressions.name(text, "string")), arguments)]

    def _load_assertion(self, name: str, condition: Json) -> list[ir.Statement]:
        location_text = f" ({self._location})" if self._location else ""
        message = self._scope.add_message(f"{name} failed{location_text}: the packet is dropped")
        return [ir.Assert(self._expressions.value(condition), message)]

    def assume(self, condition: Json) -> list[ir.Statement]:
        return self._load_assertion("assume", condition)

    def assert_condition(self, condition: Json) -> list[ir.Statement]:
        return self._load_assertion("assert", condition)


PRIMITIVES: dict[str, Callable[..., list[ir.Statement]]] = {
    "no_op": _Primitives.no_op,
    "exit": _Primitives.exit,
    "assign": _Primitives.assign,
    "assign_VL": _Primitives.assign_VL,
    "assign_header": _Primitives.assign_header,
    "assign_union": _Primitives.assign_union,
    "assign_header_stack": _Primitives.assign_header_stack,
    "assign_union_stack": _Primitives.assign_union_stack,
    "add_header": _Primitives.add_header,
    "remove_header": _Primitives.remove_header,
    "push": _Primitives.push,
    "pop": _Primitives.pop,
    "count": _Primitives.count,
    "execute_meter": _Primitives.execute_meter,
    "register_read": _Primitives.register_read,
    "register_write": _Primitives.register_write,
    "modify_field_with_hash_based_offset": _Primitives.modify_field_with_hash_based_offset,
    "modify_field_rng_uniform": _Primitives.modify_field_rng_uniform,
    "mark_to_drop": _Primitives.mark_to_drop,
    "drop": _Primitives.drop,
    "clone_ingress_pkt_to_egress": _Primitives.clone,
    "clone_egress_pkt_to_egress": _Primitives.clone,
    "resubmit": _Primitives.resubmit,
    "recirculate": _Primitives.recirculate,
    "generate_digest": _Primitives.generate_digest,
    "truncate": _Primitives.truncate,
    "log_msg": _Primitives.log_msg,
    "assume": _Primitives.assume,
    "assert": _Primitives.assert_condition,
}
"""Loader of each primitive, by BMv2's name; jumps are loaded with their action."""
