"""Resolution of names, key fields and arguments in STF through P4Info, by the rules of p4c's runner.

A name may be a unique suffix (`t` for `ingress.t`). A key field that is not given matches anything, or 0 if
its match kind is exact.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol, TypeVar

from softswitch.conformance.errors import StfError
from softswitch.conformance.statements import Add, Call, MaskedValue, MatchValue, Number, Prefix, Span
from softswitch.ir import Masked, Match, RangeMatch
from softswitch.messages import pluralize
from softswitch.p4runtime.messages import p4i
from softswitch.pipeline import ActionCall, Change, EntryWrite

_PRIORITY_KINDS = (p4i.MatchField.TERNARY, p4i.MatchField.RANGE, p4i.MatchField.OPTIONAL)


class _Named(Protocol):
    @property
    def preamble(self) -> p4i.Preamble: ...


N = TypeVar("N", bound=_Named)


class StfNames:
    def __init__(self, p4info: p4i.P4Info) -> None:
        self._p4info = p4info
        self._actions = {action.preamble.id: action for action in p4info.actions}

    def entry(self, add: Add) -> EntryWrite:
        table = self._table(add.table)
        values: dict[int, MatchValue] = {}
        for name, value in add.key:
            values[_find_field(table, name).id] = value
        key = tuple(_to_match(field, values.get(field.id)) for field in table.match_fields)
        has_priority = any(field.match_type in _PRIORITY_KINDS for field in table.match_fields)
        # Priorities start at 0 in STF, and at 1 in P4Runtime.
        priority = (add.priority or 0) + 1 if has_priority else 0
        action = self._resolve_call(table, add.call)
        return EntryWrite(Change.INSERT, table.preamble.name, key, action, priority)

    def default(self, table: str, call: Call) -> tuple[str, ActionCall]:
        declared = self._table(table)
        return declared.preamble.name, self._resolve_call(declared, call)

    def counter(self, name: str) -> str:
        return _find_object("counter", name, self._p4info.counters).preamble.name

    def check_direct_counter(self, name: str, table: str) -> None:
        counter = _find_object("direct counter", name, self._p4info.direct_counters)
        if counter.direct_table_id != self._table(table).preamble.id:
            raise StfError(f"counter {name} does not belong to table {table}")

    def register(self, name: str) -> tuple[str, int]:
        register = _find_object("register", name, self._p4info.registers)
        return register.preamble.name, register.size

    def meter(self, name: str) -> tuple[str, int]:
        meter = _find_object("meter", name, self._p4info.meters)
        return meter.preamble.name, meter.size

    def _table(self, name: str) -> p4i.Table:
        return _find_object("table", name, self._p4info.tables)

    def _resolve_call(self, table: p4i.Table, call: Call) -> ActionCall:
        actions = [self._actions[ref.id] for ref in table.action_refs]
        action = _find_object(f"action of table {table.preamble.name}", call.action, actions)
        arguments = dict(call.args)
        unknown = set(arguments) - {parameter.name for parameter in action.params}
        if unknown:
            raise StfError(f"action {action.preamble.name} has no parameter {', '.join(sorted(unknown))}")
        args = []
        for parameter in action.params:
            if parameter.name not in arguments:
                raise StfError(f"action {action.preamble.name} needs parameter {parameter.name}")
            args.append(
                _exact_value(arguments[parameter.name], parameter.bitwidth, f"parameter {parameter.name}")
            )
        return ActionCall(action.preamble.name, tuple(args))


def _find_object(kind: str, name: str, objects: Iterable[N]) -> N:
    by_name = {item.preamble.name: item for item in objects}
    if name in by_name:
        return by_name[name]
    candidates = [full_name for full_name in by_name if full_name.endswith(name)]
    if len(candidates) == 1:
        return by_name[candidates[0]]
    if candidates:
        raise StfError(f"{kind} {name} is ambiguous: {', '.join(sorted(candidates))}")
    raise StfError(f"the program has no {kind} {name}; it has {', '.join(sorted(by_name)) or 'none'}")


def _find_field(table: p4i.Table, name: str) -> p4i.MatchField:
    """Return the field called `name`; `s$0.f` means `s[0].f`, a header's name alone means its validity."""
    name = re.sub(r"\$([0-9]+)", r"[\1]", name)
    by_name = {field.name: field for field in table.match_fields}
    validity_name = re.sub(r"(^|\.)valid$", r"\1$valid$", name)
    for candidate in (name, name + "$", name + ".$valid$", validity_name):
        if candidate in by_name:
            return by_name[candidate]
    for full_name, field in by_name.items():
        if full_name.endswith(("." + name, f".{name}$", "." + validity_name)):
            return field
    raise StfError(f"table {table.preamble.name} has no match field {name}; it has {', '.join(by_name)}")


def _to_match(field: p4i.MatchField, value: MatchValue | None) -> Match:
    subject, width = f"match field {field.name}", field.bitwidth
    all_ones = (1 << width) - 1
    match field.match_type, value:
        case p4i.MatchField.EXACT, None:
            return 0
        case p4i.MatchField.EXACT, Number():
            return _exact_value(value, width, subject)
        case p4i.MatchField.OPTIONAL, Number(mask=0):  # `*` digits only, as p4testgen writes it
            return Masked(0, 0)
        case p4i.MatchField.OPTIONAL, Number():
            return Masked(_exact_value(value, width, subject), all_ones)
        case ((p4i.MatchField.LPM | p4i.MatchField.TERNARY | p4i.MatchField.OPTIONAL), None):
            return Masked(0, 0)
        case p4i.MatchField.LPM, Prefix(number, length):
            return _prefix_match(number, length, width, subject)
        case p4i.MatchField.LPM, Number():
            return _prefix_match(value, _length_of_prefix(value, width, subject), width, subject)
        case p4i.MatchField.TERNARY, Number():
            # As in p4c's runner, digits that were not written are not compared.
            mask = all_ones if value.mask is None else value.mask
            return _masked_match(value.value, mask, width, subject)
        case p4i.MatchField.TERNARY, MaskedValue(number, mask_number):
            return _masked_match(number.value, _exact_value(mask_number, width, subject), width, subject)
        case p4i.MatchField.RANGE, None:
            return RangeMatch(0, all_ones)
        case p4i.MatchField.RANGE, Number():
            return RangeMatch(_exact_value(value, width, subject), value.value)
        case p4i.MatchField.RANGE, Span(low, high):
            return RangeMatch(_exact_value(low, width, subject), _exact_value(high, width, subject))
    kind = p4i.MatchField.MatchType.Name(field.match_type).lower()
    raise StfError(f"{subject} takes {_EXPECTED_FORMS.get(kind, f'no value: it is {kind}')}")


_EXPECTED_FORMS = {
    "exact": "a number",
    "lpm": "a number, digits with '*' at the end, or value/length",
    "ternary": "a number, digits with '*', or value&&&mask",
    "range": "a number or low->high",
    "optional": "a number, or '*' digits only",
}


def _exact_value(number: Number, width: int, subject: str) -> int:
    if number.has_wildcard:
        raise StfError(f"{subject} must not have '*' digits")
    if number.value >> width:
        raise StfError(f"{subject}: {number.value:#x} has more than {pluralize(width, 'bit')}")
    return number.value


def _masked_match(value: int, mask: int, width: int, subject: str) -> Masked:
    if value >> width:
        raise StfError(f"{subject}: {value:#x} has more than {pluralize(width, 'bit')}")
    mask &= (1 << width) - 1
    return Masked(value & mask, mask)


def _length_of_prefix(number: Number, width: int, subject: str) -> int:
    """Return the number of bits before the first `*`, as in p4c's runner."""
    if number.bits is None or number.mask is None:
        return width
    length = number.mask.bit_count()
    if number.mask != ((1 << length) - 1) << number.bits - length:
        raise StfError(f"{subject}: '*' digits of a prefix must be at its end")
    return length


def _prefix_match(number: Number, length: int, width: int, subject: str) -> Masked:
    if length > width:
        raise StfError(f"{subject}: the prefix is longer than the field's {pluralize(width, 'bit')}")
    mask = ((1 << length) - 1) << width - length
    return _masked_match(number.value, mask, width, subject)
