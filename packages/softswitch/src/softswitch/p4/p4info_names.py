"""The first pass over a program for its P4Info: all names, from which IDs and aliases follow."""

from __future__ import annotations

from typing import Any

from softswitch.p4 import tree, types
from softswitch.p4.lower_program import Lowered
from softswitch.p4.lower_tables import property_path
from softswitch.p4.objects import CallableObject, ExternObject, control_plane_name
from softswitch.p4.p4info_annotations import fill_annotations, fill_documentation
from softswitch.p4.p4info_ids import ObjectType, Symbols
from softswitch.p4.p4info_objects import (
    FunctionCall,
    ObjectFinder,
    PackageBlock,
    SeenAction,
    SeenTable,
    SeenValueSet,
)
from softswitch.p4.p4info_types import TypeSpecs
from softswitch.p4runtime.messages import p4i

EXTERN_TYPES = {
    "counter": ObjectType.COUNTER,
    "direct_counter": ObjectType.DIRECT_COUNTER,
    "meter": ObjectType.METER,
    "direct_meter": ObjectType.DIRECT_METER,
    "action_profile": ObjectType.PROFILE,
    "action_selector": ObjectType.PROFILE,
    "register": ObjectType.REGISTER,
}


class NamedObjects:
    """Finds what the control plane sees, and names it; those that extend this class add messages."""

    def __init__(self, lowered: Lowered) -> None:
        self.message = p4i.P4Info()
        self._state, self._facts = lowered.state, lowered.state.facts
        self._finder = ObjectFinder(lowered)
        self._types = TypeSpecs(self._facts, self.message.type_info)
        self.symbols = Symbols()
        self._digest_names: dict[int, str] = {}
        self._in_place: dict[tuple[CallableObject, tree.Property], ExternObject] = {}
        self._profile_tables: dict[str, list[str]] = {}
        self._added: set[int] = set()
        """IDs of actions and digests that are in the message."""
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

    @property
    def tables(self) -> list[SeenTable]:
        return [each for block in self.blocks for each in block.seen if isinstance(each, SeenTable)]

    def _fill_preamble(
        self, message: Any, kind: ObjectType, name: str, annotations: tree.Annotations, *ignored: str
    ) -> None:
        message.id, message.name = self.symbols.id(kind, name), name
        message.alias = self.symbols.alias(name)
        fill_annotations(message, annotations, self._facts, ignored)
        fill_documentation(message, annotations)

    def _is_new(self, number: int) -> bool:
        is_new = number not in self._added
        self._added.add(number)
        return is_new

    def _name_type(self, message: Any, given: types.Type) -> None:
        """Describe the type of a field, and give its name if `type` declares it."""
        self.message.type_info.SetInParent()
        self._types.spec(given)
        if (name := self._types.named(given)) is not None:
            message.type_name.name = name

    # -- names

    def _collect(self) -> None:
        for each in self._globals:
            self._collect_extern(each)
        for block in self.blocks:
            self._collect_block(block)
        for header in self._headers:
            self.symbols.add(ObjectType.CONTROLLER_HEADER, control_plane_name(header, ""), header.annotations)

    def _collect_block(self, block: PackageBlock) -> None:
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
        if (kind := EXTERN_TYPES.get(found.kind)) is not None:
            self.symbols.add(kind, found.path, found.annotations)

    def _collect_properties(self, table: SeenTable) -> None:
        for name in ("implementation", "counters", "meters"):
            found = self._property_object(table, name)
            if found is not None and (kind := EXTERN_TYPES.get(found.kind)) is not None:
                self.symbols.add(kind, found.path)
                if name == "implementation":
                    self._profile_tables.setdefault(found.path, []).append(table.name)

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

    def _property_object(self, table: SeenTable, name: str) -> ExternObject | None:
        """Return the object that a property of a table names or makes."""
        found = table.declaration.properties.get(name)
        if found is None:
            return None
        key = (table.owner, found)
        if isinstance(found.value, tree.Call):
            if key not in self._in_place:
                path = property_path(found, table.declaration, table.owner)
                made = self._state.elaborator.construct_expression(found.value, path, table.owner)
                assert isinstance(made, ExternObject)
                made.annotations = found.annotations
                self._in_place[key] = made
            return self._in_place[key]
        declaration = self._facts.references.get(found.value)
        bound = table.owner.bindings.get(declaration) if declaration is not None else None
        return bound if isinstance(bound, ExternObject) else None
