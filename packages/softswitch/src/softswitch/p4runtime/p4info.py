"""Objects of P4Info by ID, with widths and sizes (P4Runtime 1.4 §6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

from softswitch.ir import MatchKind
from softswitch.p4runtime.codecs.data import Leaf, Shape, shape_of
from softswitch.p4runtime.codecs.fields import Field, FieldGroup
from softswitch.p4runtime.codecs.matches import MatchField, MatchKey
from softswitch.p4runtime.codecs.translation import Translation, Translations
from softswitch.p4runtime.messages import p4i
from softswitch.p4runtime.status import invalid, unimplemented

MATCH_KINDS = {
    p4i.MatchField.EXACT: MatchKind.EXACT,
    p4i.MatchField.LPM: MatchKind.LPM,
    p4i.MatchField.TERNARY: MatchKind.TERNARY,
    p4i.MatchField.RANGE: MatchKind.RANGE,
    p4i.MatchField.OPTIONAL: MatchKind.OPTIONAL,
}


@dataclass(frozen=True, slots=True)
class ActionInfo:
    id: int
    name: str
    params: FieldGroup


TABLE_AND_DEFAULT = p4i.ActionRef.TABLE_AND_DEFAULT
TABLE_ONLY = p4i.ActionRef.TABLE_ONLY
DEFAULT_ONLY = p4i.ActionRef.DEFAULT_ONLY
GROUP_ACTION = cast("p4i.ActionRef.Scope.ValueType", 3)
"""Scope of the actions that run before those of a one-shot group's members (`group_actions`).

finsy's type hints for P4Info lack this scope of P4Runtime 1.6.
"""


@dataclass(frozen=True, slots=True)
class ActionProfileInfo:
    """An action profile, or an action selector, with the actions that its members and one-shots may have.

    `max_group_size` and `max_member_weight` are 0 for unlimited. The size of a group is the sum of its
    members' weights, or with `counts_members` the number of its members.
    """

    id: int
    name: str
    size: int
    has_selector: bool
    actions: Mapping[int, ActionInfo]
    group_actions: Mapping[int, ActionInfo]
    max_group_size: int
    counts_members: bool
    max_member_weight: int
    weights_disallowed: bool


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table, with the actions of its entries, of its default entry, and of groups of one-shots.

    Entries of a table with a `profile` have members or groups of it instead of actions. `meter` is the type
    of its direct meter, if any.
    """

    id: int
    name: str
    key: MatchKey
    entry_actions: Mapping[int, ActionInfo]
    default_actions: Mapping[int, ActionInfo]
    group_actions: Mapping[int, ActionInfo]
    is_const: bool
    is_default_const: bool
    has_counter: bool
    meter: p4i.MeterSpec.Type.ValueType | None
    has_idle_timeout: bool
    profile: ActionProfileInfo | None


class CounterInfo(NamedTuple):
    id: int
    name: str
    size: int
    index_translation: Translation | None


class MeterInfo(NamedTuple):
    id: int
    name: str
    size: int
    type: p4i.MeterSpec.Type.ValueType
    index_translation: Translation | None


class RegisterInfo(NamedTuple):
    id: int
    name: str
    size: int
    shape: Leaf
    index_translation: Translation | None


class ValueSetInfo(NamedTuple):
    """A parser value set. The parser matches whole values, whatever the match kinds of the fields."""

    id: int
    name: str
    size: int
    key: MatchKey


class DigestInfo(NamedTuple):
    id: int
    name: str
    shape: Shape


class P4Info:
    """The objects of a P4Info message; raises Refusal for kinds that this switch does not support."""

    def __init__(self, message: p4i.P4Info, register_widths: Mapping[str, int] = {}) -> None:
        if message.externs:
            raise unimplemented("P4Info: externs are not supported by softswitch")
        self._message = message
        self._translations = translations = Translations(message.type_info)
        self.uses = translations.uses
        self.has_strings = translations.has_strings
        self._actions = {a.preamble.id: _make_action(a, translations) for a in message.actions}
        self.actions = {action.name: action for action in self._actions.values()}
        self._refs_by_table = {t.preamble.id: self._find_action_refs(t) for t in message.tables}
        self._tables_with_counter = {counter.direct_table_id for counter in message.direct_counters}
        self._meter_types = {meter.direct_table_id: meter.spec.type for meter in message.direct_meters}
        self.profiles = {p.preamble.id: self._make_profile(p) for p in message.action_profiles}
        self.tables = {t.preamble.id: self._make_table(t) for t in message.tables}
        self.value_sets = {v.preamble.id: _make_value_set(v, translations) for v in message.value_sets}
        self.digests = {d.preamble.id: self._make_digest(d) for d in message.digests}
        headers = {
            h.preamble.name: FieldGroup(f"{h.preamble.name} metadata", _make_fields(h.metadata, translations))
            for h in message.controller_packet_metadata
        }
        self.packet_in = headers.get("packet_in", FieldGroup("packet_in metadata", ()))
        self.packet_out = headers.get("packet_out", FieldGroup("packet_out metadata", ()))
        port_translations = [
            field.translation for field in self.packet_in.fields if field.name == "ingress_port"
        ]
        self.port_translation = next(iter(port_translations), None)
        """Translation of a packet-in's port, also used for replicas' ports, which have no type in P4Info."""
        self.registers = {r.preamble.id: self._make_register(r, register_widths) for r in message.registers}
        find_index_translation = translations.of_index
        self.counters = {
            c.preamble.id: CounterInfo(
                c.preamble.id, c.preamble.name, c.size, find_index_translation(c.index_type_name)
            )
            for c in message.counters
        }
        self.meters = {
            m.preamble.id: MeterInfo(
                m.preamble.id, m.preamble.name, m.size, m.spec.type, find_index_translation(m.index_type_name)
            )
            for m in message.meters
        }

    def _find_action_refs(self, table: p4i.Table) -> list[tuple[p4i.ActionRef.Scope.ValueType, ActionInfo]]:
        try:
            return [(ref.scope, self._actions[ref.id]) for ref in table.action_refs]
        except KeyError as error:
            name = table.preamble.name
            raise invalid(f"P4Info: table {name} refers to action {error}, which is not there") from None

    def _select_actions(
        self, tables: Iterable[int], *excluded_scopes: p4i.ActionRef.Scope.ValueType
    ) -> dict[int, ActionInfo]:
        return {
            action.id: action
            for table in tables
            for scope, action in self._refs_by_table[table]
            if scope not in excluded_scopes
        }

    def _make_table(self, table: p4i.Table) -> TableInfo:
        table_id, name = table.preamble.id, table.preamble.name
        if table.implementation_id and table.implementation_id not in self.profiles:
            raise invalid(
                f"P4Info: table {name} refers to action profile {table.implementation_id}, which is not there"
            )
        return TableInfo(
            id=table_id,
            name=name,
            key=MatchKey(
                f"table {name}",
                [_make_match_field(f"table {name}", f, self._translations) for f in table.match_fields],
            ),
            entry_actions=self._select_actions([table_id], DEFAULT_ONLY, GROUP_ACTION),
            default_actions=self._select_actions([table_id], TABLE_ONLY, GROUP_ACTION),
            group_actions=self._select_actions([table_id], TABLE_AND_DEFAULT, TABLE_ONLY, DEFAULT_ONLY),
            is_const=table.is_const_table,
            is_default_const=table.const_default_action_id != 0,
            has_counter=table_id in self._tables_with_counter,
            meter=self._meter_types.get(table_id),
            has_idle_timeout=table.idle_timeout_behavior == p4i.Table.NOTIFY_CONTROL,
            profile=self.profiles.get(table.implementation_id),
        )

    def _make_profile(self, profile: p4i.ActionProfile) -> ActionProfileInfo:
        tables = [table_id for table_id in profile.table_ids if table_id in self._refs_by_table]
        return ActionProfileInfo(
            id=profile.preamble.id,
            name=profile.preamble.name,
            size=profile.size,
            has_selector=profile.with_selector,
            # BMv2's server (PI) takes members with any action of the profile's tables, whatever their scope.
            actions=self._select_actions(tables, GROUP_ACTION),
            group_actions=self._select_actions(tables, TABLE_AND_DEFAULT, TABLE_ONLY, DEFAULT_ONLY),
            max_group_size=profile.max_group_size,
            counts_members=profile.HasField("sum_of_members"),
            max_member_weight=profile.sum_of_members.max_member_weight,
            weights_disallowed=profile.weights_disallowed,
        )

    def _make_register(self, register: p4i.Register, widths: Mapping[str, int]) -> RegisterInfo:
        name = register.preamble.name
        shape = shape_of(register.type_spec, self._message.type_info, self._translations, f"register {name}")
        if not isinstance(shape, Leaf):
            raise unimplemented(f"P4Info: register {name}: only cells of a single value are supported")
        index_translation = self._translations.of_index(register.index_type_name)
        if shape.translation is not None:
            # Make the type's translation at least as wide as the register.
            self._translations.of(register.type_spec.new_type, widths.get(name, 0))
            shape = replace(shape, width=widths.get(name, 0))
        return RegisterInfo(register.preamble.id, name, register.size, shape, index_translation)

    def _make_digest(self, digest: p4i.Digest) -> DigestInfo:
        name = digest.preamble.name
        shape = shape_of(digest.type_spec, self._message.type_info, self._translations, f"digest {name}")
        return DigestInfo(digest.preamble.id, name, shape)


def _make_match_field(location: str, field: p4i.MatchField, translations: Translations) -> MatchField:
    kind = MATCH_KINDS.get(field.match_type)
    if kind is None:
        match_type = field.other_match_type or p4i.MatchField.MatchType.Name(field.match_type)
        raise unimplemented(f"{location}, match field {field.name}: {match_type} match is not supported")
    translation = translations.of(field.type_name, field.bitwidth)
    return MatchField(field.id, field.bitwidth, field.name, kind, translation)


def _make_value_set(value_set: p4i.ValueSet, translations: Translations) -> ValueSetInfo:
    name = value_set.preamble.name
    location = f"value set {name}"
    fields = [_make_match_field(location, field, translations) for field in value_set.match]
    return ValueSetInfo(value_set.preamble.id, name, value_set.size, MatchKey(location, fields))


def _make_fields(
    items: Iterable[p4i.Action.Param | p4i.ControllerPacketMetadata.Metadata], translations: Translations
) -> list[Field]:
    return [
        Field(item.id, item.bitwidth, item.name, translations.of(item.type_name, item.bitwidth))
        for item in items
    ]


def _make_action(action: p4i.Action, translations: Translations) -> ActionInfo:
    name = action.preamble.name
    return ActionInfo(
        action.preamble.id,
        name,
        FieldGroup(f"action {name}, parameter", _make_fields(action.params, translations)),
    )
