"""Checks of tables: keys, actions with their arguments, entries, and properties."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.check_calls import CallChecker
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.key_names import key_name
from softswitch.p4.scopes import CallTarget, NameScope
from softswitch.p4.table_rules import (
    check_entries,
    check_no_action,
    check_properties,
    check_scope_of_action,
    same_tree,
)  # fmt: skip

_KEYS = (types.BOOL, types.ERROR)
_PRIORITIES = ("largest_priority_wins", "priority_delta")


class TableChecker:
    def __init__(self, calls: CallChecker) -> None:
        self.facts, self.sources, self.evaluator = calls.facts, calls.sources, calls.evaluator
        self._calls, self._expressions, self._resolver = calls, calls.expressions, calls.resolver
        self._conversions = calls.expressions.conversions

    def check_table(self, table: tree.Table, scope: NameScope) -> None:
        key_types: list[types.Type] = []
        for element in table.key:
            found = self._expressions.check(element.expression, scope)
            base = types.representation(found)
            if not isinstance(base, types.Bits) and base not in _KEYS and not types.is_numeric(base):
                raise SourceError(element, f"expected bits, a bool or an enum as a key, got {found}")
            if element.kind not in self.facts.match_kinds:
                kinds = ", ".join(self.facts.match_kinds)
                raise SourceError(element, f"expected a kind of match ({kinds}), got `{element.kind}`")
            key_name(element, self.facts)
            key_types.append(types.Bits(32) if found == types.INT else found)
        for reference in table.actions:
            self._check_reference(reference, scope)
        seen: set[tuple[str, bool]] = set()
        for reference in table.actions:
            if (reference.name, reference.is_global) in seen:
                raise SourceError(reference, f"expected each action once, `{reference.name}` is there twice")
            seen.add((reference.name, reference.is_global))
        if "default_action" in table.properties:
            value = table.properties["default_action"].value
            self._check_action_call(table, value, scope)
            check_scope_of_action(table, value, "tableonly", "the default action", self.facts)
        if table.entries and not table.key:
            raise SourceError(table, f"expected a key of the table `{table.name}`, which has entries")
        for entry in table.entries:
            self._check_entry(table, entry, key_types, scope)
        check_properties(table, self.evaluator)
        check_no_action(table, next(iter(scope.find("NoAction", is_global=True)), None))
        check_entries(table, self.facts, self.evaluator, self.sources)
        for name, each in table.properties.items():
            if name not in ("default_action", *_PRIORITIES):
                found = self._expressions.check(each.value, scope)
                is_number = self.evaluator.value(each.value) is not None and types.is_numeric(found)
                if name == "size" and not isinstance(each.value, tree.Name) and not is_number:
                    raise SourceError(each, f"expected a constant number as the size, got {found}")

    def _check_reference(self, reference: tree.ActionReference, scope: NameScope) -> None:
        found = self._resolver.find(reference.name, scope, reference, reference.is_global)[0]
        if not isinstance(found, tree.Action):
            raise SourceError(reference, f"expected an action, got `{reference.name}`")
        self.facts.references[reference] = found
        directed = [parameter for parameter in found.parameters if parameter.direction]
        matched = self._calls.match_arguments(reference, reference.arguments, directed, found.name)
        self._calls.check_arguments(matched, directed, {}, scope)
        self.facts.calls[reference] = CallTarget("action", found, None, found.name, directed, matched)

    def _check_action_call(self, table: tree.Table, value: tree.Expression, scope: NameScope) -> None:
        """Check the action of an entry or of a miss, with the arguments that the control plane would give."""
        call = value if isinstance(value, tree.Call) else None
        name = call.function if call is not None else value
        if not isinstance(name, tree.Name):
            raise SourceError(value, "expected an action of the table")
        found = self._resolver.find(name.name, scope, name, name.is_global)[0]
        references = [each for each in table.actions if self.facts.references.get(each) is found]
        if not isinstance(found, tree.Action) or not references:
            names = ", ".join(action.name for action in table.actions) or "none"
            raise SourceError(value, f"expected an action of the table ({names}), got `{name.name}`")
        data = [parameter for parameter in found.parameters if not parameter.direction]
        given = call.arguments if call is not None else []
        for argument in given[-len(data) :] if data else []:
            if argument.value is not None:
                self._expressions.check(argument.value, scope)
                self._resolver.check_compile_time(argument.value)
        directed = len(found.parameters) - len(data)
        if call is not None and directed and len(given) == len(found.parameters):
            matched = self._calls.match_arguments(value, given, found.parameters, found.name)
            self._calls.check_arguments(matched[:directed], found.parameters[:directed], {}, scope)
            reference = references[0]
            for one, other in zip(self.facts.calls[reference].arguments, matched, strict=False):
                if one is not None and other is not None and not same_tree(one, other, self.evaluator):
                    text = f"expected the arguments of `{found.name}` in the list of actions"
                    raise SourceError(other, f"{text} ({reference.position}), got others")
            matched = matched[directed:]
        else:
            matched = self._calls.match_arguments(value, given, data, found.name)
        self._calls.check_arguments(matched, data, {}, scope)
        self.facts.calls[value] = CallTarget("action", found, None, found.name, data, matched)

    def _check_entry(
        self, table: tree.Table, entry: tree.Entry, key_types: list[types.Type], scope: NameScope
    ) -> None:
        try:
            self.check_keys(entry.keys, key_types, entry, scope)
            self._check_action_call(table, entry.action, scope)
            check_scope_of_action(table, entry.action, "defaultonly", "an entry", self.facts)
            if entry.priority is not None:
                self._expressions.check(entry.priority, scope)
        except SourceError as error:  # those of other entries are reported, too
            self.sources.error(error.position, error.message)

    def check_keys(
        self, keys: list[tree.Expression], wanted: list[types.Type], node: tree.Node, scope: NameScope
    ) -> None:
        """Check the sets of a case or an entry: one for each value, or one for all of them."""
        if len(keys) == 1 and (len(wanted) != 1 or isinstance(keys[0], tree.Default)):
            if isinstance(keys[0], tree.Default):
                return
            found = self._expressions.check(keys[0], scope)
            if isinstance(found, types.Set | types.Tuple):
                return
        if len(keys) != len(wanted):
            raise SourceError(node, f"expected {len(wanted)} values here, got {len(keys)}")
        for key, each in zip(keys, wanted, strict=True):
            if isinstance(key, tree.Default):
                continue
            found = self._expressions.check(key, scope, each)
            if isinstance(key, tree.Mask | tree.Range) or isinstance(node, tree.Entry):
                self._resolver.check_compile_time(key)
            if isinstance(found, types.Set) and isinstance(found.element, types.Struct):
                continue  # a value set of structs with one field
            self._conversions.check(key, found, types.Set(each))
