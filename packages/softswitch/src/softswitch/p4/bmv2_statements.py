"""Write statements as BMv2's primitives."""

from __future__ import annotations

import re
from collections.abc import Iterator

from softswitch import ir
from softswitch.errors import UnsupportedConstruct
from softswitch.p4.bmv2_expressions import ExpressionWriter
from softswitch.p4.bmv2_names import Json, JsonNames, hex_value

_ASSERTION = re.compile(r"(assert|assume) failed(?: \((.*)\))?: the packet is dropped")
CLONES = {"ingress": "clone_ingress_pkt_to_egress", "egress": "clone_egress_pkt_to_egress"}


class StatementWriter:
    def __init__(self, names: JsonNames, expressions: ExpressionWriter) -> None:
        self._names, self._expressions = names, expressions
        self._program = names.program

    def action_body(self, action: ir.Action, control: str) -> list[Json]:
        """Return the primitives of an action that runs in a control."""
        primitives: list[Json] = []
        position_of: list[int] = []
        """For each statement, the position of its primitive."""
        jumps: list[tuple[Json, int]] = []
        statements = list(zip(action.body, action.locations, strict=True))
        while len(position_of) < len(statements):
            statement, location = statements[len(position_of)]
            if isinstance(statement, ir.CountLoop):  # BMv2 does not limit loops
                position_of.append(len(primitives))
                continue
            count, op, arguments = self._primitive(action.body, len(position_of), control)
            text = statement.text if isinstance(statement, ir.JumpIfZero) else None
            primitive = {"op": op, "parameters": arguments, **self._names.source_info(location, text)}
            if isinstance(statement, ir.Jump | ir.JumpIfZero):
                jumps.append((primitive, statement.target_position))
            position_of += [len(primitives)] * count
            primitives.append(primitive)
        position_of.append(len(primitives))
        for primitive, target in jumps:
            primitive["parameters"].append({"type": "hexstr", "value": hex(position_of[target])})
        return primitives

    def body(self, statements: tuple[ir.Statement, ...]) -> list[Json]:
        """Return the primitives of statements outside of actions, which have no jumps."""
        primitives: list[Json] = []
        position = 0
        while position < len(statements):
            count, op, arguments = self._primitive(statements, position, "ingress")
            location = self._assertion_location(statements[position])
            primitives.append({"op": op, "parameters": arguments, **self._names.source_info(location)})
            position += count
        return primitives

    def _assertion_location(self, statement: ir.Statement) -> str:
        if not isinstance(statement, ir.Assert):
            return ""
        found = _ASSERTION.fullmatch(self._program.messages[statement.message])
        return (found.group(2) or "") if found else ""

    def _primitive(
        self, statements: tuple[ir.Statement, ...], position: int, control: str
    ) -> tuple[int, str, list[Json]]:
        """Return the number of statements that are one primitive, its name and its arguments."""
        statement = statements[position]
        if isinstance(statement, ir.CopyCursor):
            return self._stack_copy(statements, position)
        op, arguments = self._one(statement, control)
        return 1, op, arguments

    def _stack_copy(self, statements: tuple[ir.Statement, ...], position: int) -> tuple[int, str, list[Json]]:
        statement = statements[position]
        assert isinstance(statement, ir.CopyCursor)
        copies = list(self._copies(statement.target, statement.source))
        end = position + 1 + len(copies)
        if list(statements[position + 1 : end]) != copies:
            raise UnsupportedConstruct("the copy of a part of a header stack with its `next` position")
        stacks = [
            self._names.stacks[self._names.stack_of_cursor[c]] for c in (statement.target, statement.source)
        ]
        op = "assign_union_stack" if stacks[0].member else "assign_header_stack"
        return 1 + len(copies), op, [{"type": stack.kind, "value": stack.name} for stack in stacks]

    def _copies(self, target: int, source: int) -> Iterator[ir.AssignHeader]:
        """Yield the copies of headers of BMv2's copy of a stack, after that of its `next` position."""
        stacks = self._program.stacks
        targets, sources = ([s for s in stacks if s.cursor == cursor] for cursor in (target, source))
        for position in range(len(targets[0].headers)):
            for left, right in zip(targets, sources, strict=True):
                yield ir.AssignHeader(left.headers[position], right.headers[position])

    def _one(self, statement: ir.Statement, control: str) -> tuple[str, list[Json]]:
        value, target, header = self._expressions.argument, self._expressions.target, self._expressions.header
        match statement:
            case ir.Assign(place, source):
                return "assign", [target(place), value(source)]
            case ir.AssignVarbit(place, source):
                return "assign_VL", [target(place), value(source)]
            case ir.AssignHeader(place, source):
                return "assign_header", [header(place), header(source)]
            case ir.SetValid(reference):
                return "add_header", [header(reference)]
            case ir.SetInvalid(reference):
                return "remove_header", [header(reference)]
            case ir.Shift(stacks, count):
                stack = self._names.stacks[stacks[0]]
                arguments = [{"type": stack.kind, "value": stack.name}, hex_value(abs(count))]
                return "push" if count > 0 else "pop", arguments
            case ir.Exit():
                return "exit", []
            case ir.Jump():
                return "_jump", []  # the target follows
            case ir.JumpIfZero(condition):
                return "_jump_if_zero", [value(condition)]
            case ir.LogMessage(message, values):
                text = {"type": "string", "value": self._program.messages[message]}
                return "log_msg", [text, {"type": "parameters_vector", "value": [value(v) for v in values]}]
            case ir.Assert(condition, message):
                found = _ASSERTION.fullmatch(self._program.messages[message])
                return found.group(1) if found else "assert", [value(condition)]
        return self._extern(statement, control)

    def _extern(self, statement: ir.Statement, control: str) -> tuple[str, list[Json]]:
        value, target, program = self._expressions.argument, self._expressions.target, self._program
        match statement:
            case ir.Count(counter, index):
                return "count", [_object("counter_array", program.counters[counter].name), value(index)]
            case ir.ExecuteMeter(meter, index, place):
                array = _object("meter_array", program.meters[meter].name)
                return "execute_meter", [array, value(index), target(place)]
            case ir.RegisterRead(place, register, index):
                array = _object("register_array", program.registers[register].name)
                return "register_read", [target(place), array, value(index)]
            case ir.RegisterWrite(register, index, source):
                array = _object("register_array", program.registers[register].name)
                return "register_write", [array, value(index), value(source)]
            case ir.Hash(place, base, calculation, size):
                calculated = _object("calculation", program.calculations[calculation].name)
                arguments = [target(place), value(base), calculated, value(size)]
                return "modify_field_with_hash_based_offset", arguments
            case ir.Random(place, low, high):
                return "modify_field_rng_uniform", [target(place), value(low), value(high)]
            case ir.MarkToDrop(egress_spec):
                return "mark_to_drop", [_object("header", self._names.header(egress_spec.header))]
            case ir.Clone(session, field_list):
                return CLONES[control], [value(session), _list(program.field_lists[field_list])]
            case ir.Resubmit(field_list):
                return "resubmit", [_list(program.field_lists[field_list])]
            case ir.Recirculate(field_list):
                return "recirculate", [_list(program.field_lists[field_list])]
            case ir.Digest(field_list):
                return "generate_digest", [hex_value(0), _list(program.digests[field_list])]
            case ir.Truncate(length):
                return "truncate", [value(length)]
        raise UnsupportedConstruct(f"a statement of the type {type(statement).__name__} in BMv2's JSON")


def _object(kind: str, name: str) -> Json:
    return {"type": kind, "value": name}


def _list(values: ir.FieldList) -> Json:
    return {"type": "hexstr", "value": hex(values.id)}
