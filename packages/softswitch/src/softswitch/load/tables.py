"""Load tables with their constant entries, and the controls that apply them."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from itertools import chain

from softswitch import ir
from softswitch.errors import ProgramError, UnsupportedConstruct, add_location
from softswitch.ir.graph import successors
from softswitch.load.expressions import Expressions
from softswitch.load.scope import VALIDITY_FIELD, Json, Names, Scope, source_line, source_text

MATCH_KINDS = {kind.value: kind for kind in ir.MatchKind}
TABLE_TYPES = ("simple", "indirect", "indirect_ws")  # the last: with an action selector
_HIT, _MISS = "__HIT__", "__MISS__"  # keys of `next_tables` instead of actions
TOP_PRIORITY = (1 << 31) - 1
"""P4Runtime's priority for BMv2's 0: the highest wins in P4Runtime, the lowest in BMv2."""


def load_table(scope: Scope, item: Json, profiles: dict[str, int]) -> ir.Table:
    with add_location(source_line(item)):
        return _load_table(scope, item, profiles)


def _load_table(scope: Scope, item: Json, profiles: dict[str, int]) -> ir.Table:
    location, name = source_line(item), item["name"]
    if item["type"] not in TABLE_TYPES:
        raise UnsupportedConstruct(f"table `{name}` of type {item['type']}", location)
    actions = tuple(scope.action_index[i] for i in item["action_ids"])
    key = tuple(_load_key_field(scope, field, name, location) for field in item["key"])
    default = item.get("default_entry")
    next_tables = item["next_tables"]
    _check_next_tables(name, next_tables, item["actions"])
    action_index = dict(zip(item["actions"], actions, strict=True))
    default_next = item["base_default_next"]
    return ir.Table(
        name=name,
        key=key,
        actions=actions,
        default=_load_invocation(scope, default, actions, name) if default else None,
        default_is_const=bool(default and default.get("action_const")),
        const_entries=tuple(_load_const_entry(scope, entry, key, item) for entry in item.get("entries", [])),
        size=item["max_size"],
        has_counter=bool(item["with_counters"]),
        next_nodes={index: next_tables.get(action, default_next) for action, index in action_index.items()},
        next_on_hit=next_tables.get(_HIT),
        next_on_miss=next_tables.get(_MISS),
        branches_on_hit=_HIT in next_tables,
        next_without_action=next_tables.get(_MISS, default_next),
        profile=profiles[item["action_profile"]] if item["type"] != "simple" else None,
        meter=_load_direct_meter(scope, item.get("direct_meters")),
        has_idle_timeout=bool(item.get("support_timeout")),
        is_immutable="entries" in item,
        location=location,
    )


def _load_direct_meter(scope: Scope, name: str | None) -> ir.DirectMeter | None:
    if name is None:
        return None
    direct_meters = (meter for meter in scope.document["meter_arrays"] if meter.get("is_direct"))
    meter_array = Names("direct meter", ((meter["name"], meter) for meter in direct_meters))[name]
    target = scope.field(meter_array["result_target"])
    return ir.DirectMeter(counts_bytes=meter_array["type"] == "bytes", target=target)


def _load_key_field(scope: Scope, item: Json, table: str, location: str) -> ir.KeyField:
    if item["match_type"] not in MATCH_KINDS:
        raise UnsupportedConstruct(
            f"{item['match_type']} key `{item.get('name')}` of table `{table}`", location
        )
    kind = MATCH_KINDS[item["match_type"]]
    mask = None if item.get("mask") is None else int(item["mask"], 16)
    if not isinstance(item["target"], list):
        raise UnsupportedConstruct("a computed field as a key (which BMv2 does not load either)", location)
    header, field = item["target"]
    # Keys of tables that p4c generates (for `switch`) have no name.
    name = item.get("name", f"{header}.{field}")
    if field == VALIDITY_FIELD:
        return ir.KeyField(name, ir.IsValid(scope.header_index[header]), width=1, kind=kind, mask=mask)
    source = scope.field(item["target"])
    width = scope.headers[source.header].fields[source.field].width
    return ir.KeyField(name, source, width, kind, mask)


def _load_const_entry(scope: Scope, item: Json, key: tuple[ir.KeyField, ...], table: Json) -> ir.ConstEntry:
    kinds = [match["match_type"] for match in item["match_key"]]
    expected = [part["match_type"] for part in table["key"]]
    if kinds != expected:
        raise ProgramError(f"entry of table {table['name']}: expected the matches {expected}, got {kinds}")
    parts = zip(item["match_key"], key, strict=True)
    matches = tuple(_load_match(match, part.width) for match, part in parts)
    # In BMv2 the smaller priority wins, in P4Runtime the larger.
    has_priority = any(part.kind.takes_priority for part in key)
    priority = TOP_PRIORITY - item["priority"] if has_priority else 0
    actions = tuple(scope.action_index[i] for i in table["action_ids"])
    invocation = _load_invocation(scope, item["action_entry"], actions, table["name"])
    return ir.ConstEntry(matches, priority, invocation)


def _load_match(item: Json, width: int) -> ir.Match:
    full_mask = (1 << width) - 1
    match item["match_type"]:
        case "exact":
            return int(item["key"], 16)
        case "lpm":
            mask = full_mask & ~(full_mask >> item["prefix_length"])
            return ir.Masked(int(item["key"], 16) & mask, mask)
        case "range":
            return ir.RangeMatch(int(item["start"], 16), int(item["end"], 16))
    mask = int(item["mask"], 16) if "mask" in item else full_mask
    return ir.Masked(int(item["key"], 16) & mask, mask)


def _load_invocation(scope: Scope, item: Json, actions: tuple[int, ...], table: str) -> ir.Invocation:
    args = tuple(int(value, 16) for value in item["action_data"])
    action = scope.action_index[item["action_id"]]
    if action not in actions:
        raise ProgramError(f"table {table}: expected one of its actions, got the ID {item['action_id']}")
    parameters = scope.document["actions"][action]["runtime_data"]
    if len(parameters) != len(args):
        raise ProgramError(f"table {table}: expected {len(parameters)} arguments, got {len(args)}")
    return ir.Invocation(action, args)


def _check_next_tables(table: str, next_tables: Json, actions: list[str]) -> None:
    expected = {_HIT, _MISS} if {_HIT, _MISS} & next_tables.keys() else set(actions)
    if next_tables.keys() != expected:
        found = ", ".join(sorted(next_tables))
        raise ProgramError(f"next_tables of {table}: expected {', '.join(sorted(expected))}, got {found}")


def _check_successors(item: Json, nodes: dict[str, ir.Table | ir.Conditional]) -> None:
    """Check that all successors of nodes exist, and that there is no cycle."""
    next_names = {name: successors(node) for name, node in nodes.items()}
    start = [item["init_table"]] if item["init_table"] else []
    for name in chain(start, *next_names.values()):
        if name not in nodes:
            raise ProgramError(f"pipeline {item['name']}: expected one of its nodes, got `{name}`")
    try:
        TopologicalSorter(next_names).prepare()
    except CycleError as error:
        cycle = " -> ".join(error.args[1])
        raise ProgramError(f"pipeline {item['name']}: expected no cycle of nodes, got {cycle}") from None


def load_control(scope: Scope, item: Json, profiles: dict[str, int]) -> ir.Control:
    nodes: dict[str, ir.Table | ir.Conditional] = {
        table["name"]: load_table(scope, table, profiles) for table in item["tables"]
    }
    for conditional in item["conditionals"]:
        location = source_line(conditional)
        with add_location(location):
            condition = Expressions(scope, location).value(conditional["expression"])
        nodes[conditional["name"]] = ir.Conditional(
            conditional["name"],
            condition,
            conditional["true_next"],
            conditional["false_next"],
            location,
            source_text(conditional),
        )
    _check_successors(item, nodes)
    return ir.Control(item["name"], item["init_table"], nodes)
