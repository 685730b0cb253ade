"""Messages of instances of externs, of digests and of value sets in P4Info."""

from __future__ import annotations

from typing import Any

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator, MemberValue
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.objects import ExternObject, control_plane_name
from softswitch.p4.p4info_annotations import fill_annotations, fill_documentation, one_integer
from softswitch.p4.p4info_ids import ObjectType
from softswitch.p4.p4info_names import EXTERN_TYPES
from softswitch.p4.p4info_objects import FunctionCall, SeenTable, SeenValueSet
from softswitch.p4.p4info_tables import MATCH_TYPES, TableMessages, checked_size, field_ids
from softswitch.p4.p4info_types import flat_fields
from softswitch.p4runtime.messages import p4i

_COUNTER_UNITS = {
    "packets": p4i.CounterSpec.PACKETS,
    "bytes": p4i.CounterSpec.BYTES,
    "packets_and_bytes": p4i.CounterSpec.BOTH,
}
_METER_UNITS = {"packets": p4i.MeterSpec.PACKETS, "bytes": p4i.MeterSpec.BYTES}
_SIZE_SEMANTICS = ("sum_of_weights", "sum_of_members")
_PROFILE_ANNOTATIONS = ("max_group_size", "selector_size_semantics", "max_member_weight")


class ExternMessages(TableMessages):
    def _add_properties(self, message: p4i.Table, table: SeenTable) -> None:
        profile = self._property_object(table, "implementation")
        if profile is not None:
            message.implementation_id = self.symbols.id(ObjectType.PROFILE, profile.path)
            if isinstance(table.declaration.properties["implementation"].value, tree.Call):
                self._add_profile(profile)
        for name, kind in (("counters", ObjectType.DIRECT_COUNTER), ("meters", ObjectType.DIRECT_METER)):
            found = self._property_object(table, name)
            if found is None:
                continue
            message.direct_resource_ids.append(self.symbols.id(kind, found.path))
            objects = self.message.direct_counters if name == "counters" else self.message.direct_meters
            made = objects.add(direct_table_id=message.preamble.id)
            self._fill_preamble(made.preamble, kind, found.path, found.annotations)
            made.spec.unit = _unit(found, _COUNTER_UNITS if name == "counters" else _METER_UNITS)

    def _add_extern(self, found: ExternObject) -> None:
        self.message.type_info.SetInParent()
        made: Any
        match found.kind:
            case "counter":
                made = self.message.counters.add()
                made.spec.unit = _unit(found, _COUNTER_UNITS)
            case "meter":
                made = self.message.meters.add()
                made.spec.unit = _unit(found, _METER_UNITS)
            case "register":
                made = self.message.registers.add()
                made.type_spec.CopyFrom(self._types.spec(found.type.arguments[0]))
            case "action_profile" | "action_selector":
                self._add_profile(found)
                return
            case _:
                return
        made.size = checked_size(found.integer("size"), found.node)
        self._fill_preamble(made.preamble, EXTERN_TYPES[found.kind], found.path, found.annotations)

    def _add_profile(self, found: ExternObject) -> None:
        has_selector = found.kind == "action_selector"
        size = checked_size(found.integer("size"), found.node)
        made = self.message.action_profiles.add(with_selector=has_selector, size=size)
        self._fill_preamble(
            made.preamble, ObjectType.PROFILE, found.path, found.annotations, *_PROFILE_ANNOTATIONS
        )
        given = {each.name: each for each in found.annotations if each.name in _PROFILE_ANNOTATIONS}
        if has_selector:
            self._limit_groups(made, given)
        for table in sorted(self._profile_tables.get(found.path, ())):
            made.table_ids.append(self.symbols.id(ObjectType.TABLE, table))

    def _limit_groups(self, made: p4i.ActionProfile, given: dict[str, tree.Annotation]) -> None:
        if (size := given.get("max_group_size")) is not None:
            made.max_group_size = checked_size(one_integer(size), size)
        if (semantics := given.get("selector_size_semantics")) is not None:
            name = semantics.text.lower()
            if name not in _SIZE_SEMANTICS:
                expected = " or ".join(f'"{each}"' for each in _SIZE_SEMANTICS)
                raise SourceError(semantics, f"expected {expected}, got {semantics.text}")
            getattr(made, name).SetInParent()
        if (weight := given.get("max_member_weight")) is not None and made.HasField("sum_of_members"):
            made.sum_of_members.max_member_weight = checked_size(one_integer(weight), weight)

    def _add_digests(self, calls: list[FunctionCall]) -> None:
        if calls:
            self.message.type_info.SetInParent()
        for each in calls:
            if each.target.name != "digest":
                continue
            name = self._digest_name(each)
            number = self.symbols.id(ObjectType.DIGEST, name)
            spec = self._types.spec(self._digest_type(each))
            if self._is_new(number):
                made = self.message.digests.add(type_spec=spec)
                self._fill_preamble(made.preamble, ObjectType.DIGEST, name, [])

    def _add_value_set(self, found: SeenValueSet) -> None:
        declaration, owner = found.declaration, found.owner
        evaluator = Evaluator(self._facts, owner.bindings, owner.substitution)
        size = checked_size(evaluator.integer(declaration.size), declaration)
        message = self.message.value_sets.add(size=size)
        self._fill_preamble(message.preamble, ObjectType.VALUE_SET, found.name, declaration.annotations)
        given = types.substitute(self._facts.declared[declaration], owner.substitution)
        assert isinstance(given, types.Set)
        match given.element:
            case types.Struct(struct):
                self._add_set_fields(message, given.element, struct)
            case types.Enum(enum, types.Bits(width)):
                for i, member in enumerate(enum.members, 1):
                    name = control_plane_name(member, "")
                    message.match.add(id=i, name=name, bitwidth=width, match_type=p4i.MatchField.EXACT)
            case element:
                width = self._types.width(element)
                message.match.add(id=1, bitwidth=width, match_type=p4i.MatchField.EXACT)

    def _add_set_fields(self, message: p4i.ValueSet, given: types.Struct, struct: tree.Struct) -> None:
        numbers = field_ids(struct.fields)
        for field, number, (_, _, kind) in zip(
            struct.fields, numbers, flat_fields(given, self._facts), strict=True
        ):
            made = message.match.add(
                id=number, name=control_plane_name(field, ""), bitwidth=self._types.width(kind)
            )
            match_kind = field.annotation("match")
            name = match_kind.text if match_kind is not None else "exact"
            if name in MATCH_TYPES:
                made.match_type = MATCH_TYPES[name]
            else:
                made.other_match_type = name
            fill_annotations(made, field.annotations, self._facts, ("match",))
            fill_documentation(made, field.annotations)


def _unit(found: ExternObject, units: dict[str, Any]) -> Any:
    value = found.arguments.get("type")
    if not isinstance(value, MemberValue):
        raise SourceError(found.node, f"expected a member of an enum as the argument `type` of {found.kind}")
    return units[value.name]
