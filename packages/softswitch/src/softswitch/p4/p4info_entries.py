"""Entries that a program itself has, as p4c writes them for P4Runtime."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.compiler import deep_recursion, errors_collected
from softswitch.p4.constants import Evaluator
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.lower_entries import expanded_keys
from softswitch.p4.lower_program import Lowered
from softswitch.p4.p4info import P4InfoBuilder, message_text
from softswitch.p4.p4info_ids import ObjectType
from softswitch.p4.p4info_objects import SeenTable
from softswitch.p4.p4info_types import bytes_of
from softswitch.p4runtime.messages import p4r

_PRIORITY_KINDS = ("ternary", "range", "optional")


def entries(lowered: Lowered) -> p4r.WriteRequest:
    """Return the entries; raise `CompileError` where P4Runtime cannot express one."""
    with errors_collected(lowered.state.sources), deep_recursion():
        builder = EntriesBuilder(lowered)
        for table in builder.tables:
            builder.add_table(table)
        return builder.request


def entries_text(request: p4r.WriteRequest) -> str:
    return message_text(request)


class EntriesBuilder(P4InfoBuilder):
    def __init__(self, lowered: Lowered) -> None:
        super().__init__(lowered)
        self.request = p4r.WriteRequest()

    def add_table(self, table: SeenTable) -> None:
        declaration, owner = table.declaration, table.owner
        evaluator = Evaluator(self._facts, owner.bindings, owner.substitution)
        has_priority = any(element.kind in _PRIORITY_KINDS for element in declaration.key)
        for entry, priority in entries_by_priority(declaration, evaluator):
            message = self.request.updates.add(type=p4r.Update.INSERT).entity.table_entry
            message.table_id = self.symbols.id(ObjectType.TABLE, table.name)
            self._add_match(message, table, entry, evaluator)
            target = self._facts.calls[entry.action]
            assert target.declaration is not None
            action = message.action.action
            action.action_id = self.action_id(target.declaration, owner)
            for i, (_, value) in enumerate(self.arguments(entry.action, owner, evaluator), 1):
                action.params.add(param_id=i, value=value)
            message.is_const = declaration.entries_are_const or entry.is_const
            if has_priority:
                message.priority = priority

    def _add_match(
        self, message: p4r.TableEntry, table: SeenTable, entry: tree.Entry, evaluator: Evaluator
    ) -> None:
        key = table.declaration.key
        keys = expanded_keys(entry.keys, len(key))
        for i, (element, value) in enumerate(zip(key, keys, strict=True), 1):
            if isinstance(value, tree.Default):
                continue
            given = types.substitute(self._facts.types[element.expression], table.owner.substitution)
            add = _KINDS.get(element.kind)
            if add is None:
                raise SourceError(value, f"expected `_` here, P4Runtime has no match of kind {element.kind}")
            add(message, i, _Key(value, given, self._types.width(given), evaluator))


class _Key:
    """A set of values in an entry, for a part of the key."""

    def __init__(self, value: tree.Expression, given: types.Type, width: int, evaluator: Evaluator) -> None:
        self._given, self._evaluator = given, evaluator
        self.width = width
        self.full = (1 << width) - 1
        match value:
            case tree.Mask(value=base, mask=mask):
                self.mask = self._number(mask)
                self.low = self.high = self._number(base) & self.mask
            case tree.Range(low=low, high=high):
                self.low, self.high, self.mask = self._number(low), self._number(high), self.full
            case _:
                self.low = self.high = self._number(value)
                self.mask = self.full

    def _number(self, expression: tree.Expression) -> int:
        number = self._evaluator.convert(self._evaluator.value(expression), self._given)
        if isinstance(number, list) and len(number) == 1:
            [number] = number
        if not isinstance(number, int):
            raise SourceError(expression, "expected a number that is known when compiling")
        return int(number) & self.full

    def bytes(self, number: int) -> bytes:
        return bytes_of(number, self.width)


def _add_exact(message: p4r.TableEntry, number: int, key: _Key) -> None:
    message.match.add(field_id=number).exact.value = key.bytes(key.low)


def _add_lpm(message: p4r.TableEntry, number: int, key: _Key) -> None:
    if key.mask:
        match = message.match.add(field_id=number).lpm
        match.value, match.prefix_len = key.bytes(key.low), key.mask.bit_count()


def _add_ternary(message: p4r.TableEntry, number: int, key: _Key) -> None:
    if key.mask:
        match = message.match.add(field_id=number).ternary
        match.value, match.mask = key.bytes(key.low), key.bytes(key.mask)


def _add_range(message: p4r.TableEntry, number: int, key: _Key) -> None:
    if (key.low, key.high) != (0, key.full):
        match = message.match.add(field_id=number).range
        match.low, match.high = key.bytes(key.low), key.bytes(key.high)


def _add_optional(message: p4r.TableEntry, number: int, key: _Key) -> None:
    message.match.add(field_id=number).optional.value = key.bytes(key.low)


_KINDS = {
    "exact": _add_exact,
    "lpm": _add_lpm,
    "ternary": _add_ternary,
    "range": _add_range,
    "optional": _add_optional,
}


def entries_by_priority(table: tree.Table, evaluator: Evaluator) -> list[tuple[tree.Entry, int]]:
    """Return a table's entries with p4c's priorities for P4Runtime, in p4c's order.

    The first of constant entries wins; others have the priorities that the program gives or implies. p4c
    sorts entries once the program gives one, and leaves the numbers as they are if the smallest wins.
    """
    count = len(table.entries)
    if table.entries_are_const:
        return list(zip(table.entries, range(count, 0, -1), strict=True))
    largest = table.properties.get("largest_priority_wins")
    largest_wins = largest is None or evaluator.value(largest.value) is not False
    step_property = table.properties.get("priority_delta")
    step = evaluator.integer(step_property.value) if step_property is not None else 1
    if all(each.priority is None for each in table.entries):
        numbers = range(1, 1 + step * count, step)
        return list(zip(table.entries, reversed(numbers) if largest_wins else numbers, strict=True))
    priorities: list[int] = []
    following = 1
    for entry in table.entries:
        number = following if entry.priority is None else evaluator.integer(entry.priority)
        priorities.append(number)
        following = number - step if largest_wins else number + step
    pairs = zip(table.entries, priorities, strict=True)
    return sorted(pairs, key=lambda pair: -pair[1] if largest_wins else pair[1])
