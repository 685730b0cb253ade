"""Tables: their entries, and what applying them does (specification, §14.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from softswitch.p4 import tree, types
from softswitch.p4.scopes import CallTarget
from switch_harness.p4_interpreter import values
from switch_harness.p4_interpreter.externs import Externs
from switch_harness.p4_interpreter.instances import Activation
from switch_harness.p4_interpreter.values import Scalar, Storage

Matcher = Callable[[Scalar], bool]


@dataclass(frozen=True, slots=True)
class TableEntry:
    """An entry that the control plane gives: a value and a mask for each key, the action, and its data."""

    keys: tuple[tuple[int, int], ...]
    """Values and masks; a prefix is a mask."""
    priority: int
    action: str
    data: tuple[int, ...] = ()


class Tables(Externs):
    entries: Mapping[str, Sequence[TableEntry]]
    """Entries of the control plane, by the names of tables in the source."""

    def apply_table(self, call: tree.Call, activation: Activation) -> tuple[bool, str]:
        """Apply a table; return whether an entry matched, and the name of the action that ran."""
        table = self.facts.calls[call].declaration
        assert isinstance(table, tree.Table)
        keys: list[Scalar] = [self.scalar(each.expression, activation) for each in table.key]
        if table.key and (entry := self._constant_entry(table, keys, activation)) is not None:
            return True, self._run(table, entry.action, activation)
        if table.key and (given := self._given_entry(table, keys)) is not None:
            return True, self._run_given(table, given, activation)
        default = table.properties.get("default_action")
        if default is None:
            return False, "NoAction"
        return False, self._run(table, default.value, activation)

    # -- which entry

    def _constant_entry(
        self, table: tree.Table, keys: list[Scalar], activation: Activation
    ) -> tree.Entry | None:
        matching = [entry for entry in table.entries if self._entry_matches(table, entry, keys, activation)]
        if not matching:
            return None
        for i, element in enumerate(table.key):
            if element.kind == "lpm":
                return max(matching, key=lambda entry: self._prefix(entry, i, activation))
        return matching[0]

    def _entry_matches(
        self, table: tree.Table, entry: tree.Entry, keys: list[Scalar], activation: Activation
    ) -> bool:
        kinds = [self.type_of(element.expression, activation) for element in table.key]
        sets = zip(entry.keys, keys, kinds, strict=True)
        return all(self.in_set(each, value, kind, activation) for each, value, kind in sets)

    def _prefix(self, entry: tree.Entry, position: int, activation: Activation) -> int:
        given = entry.keys[position]
        if isinstance(given, tree.Default):
            return 0
        return self.integer(given.mask, activation).bit_count() if isinstance(given, tree.Mask) else 1 << 16

    def in_set(self, given: tree.Expression, value: Scalar, kind: types.Type, activation: Activation) -> bool:
        """Return whether a value is in the set of a select's case, or of an entry."""
        match given:
            case tree.Default():
                return True
            case tree.Mask(value=base, mask=mask):
                bits = self.integer(mask, activation, kind)
                assert isinstance(value, int)
                return value & bits == self.integer(base, activation, kind) & bits
            case tree.Range(low=low, high=high):
                assert isinstance(value, int)
                return self.integer(low, activation, kind) <= value <= self.integer(high, activation, kind)
            case tree.ListExpression(elements=[only]):
                return self.in_set(only, value, kind, activation)
        return value == self.scalar(given, activation, kind)

    def _given_entry(self, table: tree.Table, keys: list[Scalar]) -> TableEntry | None:
        matching = [
            entry
            for entry in self.entries.get(table.name, [])
            if all(int(k) & mask == value & mask for k, (value, mask) in zip(keys, entry.keys, strict=True))
        ]
        is_prefix = all(element.kind in ("exact", "lpm") for element in table.key)

        def rank(entry: TableEntry) -> int:
            return sum(mask.bit_count() for _, mask in entry.keys) if is_prefix else entry.priority

        return max(matching, key=rank, default=None)

    # -- what it does

    def _run(self, table: tree.Table, value: tree.Expression, activation: Activation) -> str:
        """Run the action of an entry or of a miss, with the arguments in the source."""
        given = self.facts.calls[value]
        action = given.declaration
        assert isinstance(action, tree.Action)
        data: dict[tree.Declaration, Storage] = {}
        for parameter, argument in zip(given.parameters, given.arguments, strict=True):
            expression = argument.value if argument is not None else parameter.default
            assert expression is not None
            kind = self.declared(parameter, activation)
            made = values.uninitialised(kind, self.facts)
            values.store(made, self.evaluate(expression, activation, kind))
            data[parameter] = made
        self._run_with(table, action, data, activation)
        return action.name

    def _run_given(self, table: tree.Table, entry: TableEntry, activation: Activation) -> str:
        actions = [self.facts.references[each] for each in table.actions]
        action = next(each for each in actions if each.name == entry.action)
        assert isinstance(action, tree.Action)
        data: dict[tree.Declaration, Storage] = {}
        parameters = [each for each in action.parameters if not each.direction]
        for parameter, number in zip(parameters, entry.data, strict=True):
            made = values.uninitialised(self.declared(parameter, activation), self.facts)
            values.store(made, self.as_element(number, self.declared(parameter, activation)))
            data[parameter] = made
        self._run_with(table, action, data, activation)
        return action.name

    def _run_with(
        self,
        table: tree.Table,
        action: tree.Action,
        data: dict[tree.Declaration, Storage],
        activation: Activation,
    ) -> None:
        """Run an action with data, and with the arguments for directed parameters that the table names."""
        reference = next(each for each in table.actions if self.facts.references[each] is action)
        directed: CallTarget = self.facts.calls[reference]
        self.run_action(action, directed, reference, activation, data)
