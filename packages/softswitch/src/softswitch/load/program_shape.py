"""The shape of a BMv2 JSON: which keys its parts have, of which types, and which keys may be missing.

BMv2's P4Objects.cpp does not need the keys that may be missing; `load.legacy` fills them in.
"""

from __future__ import annotations

from softswitch.load.schema import (
    SOURCE_INFO,
    Check,
    Shape,
    bit_width,
    count,
    flag,
    header_field,
    hexstr,
    integer,
    make_check,
    max_header_bytes,
    mismatch,
    name,
    one_of,
    operation,
    typed_value,
)

_PRIMITIVE = {"op": str, "parameters?": [typed_value], "source_info?": SOURCE_INFO}


_check_bit_width = make_check({"bitwidth": bit_width})
_check_optional_bit_width = make_check({"bitwidth?": bit_width})


def _check_hash_input(value: object) -> None:
    typed_value(value)
    assert isinstance(value, dict)
    if value["type"] == "hexstr":
        _check_bit_width(value)


def _check_list_element(value: object) -> None:
    typed_value(value)
    _check_optional_bit_width(value)


_FIELD_LIST = {"name?": str, "id": integer, "elements?": [_check_list_element]}
_HASH = {"algo": str, "input": [_check_hash_input]}
_check_type_key = make_check({"type": str})
_check_union_stack = make_check({"value": (str, str)})
_check_header = make_check({"value": one_of(dict, str)})


def _check_extract(value: object) -> None:
    _check_type_key(value)
    assert isinstance(value, dict)
    (_check_union_stack if value["type"] == "union_stack" else _check_header)(value)


_PARSER_OPERATIONS: dict[str, tuple[Shape, ...]] = {
    "extract": (_check_extract,), "extract_VL": (_check_extract, typed_value),
    "set": (typed_value, typed_value), "verify": (typed_value, one_of(count, typed_value)),
    "primitive": (_PRIMITIVE,), "shift": (count,), "advance": (typed_value,),
}  # fmt: skip
_PARSER_OPERATION_CHECKS = {op: make_check({"parameters": shape}) for op, shape in _PARSER_OPERATIONS.items()}
_check_any_operation = make_check({"op": str, "parameters": list})


def _check_parser_operation(value: object) -> None:
    _check_any_operation(value)
    assert isinstance(value, dict)
    if (check := _PARSER_OPERATION_CHECKS.get(value["op"])) is not None:
        check(value)


_check_any_transition = make_check({"type?": str, "value?": str, "mask?": hexstr, "next_state?": str})
_check_number = make_check({"value": hexstr})
_check_value_set = make_check({"value": str})


def _check_transition(value: object) -> None:
    _check_any_transition(value)
    assert isinstance(value, dict)
    if (value.get("type") or "hexstr") == "hexstr" and value.get("value") != "default":
        _check_number(value)
    elif value.get("type") == "parse_vset":
        _check_value_set(value)


_ENTRY_MATCHES: dict[str, Check] = {
    "exact": make_check({"key": hexstr}),
    "optional": make_check({"key": hexstr, "mask?": hexstr}),
    "valid": make_check({"key": flag}),
    "lpm": make_check({"key": hexstr, "prefix_length": count}),
    "ternary": make_check({"key": hexstr, "mask": hexstr}),
    "range": make_check({"start": hexstr, "end": hexstr}),
}
_check_match_kind = make_check({"match_type": str})


def _check_entry_match(value: object) -> None:
    _check_match_kind(value)
    assert isinstance(value, dict)
    if (check := _ENTRY_MATCHES.get(value["match_type"])) is not None:
        check(value)


_check_any_key_part = make_check({"match_type": str, "name?": str, "mask?": hexstr})
_check_validity_target = make_check({"target": str})
_check_target = make_check({"target": one_of(dict, (str, str))})


def _check_key_part(value: object) -> None:
    _check_any_key_part(value)
    assert isinstance(value, dict)
    (_check_validity_target if value["match_type"] == "valid" else _check_target)(value)


def _check_match_type(value: object) -> None:
    if value not in ("exact", "lpm", "ternary", "range"):
        raise mismatch("exact, lpm, ternary or range", value)


_check_object = make_check(dict)


def _check_next_tables(value: object) -> None:
    _check_object(value)
    assert isinstance(value, dict)
    make_check({f"{action}?": str for action in value})(value)  # as `?` allows null


_check_any_meter = make_check({"name": str, "id?": integer, "size?": count, "type": str, "is_direct?": flag})
_check_result_target = make_check({"result_target": (str, str)})


def _check_meter(value: object) -> None:
    _check_any_meter(value)
    assert isinstance(value, dict)
    if value.get("is_direct"):
        _check_result_target(value)


_check_any_checksum = make_check({
    "type": str, "name?": str, "id?": integer, "target": (str, str), "update?": flag, "verify?": flag,
    "if_cond?": operation,
})  # fmt: skip
_check_calculation = make_check({"calculation": str})


def _check_checksum(value: object) -> None:
    _check_any_checksum(value)
    assert isinstance(value, dict)
    if value["type"] != "ipv4":
        _check_calculation(value)


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
check_program = make_check({
    "__meta__?": {"version?": (integer, integer)},
    "header_types?": [
        {"name": str, "id?": integer, "fields": [header_field], "max_length?": max_header_bytes}
    ],
    "headers?": [{"name": str, "id": integer, "header_type": str, "metadata?": flag}],
    "header_stacks?": [{"name": str, "id": integer, "header_type": str, "header_ids": [integer]}],
    "header_union_types?": [{"name": str, "headers": [(str, str)]}],
    "force_arith?": [list],
    "header_unions?": [{"name": str, "id": integer, "union_type": str, "header_ids": [integer]}],
    "header_union_stacks?": [{"name": str, "id": integer, "union_type": str, "header_union_ids": [integer]}],
    "field_aliases?": [(str, (str, str))],
    "errors?": [(str, count)],
    "extern_instances?": [{"name?": str}],
    "parse_vsets?": [{"name": str, "id?": integer, "compressed_bitwidth": bit_width, "max_size?": count}],
    "parsers": [{"name?": name, "id?": integer, "init_state": str, "parse_states": [_STATE]}],
    "deparsers": [{"name?": name, "id?": integer, "order?": [str], "primitives?": [_PRIMITIVE]}],
    "calculations?": [{"name": str, "id?": integer, **_HASH}],
    "counter_arrays?": [{"name": str, "id?": integer, "size?": count, "is_direct?": flag}],
    "meter_arrays?": [_check_meter],
    "register_arrays?": [{"name": str, "id?": integer, "size": count, "bitwidth": bit_width}],
    "actions?": [
        {
            "name": str, "id": integer, "runtime_data?": [{"name?": name, "bitwidth": bit_width}],
            "primitives?": [_PRIMITIVE], "source_info?": SOURCE_INFO,
        }
    ],
    "pipelines": [_PIPELINE],
    "checksums?": [_check_checksum],
    "learn_lists?": [_FIELD_LIST],
    "field_lists?": [_FIELD_LIST],
})  # fmt: skip
