"""Convert a BMv2 JSON of any age to the form that p4c prints now, by the rules of BMv2's P4Objects.cpp.

Keys that BMv2 lets a JSON omit get BMv2's defaults, and older spellings (P4_14's primitives, `act_prof_name`,
`valid` keys, action calls) become the current ones. The rest of the loader handles the current form only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from softswitch.errors import ProgramError
from softswitch.load.scope import VALIDITY_FIELD, Json
from softswitch.v1model import STANDARD_METADATA, CoreError, Standard

_LISTS = (
    "header_types", "headers", "header_stacks", "parsers", "deparsers", "meter_arrays", "counter_arrays",
    "register_arrays", "calculations", "learn_lists", "field_lists", "actions", "pipelines", "checksums",
    "errors", "extern_instances", "parse_vsets", "header_union_types", "header_unions",
    "header_union_stacks", "field_aliases",
)  # fmt: skip
_LISTS_WITH_IDS = (
    "header_types", "headers", "header_stacks", "parse_vsets", "parsers", "deparsers", "calculations",
    "counter_arrays", "meter_arrays", "register_arrays", "actions", "pipelines", "checksums", "learn_lists",
    "field_lists",
)  # fmt: skip
_CORE_ERRORS = (
    CoreError.NO_ERROR.value, CoreError.PACKET_TOO_SHORT.value, "NoMatch",
    CoreError.STACK_OUT_OF_BOUNDS.value, CoreError.HEADER_TOO_SHORT.value, "ParserTimeout",
    CoreError.PARSER_INVALID_ARGUMENT.value,
)  # fmt: skip
_OPTIONAL_STANDARD_FIELDS = {
    Standard.CHECKSUM_ERROR: (STANDARD_METADATA, 1),
    Standard.DEQ_QDEPTH: ("queueing_metadata", 19),
    Standard.DEQ_TIMEDELTA: ("queueing_metadata", 32),
    Standard.EGRESS_GLOBAL_TIMESTAMP: ("intrinsic_metadata", 48),
    Standard.EGRESS_RID: ("intrinsic_metadata", 16),
    Standard.ENQ_QDEPTH: ("queueing_metadata", 19),
    Standard.ENQ_TIMESTAMP: ("queueing_metadata", 32),
    Standard.INGRESS_GLOBAL_TIMESTAMP: ("intrinsic_metadata", 48),
    Standard.MCAST_GRP: ("intrinsic_metadata", 16),
    Standard.PARSER_ERROR: (STANDARD_METADATA, 32),
    Standard.PRIORITY: ("intrinsic_metadata", 3),
}
"""Fields that a program may lack: the header where simple_switch looks for each, and its width in bits."""
# Primitives of P4_14: of the forms target += value and target = left op right, and renamed ones.
_UPDATE_OPERATORS = {"add_to_field": "+", "subtract_from_field": "-"}
_BINARY_OPERATORS = {
    "add": "+", "subtract": "-", "bit_xor": "^", "bit_or": "|", "bit_and": "&", "shift_left": "<<",
    "shift_right": ">>",
}  # fmt: skip
_NEW_NAMES = {"modify_field": "assign", "copy_header": "assign_header"}
ACTION_CALL = "is_action_call"
"""Key of the tables that `modernize` makes of action calls, which the JSON does not have as tables."""
DECLARED_MATCH_TYPE = "declared_match_type"
"""Key of match fields whose type `modernize` changes, with the type that the JSON has."""
_DEFAULT_SIZE = 1024  # capacity of action profiles and value sets that declare none; BMv2 limits neither


def modernize(document: Json) -> None:
    """Convert `document`, which `load.schema` has checked, to the current form in place."""
    _set_defaults(document, **{key: [] for key in _LISTS})
    _check_ids(document)
    _add_core_errors(document)
    for header in document["headers"]:
        _set_defaults(header, metadata=False)
    _complete_standard_metadata(document)
    for parser in document["parsers"]:
        for state in parser["parse_states"]:
            _modernize_state(state)
    for deparser in document["deparsers"]:
        _set_defaults(deparser, primitives=[], order=[])
    for array in document["counter_arrays"] + document["meter_arrays"]:
        _set_defaults(array, size=0)
    for value_set in document["parse_vsets"]:
        _set_defaults(value_set, max_size=_DEFAULT_SIZE)
    for field_list in document["learn_lists"] + document["field_lists"]:
        _set_defaults(field_list, name="", elements=[])
    for item in document["actions"]:
        _set_defaults(item, runtime_data=[], primitives=[])
        for data in item["runtime_data"]:
            _set_defaults(data, name="")
    for item in _iterate_primitives(document):
        _modernize_primitive(item)
    for pipeline in document["pipelines"]:
        _modernize_pipeline(document, pipeline)
    for checksum in document["checksums"]:
        _modernize_checksum(document, checksum)


def _set_defaults(item: Json, **values: object) -> None:
    # To BMv2, a key whose value is null is missing.
    for key, value in values.items():
        if item.get(key) is None:
            item[key] = value


def _check_ids(document: Json) -> None:
    """Refuse IDs that several objects of a kind have; an object without an ID has 0, as in BMv2."""
    kinds = {key: document[key] for key in _LISTS_WITH_IDS}
    for parser in document["parsers"]:
        kinds[f"parse_states of {parser.get('name', 'parser')}"] = parser["parse_states"]
    for pipeline in document["pipelines"]:
        for key in ("tables", "conditionals", "action_profiles"):
            kinds[f"{key} of {pipeline['name']}"] = pipeline.get(key) or []
    for kind, items in kinds.items():
        used_ids: set[int] = set()
        for item in items:
            item_id = item.get("id") or 0
            if item_id in used_ids:
                raise ProgramError(f"{kind}: expected unique IDs, got {item_id} twice")
            used_ids.add(item_id)


def _add_core_errors(document: Json) -> None:
    """Append the core library's errors that the JSON lacks (ErrorCodeMap::add_core)."""
    names = {name for name, _ in document["errors"]}
    missing_errors = [name for name in _CORE_ERRORS if name not in names]
    first_code = max((code for _, code in document["errors"]), default=-1) + 1
    document["errors"] += [[name, code] for code, name in enumerate(missing_errors, first_code)]


def _complete_standard_metadata(document: Json) -> None:
    """Give the switch all fields that it uses, under their names in `standard_metadata`.

    A field that an old program has in `intrinsic_metadata` or `queueing_metadata` gets an alias. A field
    that the program has nowhere is added, and only the switch itself uses it.
    """
    types = {item["name"]: item for item in document["header_types"]}
    fields = {
        header["name"]: {field[0] for field in types[header["header_type"]]["fields"]}
        for header in document["headers"]
        if header["header_type"] in types
    }
    if STANDARD_METADATA not in fields:
        raise ProgramError(f"headers: expected `{STANDARD_METADATA}`, there is none")
    for standard in Standard:
        if standard not in _OPTIONAL_STANDARD_FIELDS and standard.value not in fields[STANDARD_METADATA]:
            raise ProgramError(f"{STANDARD_METADATA}: expected the field `{standard.value}`, there is none")
    for alias, (header, field) in document["field_aliases"]:
        if field not in fields.get(header, ()):
            raise ProgramError(f"field_aliases: expected a field for `{alias}`, got `{header}.{field}`")
    aliases = {alias: target for alias, target in document["field_aliases"]}
    standard_metadata = next(item for item in document["headers"] if item["name"] == STANDARD_METADATA)
    for standard, (header, width) in _OPTIONAL_STANDARD_FIELDS.items():
        name = standard.value
        if name in fields[STANDARD_METADATA]:
            continue
        target = aliases.get(f"{header}.{name}", [header, name])
        if target[1] in fields.get(target[0], ()):
            document["field_aliases"].append([f"{STANDARD_METADATA}.{name}", target])
        else:
            types[standard_metadata["header_type"]]["fields"].append([name, width, False])


def _modernize_state(state: Json) -> None:
    _set_defaults(state, parser_ops=[], transition_key=[], transitions=[])
    cases, default = [], None
    for case in state["transitions"]:
        _set_defaults(case, type="hexstr")
        if case["type"] == "hexstr" and case.get("value") == "default":
            case["type"] = "default"
        case.setdefault("mask", None)
        case.setdefault("next_state", None)
        if case["type"] == "default":
            default = case
        else:
            cases.append(case)
    for operation in state["parser_ops"]:
        if operation["op"] == "verify" and isinstance(operation["parameters"][1], int):
            operation["parameters"][1] = {"type": "hexstr", "value": hex(operation["parameters"][1])}
    # BMv2 takes the default, the last one if there are several, when no other case matches.
    state["transitions"] = cases if default is None else [*cases, default]


def _iterate_primitives(document: Json) -> Iterator[Json]:
    for action in document["actions"]:
        yield from action["primitives"]
    for deparser in document["deparsers"]:
        yield from deparser["primitives"]
    for parser in document["parsers"]:
        for state in parser["parse_states"]:
            yield from (o["parameters"][0] for o in state["parser_ops"] if o["op"] == "primitive")


def _modernize_primitive(item: Json) -> None:
    _set_defaults(item, parameters=[])
    op, parameters = item["op"], item["parameters"]
    if op in _NEW_NAMES:
        item["op"] = _NEW_NAMES[op]
    elif op in _UPDATE_OPERATORS and len(parameters) == 2:
        target, value = parameters
        item.update(op="assign", parameters=[target, _make_expression(_UPDATE_OPERATORS[op], target, value)])
    elif op in _BINARY_OPERATORS and len(parameters) == 3:
        target, left, right = parameters
        item.update(op="assign", parameters=[target, _make_expression(_BINARY_OPERATORS[op], left, right)])


def _make_expression(op: str, left: Json, right: Json) -> Json:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right}}


def _modernize_pipeline(document: Json, pipeline: Json) -> None:
    _set_defaults(pipeline, tables=[], conditionals=[], action_profiles=[], action_calls=[])
    pipeline.setdefault("init_table", None)
    for conditional in pipeline["conditionals"]:
        conditional.setdefault("true_next", None)
        conditional.setdefault("false_next", None)
    for profile in pipeline["action_profiles"]:
        _set_defaults(profile, max_size=_DEFAULT_SIZE)
        if "selector" in profile and profile["selector"] is None:
            del profile["selector"]
    names = {item["id"]: item["name"] for item in document["actions"]}
    pipeline["tables"] += [_make_call_table(names, call) for call in pipeline["action_calls"]]
    del pipeline["action_calls"]
    for table in pipeline["tables"]:
        _modernize_table(names, pipeline, table)


def _make_call_table(names: dict[int, str], call: Json) -> Json:
    """Return a table without a key that runs the action of an action call."""
    action = call["action_id"]
    if action not in names:
        raise ProgramError(f"action call {call['name']}: expected the ID of an action, got {action}")
    name, next_node = names[action], call.get("next_node")
    return {
        ACTION_CALL: True, "name": call["name"], "type": "simple", "match_type": "exact", "key": [],
        "max_size": 1, "action_ids": [action], "actions": [name], "next_tables": {name: next_node},
        "base_default_next": next_node,
        "default_entry": {
            "action_id": action, "action_const": True, "action_data": [], "action_entry_const": True,
        },
    }  # fmt: skip


def _modernize_table(names: dict[int, str], pipeline: Json, table: Json) -> None:
    _set_defaults(table, key=[], with_counters=False)
    if "max_size" not in table and "entries" not in table:
        raise ProgramError(f"table {table['name']}: expected `max_size` or `entries`, there is neither")
    table.setdefault("base_default_next", None)
    _set_defaults(table, max_size=0)
    for key in ("action_ids", "entries"):
        if key in table:  # null is an empty list; a missing key means something else
            _set_defaults(table, **{key: []})
    for entry in table.get("entries", []):
        _set_defaults(entry, priority=0)
    if "entries" in table:
        table["max_size"] = len(table["entries"])  # no others can be added
    if "action_ids" not in table:
        actions = table.get("actions") or []
        table["action_ids"] = [_action_id(names, table["name"], name) for name in actions]
    elif unknown_ids := [action for action in table["action_ids"] if action not in names]:
        raise ProgramError(f"table {table['name']}: expected IDs of actions, got {unknown_ids[0]}")
    table["actions"] = [names[action] for action in table["action_ids"]]
    for position, part in enumerate(table["key"]):
        if part["match_type"] == "valid":
            _modernize_valid_key(table, position, part)
    profile_name = table.get("act_prof_name")
    is_indirect = table["type"] in ("indirect", "indirect_ws")
    if is_indirect and table.get("action_profile") is None and profile_name is not None:
        table["action_profile"] = profile_name
        profile: Json = {"name": profile_name, "max_size": table["max_size"]}
        if table["type"] == "indirect_ws" and table.get("selector") is not None:
            profile["selector"] = table["selector"]
        pipeline["action_profiles"].append(profile)
    if is_indirect and table.get("action_profile") is None:
        raise ProgramError(f"table {table['name']}: expected `action_profile`, there is none")


def _action_id(names: dict[int, str], table: str, name: str) -> int:
    ids = [action_id for action_id, action in names.items() if action == name]
    if len(ids) != 1:
        raise ProgramError(f"table {table}: expected one action `{name}`, there are {len(ids)}")
    return ids[0]


def _modernize_valid_key(table: Json, position: int, part: Json) -> None:
    """Turn a `valid` key into an exact key on `$valid$`, also in the constant entries."""
    header = part["target"]
    _set_defaults(part, name=header)
    part.update({"match_type": "exact", "target": [header, VALIDITY_FIELD], DECLARED_MATCH_TYPE: "valid"})
    for entry in table.get("entries", []):
        # A slice, because an entry may have too few matches, which `load.tables` reports.
        for match_item in entry["match_key"][position : position + 1]:
            match_item.update(match_type="exact", key=hex(bool(match_item.get("key"))))


def _modernize_checksum(document: Json, checksum: Json) -> None:
    _set_defaults(checksum, update=True, verify=True)
    if checksum["type"] != "ipv4":
        return
    header, field = checksum["target"]
    calculation: dict[str, Any] = {"name": f"{checksum['name']}.ipv4", "algo": "csum16", "input": []}
    types = {item["name"]: item for item in document["header_types"]}
    for instance in document["headers"]:
        if instance["name"] == header and instance["header_type"] in types:
            fields = [name for name, *_ in types[instance["header_type"]]["fields"] if name != field]
            calculation["input"] = [{"type": "field", "value": [header, name]} for name in fields]
    document["calculations"].append(calculation)
    validity_field = {"type": "field", "value": [header, VALIDITY_FIELD]}
    checksum.update(calculation=calculation["name"], if_cond=checksum.get("if_cond") or validity_field)
