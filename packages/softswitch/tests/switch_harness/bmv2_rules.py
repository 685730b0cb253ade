"""Rules that behavioral-model, unlike the loader, has for a JSON: it refuses or misreads what breaks them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
_VALUE_KINDS = {
    "field": "data", "hexstr": "data", "local": "data", "stack_field": "data", "union_stack_field": "data",
    "bool": "bool", "header": "header", "header_stack": "stack", "header_union_stack": "union stack",
    "header_union": "union",
}  # fmt: skip
_NUMBERS = ("data", "data")
_OPERATORS: dict[str, tuple[tuple[str, ...], str]] = {
    **dict.fromkeys(("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^"), (_NUMBERS, "data")),
    **dict.fromkeys(("two_comp_mod", "sat_cast", "usat_cast"), (_NUMBERS, "data")),
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), (_NUMBERS, "bool")),
    **dict.fromkeys(("and", "or"), (("bool", "bool"), "bool")),
    "~": (("data",), "data"), "not": (("bool",), "bool"), "d2b": (("data",), "bool"),
    "b2d": (("bool",), "data"), "valid_union": (("union",), "bool"),
    "last_stack_index": (("any stack",), "data"),
    "dereference_header_stack": (("stack", "data"), "header"),
    "dereference_union_stack": (("union stack", "data"), "union"),
    "access_union_header": (("union", "position"), "header"),
    "access_field": (("header", "position"), "data"),
}  # fmt: skip
"""The kinds of operands of each operator, and of its result."""
_ARGUMENTS = (
    "hexstr", "runtime_data", "header", "field", "calculation", "meter_array", "counter_array",
    "register_array", "header_stack", "header_union", "header_union_stack", "expression", "string",
    "parameters_vector",
)  # fmt: skip
_KINDS_WITH_NAMES = (
    "header_types", "headers", "header_stacks", "header_union_types", "header_unions", "header_union_stacks",
    "parse_vsets", "meter_arrays", "counter_arrays", "register_arrays", "calculations", "checksums",
)  # fmt: skip
_KINDS_WITH_IDS = (*_KINDS_WITH_NAMES, "actions", "field_lists", "learn_lists")


def violations(document: Json) -> list[str]:
    """Return the rules that a document breaks, each with its place."""
    return [
        *_repeated_names(document), *_fractions_of_bytes(document), *_actions(document), *_parser(document),
        *_pipelines(document),
    ]  # fmt: skip


def expression_kind(item: Json) -> str:
    """Return "data" or "bool", or what else an expression is; raise AssertionError for one of wrong kinds."""
    if item["type"] != "expression":
        assert item["type"] in _VALUE_KINDS, f"`{item['type']}` in an expression"
        return _VALUE_KINDS[item["type"]]
    operation = item["value"]
    op = operation["op"]
    if op == "?":
        kinds = [expression_kind(operation[part]) for part in ("cond", "left", "right")]
        assert kinds == ["bool", "data", "data"], f"`?` of {kinds}"
        return "data"
    expected, result = _OPERATORS[op]
    operands = [operation[part] for part in ("left", "right") if operation[part] is not None]
    kinds = ["position" if isinstance(operand, int) else expression_kind(operand) for operand in operands]
    if expected == ("any stack",):
        expected = (kinds[0],) if "stack" in kinds[0] else expected
    is_equality = op in ("==", "!=") and kinds[0] == kinds[1]
    assert is_equality or tuple(kinds) == expected, f"`{op}` of {kinds}"
    return result


def _kind_problem(item: Json, expected: str, place: str) -> Iterator[str]:
    try:
        kind = expression_kind(item)
    except AssertionError as error:
        yield f"{place}: {error}"
    else:
        if kind != expected:
            yield f"{place}: expected {expected}, got {kind}"


def _repeated_names(document: Json) -> Iterator[str]:
    for kinds, key in ((_KINDS_WITH_NAMES, "name"), (_KINDS_WITH_IDS, "id")):
        for kind in kinds:
            counts = Counter(item[key] for item in document[kind])
            yield from (
                f"{kind}: {count} have the {key} {value}" for value, count in counts.items() if count > 1
            )
    nodes = [node for p in document["pipelines"] for node in p["tables"] + p["conditionals"]]
    counts = Counter(node["name"] for node in nodes)
    yield from (
        f"pipelines: {count} nodes have the name {name}" for name, count in counts.items() if count > 1
    )


def _fractions_of_bytes(document: Json) -> Iterator[str]:
    for item in document["header_types"]:
        bits = sum(width for _, width, *_ in item["fields"] if width != "*")
        if bits % 8:
            yield f"header type {item['name']}: {bits} bits are no whole bytes"


def _actions(document: Json) -> Iterator[str]:
    for action in document["actions"]:
        for primitive in action["primitives"]:
            yield from _primitive(primitive, f"action {action['name']}")


def _primitive(primitive: Json, place: str) -> Iterator[str]:
    for argument in primitive["parameters"]:
        if argument["type"] == "parameters_vector":
            yield from _primitive({"op": primitive["op"], "parameters": argument["value"]}, place)
        elif argument["type"] not in _ARGUMENTS:
            yield f"{place}: `{argument['type']}` as an argument of {primitive['op']}"
        elif argument["type"] == "expression":
            inner = argument["value"]
            if "type" not in inner:
                yield f"{place}: an argument of {primitive['op']} without the type of its expression"
                continue
            expected = "header" if "header" in primitive["op"] else "data"
            yield from _kind_problem(inner, expected, f"{place}: {primitive['op']}")


def _parser(document: Json) -> Iterator[str]:
    for state in document["parsers"][0]["parse_states"]:
        place = f"state {state['name']}"
        for part in state["transition_key"]:
            if part["type"] not in ("field", "stack_field", "union_stack_field", "lookahead"):
                yield f"{place}: a select on `{part['type']}`"
        for operation in state["parser_ops"]:
            yield from _parser_operation(operation, place)


def _parser_operation(operation: Json, place: str) -> Iterator[str]:
    parameters = operation["parameters"]
    match operation["op"]:
        case "primitive":
            yield from _primitive(parameters[0], place)
        case "set":
            target, source = parameters
            if target["type"] != "field" or source["type"] not in (
                "field",
                "hexstr",
                "lookahead",
                "expression",
            ):
                yield f"{place}: `{target['type']}` set to `{source['type']}`"
            elif source["type"] == "expression":
                yield from _kind_problem(source["value"], "data", place)
        case "verify":
            yield from _kind_problem(parameters[0], "bool", place)
            yield from _kind_problem(parameters[1], "data", place)
        case "extract_VL":
            yield from _kind_problem(parameters[1]["value"], "data", place)
        case "advance" if parameters[0]["type"] == "expression":
            yield from _kind_problem(parameters[0]["value"], "data", place)


def _pipelines(document: Json) -> Iterator[str]:
    for pipeline in document["pipelines"]:
        nodes = {node["name"] for node in pipeline["tables"] + pipeline["conditionals"]} | {None}
        for conditional in pipeline["conditionals"]:
            yield from _kind_problem(conditional["expression"], "bool", conditional["name"])
            if not {conditional["true_next"], conditional["false_next"]} <= nodes:
                yield f"{conditional['name']}: no node follows"
        for table in pipeline["tables"]:
            yield from _table(table, nodes)


def _table(table: Json, nodes: set[str | None]) -> Iterator[str]:
    following = table["next_tables"]
    if not {*following.values(), table["base_default_next"]} <= nodes:
        yield f"{table['name']}: a node that follows is of no name"
    if following.keys() not in (set(table["actions"]), {"__HIT__", "__MISS__"}):
        yield f"{table['name']}: expected what follows each of its actions"
    if len(set(table["actions"])) < len(table["actions"]):
        yield f"{table['name']}: two of its actions have one name"
    if table["type"] != "simple" and "default_entry" in table:
        yield f"{table['name']}: a default entry of a table with an action profile"
    if table["type"] == "simple" and "default_entry" not in table:
        yield f"{table['name']}: no default entry"
