"""The shape of a BMv2 JSON: which keys its parts have, of which types, and which keys may be missing.

BMv2's P4Objects.cpp does not need the keys that may be missing; `load.legacy` fills them in.
"""

from __future__ import annotations

from softswitch.load.schema import (
    SOURCE_INFO,
    Shape,
    check,
    count,
    flag,
    header_field,
    hexstr,
    integer,
    mismatch,
    name,
    one_of,
    operation,
    typed_value,
)

_PRIMITIVE = {"op": str, "parameters?": [typed_value], "source_info?": SOURCE_INFO}
_FIELD_LIST = {"name?": str, "id": integer, "elements?": [typed_value]}


def _check_hash_input(value: object, place: str) -> None:
    typed_value(value, place)
    assert isinstance(value, dict)
    if value["type"] == "hexstr":
        check(value, {"bitwidth": count}, place)


_HASH = {"algo": str, "input": [_check_hash_input]}


def _check_extract(value: object, place: str) -> None:
    check(value, {"type": str}, place)
    assert isinstance(value, dict)
    shape = (str, str) if value["type"] == "union_stack" else one_of(dict, str)
    check(value, {"value": shape}, place)


_PARSER_OPERATIONS: dict[str, Shape] = {
    "extract": (_check_extract,), "extract_VL": (_check_extract, typed_value),
    "set": (typed_value, typed_value), "verify": (typed_value, one_of(count, typed_value)),
    "primitive": (_PRIMITIVE,), "shift": (count,), "advance": (typed_value,),
}  # fmt: skip


def _check_parser_operation(value: object, place: str) -> None:
    check(value, {"op": str, "parameters": list}, place)
    assert isinstance(value, dict)
    if value["op"] in _PARSER_OPERATIONS:
        check(value["parameters"], _PARSER_OPERATIONS[value["op"]], f"{place}.parameters")


def _check_transition(value: object, place: str) -> None:
    check(value, {"type?": str, "value?": str, "mask?": hexstr, "next_state?": str}, place)
    assert isinstance(value, dict)
    if (value.get("type") or "hexstr") == "hexstr" and value.get("value") != "default":
        check(value, {"value": hexstr}, place)
    elif value.get("type") == "parse_vset":
        check(value, {"value": str}, place)


_ENTRY_MATCHES: dict[str, Shape] = {
    "exact": {"key": hexstr},
    "optional": {"key": hexstr, "mask?": hexstr},
    "valid": {"key": flag},
    "lpm": {"key": hexstr, "prefix_length": count},
    "ternary": {"key": hexstr, "mask": hexstr},
    "range": {"start": hexstr, "end": hexstr},
}


def _check_entry_match(value: object, place: str) -> None:
    check(value, {"match_type": str}, place)
    assert isinstance(value, dict)
    check(value, _ENTRY_MATCHES.get(value["match_type"], {}), place)


def _check_key_part(value: object, place: str) -> None:
    check(value, {"match_type": str, "name?": str, "mask?": hexstr}, place)
    assert isinstance(value, dict)
    check(value, {"target": str if value["match_type"] == "valid" else one_of(dict, (str, str))}, place)


def _check_match_type(value: object, place: str) -> None:
    if value not in ("exact", "lpm", "ternary", "range"):
        raise mismatch("exact, lpm, ternary or range", value, place)


def _check_next_tables(value: object, place: str) -> None:
    check(value, dict, place)
    assert isinstance(value, dict)
    check(value, {f"{action}?": str for action in value}, place)  # as `?` allows null


def _check_meter(value: object, place: str) -> None:
    check(value, {"name": str, "id?": integer, "size?": count, "type": str, "is_direct?": flag}, place)
    assert isinstance(value, dict)
    if value.get("is_direct"):
        check(value, {"result_target": (str, str)}, place)


def _check_checksum(value: object, place: str) -> None:
    shape = {
        "type": str, "name?": str, "id?": integer, "target": (str, str), "update?": flag, "verify?": flag,
        "if_cond?": operation,
    }  # fmt: skip
    check(value, shape, place)
    assert isinstance(value, dict)
    if value["type"] != "ipv4":
        check(value, {"calculation": str}, place)


_INVOCATION = {"action_id": integer, "action_data": [hexstr]}
_TABLE = {
    "name": str, "id?": integer, "type": str, "max_size?": count, "action_ids?": [integer], "actions?": [str],
    "key?": [_check_key_part],
    "default_entry?": {**_INVOCATION, "action_const?": flag, "action_entry_const?": flag},
    "with_counters?": flag, "support_timeout?": flag, "match_type": _check_match_type,
    "entries?": [{"match_key": [_check_entry_match], "action_entry": _INVOCATION, "priority?": integer}],
    "next_tables": _check_next_tables, "base_default_next?": str, "action_profile?": str,
    "act_prof_name?": str, "selector?": _HASH, "direct_meters?": str,
}  # fmt: skip
_PIPELINE = {
    "name": str, "id?": integer, "init_table?": str, "tables?": [_TABLE],
    "action_profiles?": [{"name": str, "id?": integer, "max_size?": count, "selector?": _HASH}],
    "conditionals?": [
        {
            "name": str, "id?": integer, "expression": operation, "true_next?": str,
            "false_next?": str, "source_info?": SOURCE_INFO,
        }
    ],
    "action_calls?": [{"name": str, "action_id": integer, "next_node?": str}],
}  # fmt: skip
_STATE = {
    "name": str, "id?": integer, "parser_ops?": [_check_parser_operation], "transition_key?": [typed_value],
    "transitions?": [_check_transition],
}  # fmt: skip
PROGRAM = {
    "__meta__?": {"version?": (integer, integer)},
    "header_types?": [{"name": str, "id?": integer, "fields": [header_field], "max_length?": count}],
    "headers?": [{"name": str, "id": integer, "header_type": str, "metadata?": flag}],
    "header_stacks?": [{"name": str, "id": integer, "header_type": str, "header_ids": [integer]}],
    "header_union_types?": [{"name": str, "headers": [(str, str)]}],
    "force_arith?": [list],
    "header_unions?": [{"name": str, "id": integer, "union_type": str, "header_ids": [integer]}],
    "header_union_stacks?": [{"name": str, "id": integer, "union_type": str, "header_union_ids": [integer]}],
    "field_aliases?": [(str, (str, str))],
    "errors?": [(str, count)],
    "extern_instances?": [{"name?": str}],
    "parse_vsets?": [{"name": str, "id?": integer, "compressed_bitwidth": count, "max_size?": count}],
    "parsers": [{"name?": name, "id?": integer, "init_state": str, "parse_states": [_STATE]}],
    "deparsers": [{"name?": name, "id?": integer, "order?": [str], "primitives?": [_PRIMITIVE]}],
    "calculations?": [{"name": str, "id?": integer, **_HASH}],
    "counter_arrays?": [{"name": str, "id?": integer, "size?": count, "is_direct?": flag}],
    "meter_arrays?": [_check_meter],
    "register_arrays?": [{"name": str, "id?": integer, "size": count, "bitwidth": count}],
    "actions?": [
        {
            "name": str, "id": integer, "runtime_data?": [{"name?": name, "bitwidth": count}],
            "primitives?": [_PRIMITIVE], "source_info?": SOURCE_INFO,
        }
    ],
    "pipelines": [_PIPELINE],
    "checksums?": [_check_checksum],
    "learn_lists?": [_FIELD_LIST],
    "field_lists?": [_FIELD_LIST],
}  # fmt: skip
