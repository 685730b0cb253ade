"""Write the controls: their tables, conditionals and action profiles."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from softswitch import ir
from softswitch.load.tables import TOP_PRIORITY
from softswitch.p4.bmv2_expressions import ExpressionWriter
from softswitch.p4.bmv2_names import VALIDITY_FIELD, Json, JsonNames, hexstr
from softswitch.p4.lowering_state import LoweringState

_KINDS = (ir.MatchKind.RANGE, ir.MatchKind.TERNARY, ir.MatchKind.LPM)
"""Kinds of matches, of which the first that a key has is the table's."""


class TableWriter:
    """Writes controls; the IDs of their tables, conditionals and profiles continue from one to the next."""

    def __init__(self, names: JsonNames, expressions: ExpressionWriter, state: LoweringState) -> None:
        self._names, self._expressions, self._state = names, expressions, state
        self._program = names.program
        self._table_ids, self._conditional_ids, self._profile_ids = count(), count(), count()
        self._written_profiles: set[int] = set()

    def write_pipeline(self, control: ir.Control, number: int, location: Json) -> Json:
        tables = [node for node in control.nodes.values() if isinstance(node, ir.Table)]
        conditionals = [node for node in control.nodes.values() if isinstance(node, ir.Conditional)]
        return {
            "name": control.name,
            "id": number,
            **location,
            "init_table": control.start,
            "tables": [self._table(table) for table in tables],
            "action_profiles": list(self._action_profiles(tables)),
            "conditionals": [self._conditional(each) for each in conditionals],
        }

    def _conditional(self, conditional: ir.Conditional) -> Json:
        return {
            "name": conditional.name,
            "id": next(self._conditional_ids),
            **self._names.source_info(conditional.location, conditional.text),
            "expression": self._expressions.condition(conditional.condition),
            "true_next": conditional.if_true,
            "false_next": conditional.if_false,
        }

    def _action_profiles(self, tables: list[ir.Table]) -> Iterator[Json]:
        used = {table.profile for table in tables if table.profile is not None}
        for index in sorted(used - self._written_profiles):
            self._written_profiles.add(index)
            profile = self._program.profiles[index]
            made: Json = {
                "name": profile.name,
                "id": next(self._profile_ids),
                **self._names.source_info(self._state.profiles[index][0].node.position.place),
                "max_size": profile.size,
            }
            if profile.selector is not None:
                calculation = self._program.calculations[profile.selector]
                made["selector"] = {
                    "algo": calculation.algorithm,
                    "input": calculation_input(self._names, calculation),
                    **self._names.source_info(calculation.location),
                }
            yield made

    # -- tables

    def _table(self, table: ir.Table) -> Json:
        kinds = {part.kind for part in table.key}
        made: Json = {
            "name": table.name,
            "id": next(self._table_ids),
            **self._names.source_info(table.location),
            "key": [self._key_field(part) for part in table.key],
            "match_type": next((kind for kind in _KINDS if kind in kinds), ir.MatchKind.EXACT).value,
            "type": "simple",
        }
        if table.profile is not None:
            profile = self._program.profiles[table.profile]
            made["type"] = "indirect" if profile.selector is None else "indirect_ws"
            made["action_profile"] = profile.name
        names = [self._program.actions[index].name for index in table.actions]
        made |= {
            "max_size": table.size,
            "with_counters": table.has_counter,
            "support_timeout": table.has_idle_timeout,
            "direct_meters": self._state.direct_meters[table.name].path if table.meter is not None else None,
            "action_ids": list(table.actions),
            "actions": names,
            "base_default_next": None if table.branches_on_hit else table.next_without_action,
            "next_tables": self._next_tables(table, names),
        }
        if table.default is not None:
            made["default_entry"] = {
                **self._action_entry(table.default, "action_const", table.default_is_const),
                "action_entry_const": table.default_is_const,
            }
        if table.is_immutable:
            made["entries"] = self._entries(table)
        return made

    def _next_tables(self, table: ir.Table, names: list[str]) -> Json:
        if table.branches_on_hit:
            return {"__HIT__": table.next_on_hit, "__MISS__": table.next_on_miss}
        return {name: table.next_nodes[index] for name, index in zip(names, table.actions, strict=True)}

    def _key_field(self, part: ir.KeyField) -> Json:
        if isinstance(part.source, ir.IsValid):
            target = [self._names.header(part.source.header), VALIDITY_FIELD]
        else:
            target = self._names.field(part.source)
        mask = None if part.mask is None else hexstr(part.mask, part.width)
        return {"match_type": part.kind.value, "name": part.name, "target": target, "mask": mask}

    def _action_entry(self, invocation: ir.Invocation, key: str = "", is_const: bool = False) -> Json:
        widths = self._program.actions[invocation.action].parameters
        data = [hexstr(value, width) for value, width in zip(invocation.args, widths, strict=True)]
        constness = {key: is_const} if key else {}
        return {"action_id": invocation.action, **constness, "action_data": data}

    def _entries(self, table: ir.Table) -> list[Json]:
        nodes = self._state.tables[table.name].declaration.entries
        entries: list[Json] = []
        for position, (entry, node) in enumerate(zip(table.const_entries, nodes, strict=True)):
            info = self._names.source_info(node.position.place)
            entries.append({**info, **self._entry(entry, table, position)})
        return entries

    def _entry(self, entry: ir.ConstEntry, table: ir.Table, position: int) -> Json:
        # Without a priority in its key, BMv2 ignores this number.
        priority = TOP_PRIORITY - entry.priority if table.has_priority else position + 1
        return {
            "match_key": [_match(match, part) for match, part in zip(entry.key, table.key, strict=True)],
            "action_entry": self._action_entry(entry.invocation),
            "priority": priority,
        }


def _match(match: ir.Match, part: ir.KeyField) -> Json:
    kind = {"match_type": part.kind.value}
    match match:
        case ir.Masked(value, mask):
            key = kind | {"key": hexstr(value, part.width)}
            if part.kind is ir.MatchKind.LPM:
                return key | {"prefix_length": mask.bit_count()}
            return key | {"mask": hexstr(mask, part.width)}
        case ir.RangeMatch(low, high):
            return kind | {"start": hexstr(low, part.width), "end": hexstr(high, part.width)}
    return kind | {"key": hexstr(match, part.width)}


def calculation_input(names: JsonNames, calculation: ir.Calculation) -> list[Json]:
    made = [input_value(names, each) for each in calculation.inputs]
    return [*made, {"type": "payload", "value": None}] if calculation.payload else made


def input_value(names: JsonNames, value: ir.CalculationInput) -> Json:
    match value:
        case ir.FieldRef():
            return {"type": "field", "value": names.field(value)}
        case ir.SizedConstant(number, width):
            return {"type": "hexstr", "value": hexstr(number, width), "bitwidth": width}
        case ir.WholeHeader(header):
            return {"type": "header", "value": names.header(header)}
