"""P4Info as the server uses it: entities by ID, with widths and sizes (P4Runtime 1.4 §6)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from finsy.proto import p4i

from softswitch.ir import MatchKind, Program
from softswitch.p4runtime.matches import MatchField, TableKey
from softswitch.p4runtime.status import Refusal, invalid, unimplemented
from softswitch.p4runtime.values import Field, FieldGroup

UNSUPPORTED = ("action_profiles", "meters", "direct_meters", "value_sets", "digests", "externs")
MATCH_KINDS = {
    p4i.MatchField.EXACT: MatchKind.EXACT,
    p4i.MatchField.LPM: MatchKind.LPM,
    p4i.MatchField.TERNARY: MatchKind.TERNARY,
    p4i.MatchField.RANGE: MatchKind.RANGE,
    p4i.MatchField.OPTIONAL: MatchKind.OPTIONAL,
}


@dataclass(frozen=True, slots=True)
class Action:
    """An action with its parameters in declaration order."""

    id: int
    name: str
    params: FieldGroup


@dataclass(frozen=True, slots=True)
class Table:
    """A table. An action may be allowed in entries, as the default, or as both.

    `is_const` also where the program has initial entries that P4Runtime might change (`entries`): BMv2 JSON
    does not tell those from constant ones, and BMv2 lets none of them be changed, and none be added.
    """

    id: int
    name: str
    key: TableKey
    entry_actions: dict[int, Action]
    default_actions: dict[int, Action]
    is_const: bool
    is_default_const: bool
    has_counter: bool


class Array(NamedTuple):
    """An indexed counter or a register array. `width` is a register's, in bits, and 0 for a counter."""

    id: int
    name: str
    size: int
    width: int


class P4Info:
    """The entities of a P4Info message; `Refusal` where it has a kind that this switch cannot serve."""

    def __init__(self, message: p4i.P4Info) -> None:
        for kind in UNSUPPORTED:
            if getattr(message, kind):
                raise unimplemented(f"P4Info: {kind} are not supported by softswitch")
        self._by_id = {a.preamble.id: _action(a) for a in message.actions}
        self.actions = {action.name: action for action in self._by_id.values()}
        self._counted = {counter.direct_table_id for counter in message.direct_counters}
        self.tables = {t.preamble.id: self._table(t) for t in message.tables}
        self.counters = {
            c.preamble.id: Array(c.preamble.id, c.preamble.name, c.size, 0) for c in message.counters
        }
        self.registers = {r.preamble.id: _register(r) for r in message.registers}
        headers = {
            h.preamble.name: FieldGroup(f"{h.preamble.name} metadata", _fields(h.metadata))
            for h in message.controller_packet_metadata
        }
        self.packet_in = headers.get("packet_in", FieldGroup("packet_in metadata", ()))
        self.packet_out = headers.get("packet_out", FieldGroup("packet_out metadata", ()))

    def check(self, program: Program) -> None:
        """Raise `Refusal` where the program does not have what P4Info says."""
        for table in self.tables.values():
            known = program.tables.get(table.name)
            if known is None or [(f.width, _in_bmv2(f.kind)) for f in table.key.fields] != [
                (part.width, _in_bmv2(part.kind)) for part in known.key
            ]:
                raise _mismatch("table", table.name)
            if known.has_counter != table.has_counter:
                raise _mismatch("the direct counter of table", table.name)
            listed = {a.name: a.params.widths for a in (table.entry_actions | table.default_actions).values()}
            if listed != {program.actions[i].name: program.actions[i].parameters for i in known.actions}:
                raise _mismatch("the actions of table", table.name)
        described = {table.name for table in self.tables.values()}
        for name, part in program.tables.items():
            # Tables that p4c makes itself have no key or constant entries, and P4Info leaves them out.
            if part.key and not part.const_entries and name not in described:
                raise invalid(f"P4Info lacks table {name}, which the program has")
        sizes = {counter.name: counter.size for counter in program.counters}
        for array in self.counters.values():
            if sizes.get(array.name) != array.size:
                raise _mismatch("counter", array.name)
        shapes = {register.name: (register.size, register.width) for register in program.registers}
        for array in self.registers.values():
            if shapes.get(array.name) != (array.size, array.width):
                raise _mismatch("register", array.name)

    def _table(self, table: p4i.Table) -> Table:
        name = table.preamble.name
        try:
            refs = [(ref.scope, self._by_id[ref.id]) for ref in table.action_refs]
        except KeyError as missing:
            raise invalid(f"P4Info: table {name} refers to action {missing}, which is not there") from None
        return Table(
            id=table.preamble.id,
            name=name,
            key=TableKey(name, [_match_field(name, field) for field in table.match_fields]),
            entry_actions={a.id: a for scope, a in refs if scope != p4i.ActionRef.DEFAULT_ONLY},
            default_actions={a.id: a for scope, a in refs if scope != p4i.ActionRef.TABLE_ONLY},
            is_const=table.is_const_table or table.has_initial_entries,
            is_default_const=table.const_default_action_id != 0,
            has_counter=table.preamble.id in self._counted,
        )


def _mismatch(kind: str, name: str) -> Refusal:
    return invalid(f"P4Info and program differ in {kind} {name}: they are not of one compilation")


def _in_bmv2(kind: MatchKind) -> MatchKind:
    """The kind that BMv2 JSON has for a kind of P4Info."""
    return MatchKind.TERNARY if kind is MatchKind.OPTIONAL else kind


def _match_field(table: str, field: p4i.MatchField) -> MatchField:
    kind = MATCH_KINDS.get(field.match_type)
    if kind is None:
        given = field.other_match_type or p4i.MatchField.MatchType.Name(field.match_type)
        raise unimplemented(f"table {table}, match field {field.name}: {given} match is not supported")
    return MatchField(field.id, field.bitwidth, field.name, kind)


def _fields(items: Iterable[p4i.Action.Param | p4i.ControllerPacketMetadata.Metadata]) -> list[Field]:
    return [Field(item.id, item.bitwidth, item.name) for item in items]


def _action(action: p4i.Action) -> Action:
    name = action.preamble.name
    return Action(action.preamble.id, name, FieldGroup(f"action {name}, parameter", _fields(action.params)))


def _register(register: p4i.Register) -> Array:
    width = register.type_spec.bitstring.bit.bitwidth
    if not width:
        raise unimplemented(f"register {register.preamble.name}: only bit<W> cells are supported")
    return Array(register.preamble.id, register.preamble.name, register.size, width)
