"""P4Info of a compiled program, equal to what p4c writes."""

from __future__ import annotations

from typing import Any

from google.protobuf import text_format

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator, MemberValue
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.key_names import key_name
from softswitch.p4.lower_program import Lowered
from softswitch.p4.lower_tables import property_path
from softswitch.p4.objects import CallableObject, ExternObject, control_plane_name
from softswitch.p4.p4info_annotations import fill_annotations, fill_documentation, key_values
from softswitch.p4.p4info_ids import ObjectType, Symbols, given_id
from softswitch.p4.p4info_objects import (
    Block, FunctionCall, ObjectFinder, SeenAction, SeenTable, SeenValueSet, lacks_no_action
)  # fmt: skip
from softswitch.p4.p4info_types import TypeSpecs, bytes_of, flat_fields
from softswitch.p4runtime.messages import p4i

DEFAULT_SIZE = 1024
_PACKAGE_FIELDS = ("name", "version", "organization", "contact", "url", "arch")
_PLATFORM_FIELDS = (
    "multicast_group_table_size",
    "multicast_group_table_total_replicas",
    "multicast_group_table_max_replicas_per_entry",
)
_MATCH_TYPES = {
    "exact": p4i.MatchField.EXACT,
    "lpm": p4i.MatchField.LPM,
    "ternary": p4i.MatchField.TERNARY,
    "range": p4i.MatchField.RANGE,
    "optional": p4i.MatchField.OPTIONAL,
}
_COUNTER_UNITS = {
    "packets": p4i.CounterSpec.PACKETS,
    "bytes": p4i.CounterSpec.BYTES,
    "packets_and_bytes": p4i.CounterSpec.BOTH,
}
_METER_UNITS = {"packets": p4i.MeterSpec.PACKETS, "bytes": p4i.MeterSpec.BYTES}
_EXTERN_TYPES = {
    "counter": ObjectType.COUNTER,
    "direct_counter": ObjectType.DIRECT_COUNTER,
    "meter": ObjectType.METER,
    "direct_meter": ObjectType.DIRECT_METER,
    "action_profile": ObjectType.PROFILE,
    "action_selector": ObjectType.PROFILE,
    "register": ObjectType.REGISTER,
}
_PROFILE_ANNOTATIONS = ("max_group_size", "selector_size_semantics", "max_member_weight")


def p4info(lowered: Lowered) -> p4i.P4Info:
    return P4InfoBuilder(lowered).message


def message_text(message: Any) -> str:
    """Return a message as p4c prints it: two comments, and protobuf's text."""
    descriptor = message.DESCRIPTOR
    body = text_format.MessageToString(message, as_utf8=False)
    return f"# proto-file: {descriptor.file.name}\n# proto-message: {descriptor.full_name}\n\n{body}"


def p4info_text(message: p4i.P4Info) -> str:
    return message_text(message)


class P4InfoBuilder:
    """Makes the message in two passes as p4c does: all names, then all objects."""

    def __init__(self, lowered: Lowered) -> None:
        self.message = p4i.P4Info()
        self._lowering, self._facts = lowered.lowering, lowered.lowering.facts
        self._finder = ObjectFinder(lowered)
        self._types = TypeSpecs(self._facts, self.message.type_info)
        self.symbols = Symbols()
        self._digest_names: dict[int, str] = {}
        self._in_place: dict[tuple[CallableObject, tree.Property], ExternObject] = {}
        self._profile_tables: dict[str, set[str]] = {}
        self._globals = self._finder.globals()
        self.blocks = self._finder.blocks(lowered)
        self._calls = {
            id(each): [self._finder.function_calls(each) for _ in range(each.users)]
            for block in self.blocks for each in block.seen if isinstance(each, SeenAction)
        }  # fmt: skip
        headers = [each for found in self._facts.globals.names.values() for each in found]
        self._headers = [
            each for each in headers
            if isinstance(each, tree.Struct) and each.annotation("controller_header") is not None
        ]  # fmt: skip
        self._collect()
        self.symbols.assign()
        self._build()

    @property
    def tables(self) -> list[SeenTable]:
        return [each for block in self.blocks for each in block.seen if isinstance(each, SeenTable)]

    # -- names

    def _collect(self) -> None:
        for each in self._globals:
            self._collect_extern(each)
        for block in self.blocks:
            self._collect_block(block)
        for header in self._headers:
            self.symbols.add(
                ObjectType.CONTROLLER_HEADER, control_plane_name(header, ""), header.annotations
            )

    def _collect_block(self, block: Block) -> None:
        for each in block.seen:
            match each:
                case SeenTable():
                    self.symbols.add(ObjectType.TABLE, each.name, each.declaration.annotations)
                    self._collect_properties(each)
                case SeenAction():
                    self.symbols.add(ObjectType.ACTION, each.name, each.declaration.annotations)
                    for calls in self._calls[id(each)]:
                        self._collect_digests(calls)
                case SeenValueSet():
                    self.symbols.add(ObjectType.VALUE_SET, each.name, each.declaration.annotations)
                case ExternObject():
                    self._collect_extern(each)
        self._collect_digests(block.calls)

    def _collect_extern(self, found: ExternObject) -> None:
        if (kind := _EXTERN_TYPES.get(found.kind)) is not None:
            self.symbols.add(kind, found.path, found.annotations)

    def _collect_properties(self, table: SeenTable) -> None:
        for name in ("implementation", "counters", "meters"):
            found = self._property_object(table, name)
            if found is not None and (kind := _EXTERN_TYPES.get(found.kind)) is not None:
                self.symbols.add(kind, found.path)
                if name == "implementation":
                    self._profile_tables.setdefault(found.path, set()).add(table.name)

    def _collect_digests(self, calls: list[FunctionCall]) -> None:
        for each in calls:
            if each.target.name == "digest":
                self.symbols.add(ObjectType.DIGEST, self._digest_name(each))

    def _digest_type(self, found: FunctionCall) -> types.Type:
        parameter = next(each for each in found.target.parameters if each.name == "data")
        known = {v: types.substitute(t, found.substitution) for v, t in found.target.substitution.items()}
        return types.substitute(self._facts.declared[parameter], known)

    def _digest_name(self, found: FunctionCall) -> str:
        given = self._digest_type(found)
        if isinstance(given, types.Struct | types.New | types.Enum):
            return control_plane_name(given.declaration, "")
        return self._digest_names.setdefault(id(found), f"digest_{len(self._digest_names)}")

    # -- objects

    def _build(self) -> None:
        for each in self._globals:
            self._add_extern(each)
        for block in self.blocks:
            self._add_block(block)
        for header in self._headers:
            self._add_controller_header(header)
        self._add_package()

    def _add_block(self, block: Block) -> None:
        for each in block.seen:
            match each:
                case SeenTable():
                    self._add_table(each)
                case SeenAction():
                    self._add_action(each)
                    for calls in self._calls[id(each)]:
                        self._add_digests(calls)
                case SeenValueSet():
                    self._add_value_set(each)
                case ExternObject():
                    self._add_extern(each)
        self._add_digests(block.calls)

    def _fill_preamble(
        self, message: Any, kind: ObjectType, name: str, annotations: tree.Annotations, *ignored: str
    ) -> None:
        message.id, message.name = self.symbols.id(kind, name), name
        message.alias = self.symbols.alias(name)
        fill_annotations(message, annotations, self._facts, ignored)
        fill_documentation(message, annotations)

    def _add_action(self, action: SeenAction) -> None:
        declaration = action.declaration
        number = self.symbols.id(ObjectType.ACTION, action.name)
        known = any(each.preamble.id == number for each in self.message.actions)
        if declaration.annotation("hidden") is not None or known:
            return
        message = self.message.actions.add()
        self._fill_preamble(message.preamble, ObjectType.ACTION, action.name, declaration.annotations)
        parameters = [each for each in declaration.parameters if not each.direction] if action.has_data else []
        for parameter, number in zip(parameters, field_ids(parameters), strict=True):
            given = types.substitute(self._facts.declared[parameter], action.owner.substitution)
            made = message.params.add(id=number, name=control_plane_name(parameter, ""))
            fill_annotations(made, parameter.annotations, self._facts)
            fill_documentation(made, parameter.annotations)
            if not isinstance(given, types.Enum) or given.underlying is not None:
                made.bitwidth = self._types.width(given)
            self._name_type(made, given)
            if isinstance(given, types.Enum) and given.underlying is None:
                made.type_name.name = control_plane_name(given.declaration, "")

    def _name_type(self, message: Any, given: types.Type) -> None:
        """Describe the type of a field, and give its name if `type` declares it."""
        self.message.type_info.SetInParent()
        self._types.spec(given)
        if (name := self._types.named(given)) is not None:
            message.type_name.name = name

    # -- tables

    def _add_table(self, table: SeenTable) -> None:
        declaration, owner = table.declaration, table.owner
        self.message.type_info.SetInParent()
        if declaration.annotation("hidden") is not None:
            return
        message = self.message.tables.add()
        self._fill_preamble(message.preamble, ObjectType.TABLE, table.name, declaration.annotations)
        evaluator = Evaluator(self._facts, owner.bindings, owner.substitution)
        size = declaration.properties.get("size")
        message.size = (evaluator.integer(size.value) if size is not None else 0) or DEFAULT_SIZE
        self._add_match_fields(message, table)
        self._add_action_references(message, table)
        self._add_default(message, table, evaluator)
        message.is_const_table = declaration.entries_are_const
        message.has_initial_entries = bool(declaration.entries)
        timeout = declaration.properties.get("support_timeout")
        if timeout is not None and evaluator.value(timeout.value) is True:
            message.idle_timeout_behavior = p4i.Table.NOTIFY_CONTROL
        self._add_properties(message, table)

    def _add_match_fields(self, message: p4i.Table, table: SeenTable) -> None:
        key = table.declaration.key
        for element, number in zip(key, field_ids(key), strict=True):
            if element.kind == "selector":
                continue
            given = types.substitute(self._facts.types[element.expression], table.owner.substitution)
            made = message.match_fields.add(id=number, name=key_name(element, self._facts))
            fill_annotations(made, element.annotations, self._facts)
            fill_documentation(made, element.annotations)
            made.bitwidth = self._types.width(given)
            if element.kind in _MATCH_TYPES:
                made.match_type = _MATCH_TYPES[element.kind]
            else:
                made.other_match_type = element.kind
            self._name_type(made, given)

    def action_id(self, action: tree.Declaration, owner: CallableObject) -> int:
        path = owner.path if action in owner.declaration.locals else ""
        return self.symbols.id(ObjectType.ACTION, control_plane_name(action, path))

    def _add_action_references(self, message: p4i.Table, table: SeenTable) -> None:
        for reference in table.declaration.actions:
            made = message.action_refs.add(id=self.action_id(self._facts.references[reference], table.owner))
            fill_annotations(made, reference.annotations, self._facts)
            names = [each.name for each in reference.annotations]
            if "tableonly" in names:
                made.scope = p4i.ActionRef.TABLE_ONLY
            elif "defaultonly" in names:
                made.scope = p4i.ActionRef.DEFAULT_ONLY
        if lacks_no_action(table.declaration):
            number = self.action_id(self._finder.no_action(), table.owner)
            message.action_refs.add(id=number, annotations=["@defaultonly"], scope=p4i.ActionRef.DEFAULT_ONLY)

    def _add_default(self, message: p4i.Table, table: SeenTable, evaluator: Evaluator) -> None:
        declaration = table.declaration
        number = self.action_id(self._finder.default_action(declaration), table.owner)
        found = declaration.properties.get("default_action")
        if found is not None and found.is_const:
            message.const_default_action_id = number
        message.initial_default_action.action_id = number
        if found is None:
            return
        for number, value in self.arguments(found.value, table.owner, evaluator):
            message.initial_default_action.arguments.add(param_id=number, value=value)

    def arguments(
        self, value: tree.Expression, owner: CallableObject, evaluator: Evaluator
    ) -> list[tuple[int, bytes]]:
        """Return the data of an action with their IDs."""
        target = self._facts.calls[value]
        made: list[tuple[int, bytes]] = []
        for i, (parameter, argument) in enumerate(zip(target.parameters, target.arguments, strict=True), 1):
            expression = argument.value if argument is not None else parameter.default
            if expression is None:
                continue
            given = types.substitute(self._facts.declared[parameter], owner.substitution)
            number = evaluator.convert(evaluator.value(expression), given)
            if not isinstance(number, int):
                raise SourceError(expression.position, "expected a number that is known when compiling")
            chosen = given_id(parameter.annotations)
            made.append((chosen if chosen is not None else i, bytes_of(int(number), self._types.width(given))))
        return made

    # -- externs

    def _property_object(self, table: SeenTable, name: str) -> ExternObject | None:
        """Return the object that a property of a table names or makes."""
        found = table.declaration.properties.get(name)
        if found is None:
            return None
        key = (table.owner, found)
        if isinstance(found.value, tree.Call):
            if key not in self._in_place:
                path = property_path(found, table.declaration, table.owner)
                made = self._lowering.elaborator.construct_expression(found.value, path, table.owner)
                assert isinstance(made, ExternObject)
                made.annotations = found.annotations
                self._in_place[key] = made
            return self._in_place[key]
        declaration = self._facts.references.get(found.value)
        bound = table.owner.bindings.get(declaration) if declaration is not None else None
        return bound if isinstance(bound, ExternObject) else None

    def _add_properties(self, message: p4i.Table, table: SeenTable) -> None:
        profile = self._property_object(table, "implementation")
        if profile is not None:
            message.implementation_id = self.symbols.id(ObjectType.PROFILE, profile.path)
            if profile in self._in_place.values():
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
        match found.kind:
            case "counter":
                made = self.message.counters.add(size=found.integer("size"))
                made.spec.unit = _unit(found, _COUNTER_UNITS)
            case "meter":
                made = self.message.meters.add(size=found.integer("size"))
                made.spec.unit = _unit(found, _METER_UNITS)
            case "register":
                made = self.message.registers.add(size=found.integer("size"))
                made.type_spec.CopyFrom(self._types.spec(found.type.arguments[0]))
            case "action_profile" | "action_selector":
                self._add_profile(found)
                return
            case _:
                return
        self._fill_preamble(made.preamble, _EXTERN_TYPES[found.kind], found.path, found.annotations)

    def _add_profile(self, found: ExternObject) -> None:
        has_selector = found.kind == "action_selector"
        made = self.message.action_profiles.add(with_selector=has_selector, size=found.integer("size"))
        self._fill_preamble(
            made.preamble, ObjectType.PROFILE, found.path, found.annotations, *_PROFILE_ANNOTATIONS
        )
        given = {each.name: each for each in found.annotations if each.name in _PROFILE_ANNOTATIONS}
        if has_selector:
            if (size := given.get("max_group_size")) is not None:
                made.max_group_size = size.integers[0]
            if (semantics := given.get("selector_size_semantics")) is not None:
                getattr(made, semantics.text.lower()).SetInParent()
            if (weight := given.get("max_member_weight")) is not None and made.HasField("sum_of_members"):
                made.sum_of_members.max_member_weight = weight.integers[0]
        for table in sorted(self._profile_tables.get(found.path, ())):
            made.table_ids.append(self.symbols.id(ObjectType.TABLE, table))

    def _add_digests(self, calls: list[FunctionCall]) -> None:
        if calls:
            self.message.type_info.SetInParent()
        for each in calls:
            if each.target.name != "digest":
                continue
            name = self._digest_name(each)
            number = self.symbols.id(ObjectType.DIGEST, name)
            spec = self._types.spec(self._digest_type(each))
            if all(known.preamble.id != number for known in self.message.digests):
                made = self.message.digests.add(type_spec=spec)
                self._fill_preamble(made.preamble, ObjectType.DIGEST, name, [])

    # -- parsers, packets, and the package

    def _add_value_set(self, found: SeenValueSet) -> None:
        declaration, owner = found.declaration, found.owner
        evaluator = Evaluator(self._facts, owner.bindings, owner.substitution)
        message = self.message.value_sets.add(size=evaluator.integer(declaration.size))
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
            made = message.match.add(id=number, name=control_plane_name(field, ""), bitwidth=self._types.width(kind))
            match_kind = field.annotation("match")
            name = match_kind.text if match_kind is not None else "exact"
            if name in _MATCH_TYPES:
                made.match_type = _MATCH_TYPES[name]
            else:
                made.other_match_type = name
            fill_annotations(made, field.annotations, self._facts, ("match",))
            fill_documentation(made, field.annotations)

    def _add_controller_header(self, header: tree.Struct) -> None:
        if header.annotation("hidden") is not None:
            return
        annotation = header.annotation("controller_header")
        assert annotation is not None
        message = self.message.controller_packet_metadata.add()
        kind, name = ObjectType.CONTROLLER_HEADER, control_plane_name(header, "")
        self._fill_preamble(message.preamble, kind, name, header.annotations)
        message.preamble.name = message.preamble.alias = annotation.text
        fields = list(flat_fields(types.Struct(header), self._facts))
        numbers = field_ids([annotations for _, annotations, _ in fields])
        for (field, annotations, given), number in zip(fields, numbers, strict=True):
            if any(each.name == "hidden" for each in annotations):
                continue
            made = message.metadata.add(id=number, name=field)
            fill_annotations(made, annotations, self._facts)
            made.bitwidth = self._types.width(given)
            self._name_type(made, given)

    def _add_package(self) -> None:
        message = self.message.pkg_info
        message.arch = "v1model"
        main = next(each for each in self._facts.globals.names["main"] if isinstance(each, tree.Instance))
        if (package := main.annotation("pkginfo")) is not None:
            for key, value in key_values(package, self._facts).items():
                if key in _PACKAGE_FIELDS:
                    setattr(message, key, str(value))
        if (platform := main.annotation("platform_property")) is not None:
            for key, value in key_values(platform, self._facts).items():
                if key in _PLATFORM_FIELDS:
                    setattr(message.platform_properties, key, value)
        fill_annotations(message, main.annotations, self._facts, ("pkginfo", "platform_property"))
        fill_documentation(message, main.annotations)


def field_ids(fields: list[Any]) -> list[int]:
    """Return the IDs of parameters or fields: those of `@id`, and for the others numbers that are free."""
    chosen = [given_id(each if isinstance(each, list) else each.annotations) for each in fields]
    used = {each for each in chosen if each is not None}
    numbers: list[int] = []
    number = 1
    for each in chosen:
        if each is not None:
            number += 1
            numbers.append(each)
            continue
        while number in used:
            number += 1
        used.add(number)
        numbers.append(number)
    return numbers


def _unit(found: ExternObject, units: dict[str, Any]) -> Any:
    value = found.arguments.get("type")
    if not isinstance(value, MemberValue):
        raise SourceError(found.node.position, f"expected a member of an enum as the argument `type` of {found.kind}")
    return units[value.name]
