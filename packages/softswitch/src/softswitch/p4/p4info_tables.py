"""Messages of actions and tables in P4Info."""

from __future__ import annotations

from typing import Any

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.key_names import key_name
from softswitch.p4.lower_tables import DEFAULT_SIZE
from softswitch.p4.objects import CallableObject, control_plane_name
from softswitch.p4.p4info_annotations import fill_annotations, fill_documentation
from softswitch.p4.p4info_ids import ObjectType, given_id
from softswitch.p4.p4info_names import NamedObjects
from softswitch.p4.p4info_objects import SeenAction, SeenTable, lacks_no_action
from softswitch.p4.p4info_types import bytes_of
from softswitch.p4runtime.messages import p4i

MATCH_TYPES = {
    "exact": p4i.MatchField.EXACT,
    "lpm": p4i.MatchField.LPM,
    "ternary": p4i.MatchField.TERNARY,
    "range": p4i.MatchField.RANGE,
    "optional": p4i.MatchField.OPTIONAL,
}


class TableMessages(NamedObjects):
    def _add_action(self, action: SeenAction) -> None:
        declaration = action.declaration
        number = self.symbols.id(ObjectType.ACTION, action.name)
        if declaration.annotation("hidden") is not None or not self._is_new(number):
            return
        message = self.message.actions.add()
        self._fill_preamble(message.preamble, ObjectType.ACTION, action.name, declaration.annotations)
        parameters = (
            [each for each in declaration.parameters if not each.direction] if action.has_data else []
        )
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

    def _add_table(self, table: SeenTable) -> None:
        declaration, owner = table.declaration, table.owner
        if declaration.annotation("hidden") is not None:
            return
        self.message.type_info.SetInParent()
        message = self.message.tables.add()
        self._fill_preamble(message.preamble, ObjectType.TABLE, table.name, declaration.annotations)
        evaluator = Evaluator(self._facts, owner.bindings, owner.substitution)
        size = declaration.properties.get("size")
        message.size = DEFAULT_SIZE
        if size is not None and (number := evaluator.integer(size.value)):
            message.size = checked_size(number, size)
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
            if element.kind in MATCH_TYPES:
                made.match_type = MATCH_TYPES[element.kind]
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
                raise SourceError(expression, "expected a number that is known when compiling")
            chosen = given_id(parameter.annotations)
            made.append(
                (chosen if chosen is not None else i, bytes_of(int(number), self._types.width(given)))
            )
        return made

    def _add_properties(self, message: p4i.Table, table: SeenTable) -> None:
        raise NotImplementedError


def checked_size(size: int, node: tree.Node) -> int:
    if not 0 <= size < 1 << 31:
        raise SourceError(node, f"expected a size below 2^31, got {size}")
    return size


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
