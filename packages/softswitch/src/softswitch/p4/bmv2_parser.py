"""Write the parser's states and value sets."""

from __future__ import annotations

from softswitch import ir
from softswitch.p4.bmv2_expressions import ExpressionWriter
from softswitch.p4.bmv2_names import Json, JsonNames, hexstr, numbered
from softswitch.p4.bmv2_statements import StatementWriter

_ALL_BITS = -1
Operation = ir.Extract | ir.Advance | ir.Verify | ir.Statement


class ParserWriter:
    def __init__(self, names: JsonNames, expressions: ExpressionWriter, statements: StatementWriter) -> None:
        self._names, self._expressions, self._statements = names, expressions, statements
        self._program = names.program

    def write_parser(self) -> Json:
        states = self._program.parser
        return {
            "name": "parser",
            "id": 0,
            "init_state": states[self._program.start_state].name,
            "parse_states": numbered(map(self._state, states)),
        }

    def write_value_sets(self) -> list[Json]:
        return numbered(
            {"name": each.name, "compressed_bitwidth": sum(each.widths), "max_size": each.size}
            for each in self._program.value_sets
        )

    def _state(self, state: ir.ParserState) -> Json:
        key_bytes = sum(ir.padded_width(self._width(part)) for part in state.key) // 8
        return {
            "name": state.name,
            "parser_ops": self._operations(state.operations),
            "transitions": [self._transition(case, key_bytes) for case in state.cases],
            "transition_key": [self._expressions.value(part) for part in state.key],
        }

    def _width(self, part: ir.KeyPart) -> int:
        return part.width if isinstance(part, ir.Lookahead) else self._program.width(part)

    # -- operations

    def _operations(self, operations: tuple[Operation, ...]) -> list[Json]:
        made: list[Json] = []
        statements: list[ir.Statement] = []
        for operation in operations:
            if not self._is_parser_operation(operation):
                assert not isinstance(operation, ir.Extract | ir.Advance | ir.Verify)
                statements.append(operation)
                continue
            made += self._primitives(statements)
            statements = []
            made.append(self._operation(operation))
        return made + self._primitives(statements)

    def _is_parser_operation(self, operation: Operation) -> bool:
        is_set = isinstance(operation, ir.Assign) and isinstance(operation.target, ir.FieldRef)
        return is_set or isinstance(operation, ir.Extract | ir.Advance | ir.Verify)

    def _primitives(self, statements: list[ir.Statement]) -> list[Json]:
        primitives = self._statements.body(tuple(statements))
        return [{"parameters": [primitive], "op": "primitive"} for primitive in primitives]

    def _operation(self, operation: Operation) -> Json:
        match operation:
            case ir.Extract(varbit_bits=None):
                return {"parameters": [self._extracted(operation)], "op": "extract"}
            case ir.Extract(varbit_bits=ir.Cast(_, bits)):  # BMv2 has lengths of 32 bits
                length = {"type": "expression", "value": self._expressions.value(bits)}
                return {"parameters": [self._extracted(operation), length], "op": "extract_VL"}
            case ir.Advance(bits):
                return {"parameters": [self._expressions.argument(bits)], "op": "advance"}
            case ir.Verify(condition, error):
                arguments = [self._expressions.condition(condition), self._expressions.value(error)]
                return {"parameters": arguments, "op": "verify"}
            case ir.Assign(target, value):
                arguments = [self._expressions.target(target), self._expressions.argument(value)]
                return {"parameters": arguments, "op": "set"}
        raise AssertionError(operation)

    def _extracted(self, extract: ir.Extract) -> Json:
        if extract.header is not None:
            return {"type": "regular", "value": self._names.header(extract.header)}
        assert extract.stack is not None
        stack = self._names.stacks[extract.stack]
        if stack.member:
            return {"type": "union_stack", "value": [stack.name, stack.member]}
        return {"type": "stack", "value": stack.name}

    # -- transitions

    def _transition(self, case: ir.Case, key_bytes: int) -> Json:
        next_state = None if case.state is None else self._program.parser[case.state].name
        if case.value_set is not None:
            kind, value = "parse_vset", self._program.value_sets[case.value_set].name
            return {
                "type": kind, "value": value, "mask": _mask(case, key_bytes), "next_state": next_state,
            }  # fmt: skip
        if case.mask == 0:
            return {"type": "default", "value": None, "mask": None, "next_state": next_state}
        return {
            "type": "hexstr",
            "value": hexstr(case.value, 8 * key_bytes),
            "mask": _mask(case, key_bytes),
            "next_state": next_state,
        }


def _mask(case: ir.Case, key_bytes: int) -> str | None:
    return None if case.mask == _ALL_BITS else hexstr(case.mask, 8 * key_bytes)
