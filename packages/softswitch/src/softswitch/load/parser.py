from __future__ import annotations

from dataclasses import replace

from softswitch import ir
from softswitch.errors import ProgramError, UnsupportedConstruct, add_location
from softswitch.load.expressions import Expressions
from softswitch.load.scope import VALIDITY_FIELD, Json, Names, Scope, source_line
from softswitch.load.statements import load_statement
from softswitch.messages import pluralize
from softswitch.v1model import VARBIT_BITS_WIDTH

_ALL_BITS = -1  # mask of a key of any width
Operation = ir.Extract | ir.Advance | ir.Verify | ir.Statement


def load_parser(scope: Scope, item: Json) -> tuple[tuple[ir.ParserState, ...], int]:
    """Return the states, and the position of the start state; p4c has inlined sub-parsers."""
    state_index = Names("parser state", ((state["name"], i) for i, state in enumerate(item["parse_states"])))
    states = tuple(_load_state(scope, state, state_index) for state in item["parse_states"])
    return states, state_index[item["init_state"]]


def load_value_sets(scope: Scope, states: tuple[ir.ParserState, ...]) -> tuple[ir.ValueSet, ...]:
    """Load the value sets. The key of a select that uses a set has the widths of its members' parts."""
    sets = []
    for number, item in enumerate(scope.document["parse_vsets"]):
        states_with_set = (s for s in states if any(case.value_set == number for case in s.cases))
        state_with_set = next(states_with_set, None)
        widths = (
            tuple(part_width(scope, part) for part in state_with_set.key)
            if state_with_set
            else (item["compressed_bitwidth"],)
        )
        sets.append(ir.ValueSet(item["name"], widths, item["max_size"]))
    return tuple(sets)


def part_width(scope: Scope, part: ir.KeyPart) -> int:
    match part:
        case ir.FieldRef(header, field):
            return scope.headers[header].fields[field].width
        case ir.ElementField(element, field):
            return scope.headers[scope.stacks[element.stack].headers[0]].fields[field].width
        case ir.Lookahead(_, width):
            return width


def _load_state(scope: Scope, item: Json, state_index: dict[str, int]) -> ir.ParserState:
    name = item["name"]
    expressions = Expressions(scope, f"parser state {name}")
    key = tuple(_load_key_part(expressions, part) for part in item["transition_key"])
    key_bytes = sum((part_width(scope, part) + 7) // 8 for part in key)
    return ir.ParserState(
        name=name,
        operations=_load_operations(scope, item["parser_ops"], name),
        key=key,
        cases=tuple(_load_case(scope, case, state_index, name, key_bytes) for case in item["transitions"]),
    )


def _load_operations(scope: Scope, items: list[Json], state: str) -> tuple[Operation, ...]:
    with add_location(f"parser state {state}"):
        return tuple(operation for item in items for operation in _load_operation(scope, item, state))


def _load_operation(scope: Scope, item: Json, state: str) -> list[Operation]:
    location = source_line(item) or f"parser state {state}"
    parameters = item["parameters"]
    expressions = Expressions(scope, location)
    match item["op"]:
        case "extract":
            return [_load_extract(scope, parameters[0], location)]
        case "extract_VL":
            extract = _load_extract(scope, parameters[0], location)
            return [
                replace(
                    extract,
                    varbit_bits=ir.Cast(
                        ir.Fit.SATURATE_SIGNED, expressions.value(parameters[1]), VARBIT_BITS_WIDTH
                    ),
                    max_bytes=_max_bytes(scope, extract),
                )
            ]
        case "set":
            return [_load_set(scope, expressions, *parameters)]
        case "advance":
            return [ir.Advance(expressions.value(parameters[0]))]
        case "shift":  # by a number of bytes
            return [ir.Advance(ir.Constant(8 * parameters[0]))]
        case "verify":
            return [ir.Verify(expressions.value(parameters[0]), expressions.value(parameters[1]))]
        case "primitive":
            return [*load_statement(scope, parameters[0], [], location)]
    raise UnsupportedConstruct(f"parser operation `{item['op']}`", location)


def _load_set(scope: Scope, expressions: Expressions, target: Json, source: Json) -> ir.Statement:
    if target["type"] == "field" and target["value"][1] == VALIDITY_FIELD:
        header = scope.header(target["value"][0])
        return ir.If(expressions.value(source), ir.SetValid(header), ir.SetInvalid(header))
    lvalue, value = expressions.target(target), expressions.value(source)
    if isinstance(lvalue, ir.FieldRef) and scope.headers[lvalue.header].fields[lvalue.field].varbit:
        assert isinstance(value, ir.FieldRef)
        return ir.AssignVarbit(lvalue, value)
    return ir.Assign(lvalue, value)


def _load_extract(scope: Scope, item: Json, location: str) -> ir.Extract:
    kind, name = item["type"], item["value"]
    match kind:
        case "regular":
            return ir.Extract(scope.header(name), stack=None)
        case "stack":
            return ir.Extract(header=None, stack=scope.stack_index[name])
        case "union_stack":
            return ir.Extract(header=None, stack=scope.union_stacks[name[0]][name[1]])
    raise UnsupportedConstruct(f"extraction to `{kind}`", location)


def _max_bytes(scope: Scope, extract: ir.Extract) -> int:
    header = extract.header if extract.stack is None else scope.stacks[extract.stack].headers[0]
    assert header is not None
    return scope.headers[header].max_bytes


def _load_key_part(expressions: Expressions, item: Json) -> ir.KeyPart:
    part = expressions.value(item)
    if isinstance(part, ir.FieldRef | ir.ElementField | ir.Lookahead):
        return part
    raise UnsupportedConstruct(f"select on `{item['type']}`", expressions.location)


def _load_case(scope: Scope, item: Json, state_index: dict[str, int], state: str, key_bytes: int) -> ir.Case:
    target = state_index.get(item["next_state"])  # an unknown name accepts, as in BMv2
    mask = _ALL_BITS if item["mask"] is None else int(item["mask"], 16)
    match item["type"]:
        case "default":
            return ir.Case(value=0, mask=0, state=target)
        case "hexstr":
            for part in ("value", "mask"):
                _check_bytes(item[part], key_bytes, f"parser state {state}: transition {part}")
            return ir.Case(int(item["value"], 16) & mask, mask, target)
        case "parse_vset":
            return ir.Case(value=0, mask=mask, state=target, value_set=scope.value_set_index[item["value"]])
    raise UnsupportedConstruct(f"transition of type `{item['type']}`", f"parser state {state}")


def _check_bytes(hexstr: str | None, expected: int, place: str) -> None:
    """Check that a number is written with as many bytes as the key; None, no mask, needs none."""
    if hexstr is None:
        return
    digits = len(hexstr.removeprefix("0x"))
    if (digits + 1) // 2 != expected:
        raise ProgramError(f"{place}: expected {pluralize(expected, 'byte')}, got `{hexstr}`")
