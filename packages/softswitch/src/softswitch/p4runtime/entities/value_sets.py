"""Parser value sets: writes and reads of `ValueSetEntry` (P4Runtime 1.4 §9.6). BMv2 answers UNIMPLEMENTED."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from grpc import StatusCode

from softswitch.ir import Masked, Match, MatchKind, RangeMatch
from softswitch.messages import pluralize
from softswitch.p4runtime.batch import MODIFY, Batch
from softswitch.p4runtime.codecs.matches import MatchField
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import ValueSetInfo
from softswitch.p4runtime.status import Refusal, find_by_id, invalid, unimplemented

Member = tuple[int, ...]


class ValueSetEntries:
    def __init__(self, value_sets: Mapping[int, ValueSetInfo]) -> None:
        self._value_sets = value_sets
        self._members: dict[int, tuple[Member, ...]] = {value_set_id: () for value_set_id in value_sets}

    def write(self, update_type: int, message: p4r.ValueSetEntry, batch: Batch) -> None:
        value_set = self._find_value_set(message.value_set_id)
        if update_type != MODIFY:
            raise invalid(f"value set {value_set.name} can only be modified")
        if len(message.members) > value_set.size:
            text = f"{pluralize(len(message.members), 'member')} given, there is room for {value_set.size}"
            raise Refusal(StatusCode.RESOURCE_EXHAUSTED, f"value set {value_set.name}: {text}")
        members = tuple(_decode_member(value_set, member.match) for member in message.members)
        seen_members: set[Member] = set()
        for member in members:
            if member in seen_members:
                member_text = value_set.key.show(make_matches(value_set, member))
                text = f"value set {value_set.name}: {member_text} is given twice"
                raise Refusal(StatusCode.ALREADY_EXISTS, text)
            seen_members.add(member)
        batch.put(self._members, value_set.id, members)
        batch.hold_strings(("value set", value_set.id))
        batch.add(lambda pipeline: pipeline.cells.write_value_set(value_set.name, members))

    def read(self, query: p4r.ValueSetEntry) -> Iterator[p4r.Entity]:
        selected_sets = (
            [self._find_value_set(query.value_set_id)] if query.value_set_id else self._value_sets.values()
        )
        return iter([_make_entity(value_set, self._members[value_set.id]) for value_set in selected_sets])

    def members(self, value_set_id: int) -> tuple[Member, ...]:
        return self._members[self._find_value_set(value_set_id).id]

    def _find_value_set(self, value_set_id: int) -> ValueSetInfo:
        return find_by_id(self._value_sets, value_set_id, "value set")


def _decode_member(value_set: ValueSetInfo, field_matches: Sequence[p4r.FieldMatch]) -> Member:
    """Return the values of a member; raises Refusal unless it matches whole values, as BMv2's parsers do."""
    matches = value_set.key.decode(field_matches)
    values = []
    for field, match in zip(value_set.key.fields, matches, strict=True):
        value = _whole_value(field, match)
        if value is None:
            member_text = value_set.key.show(matches)
            raise unimplemented(
                f"value set {value_set.name}: {member_text}: the parser matches whole values only"
            )
        values.append(value)
    return tuple(values)


def _whole_value(field: MatchField, match: Match) -> int | None:
    match match:
        case RangeMatch(low, high) if low == high:
            return low
        case Masked(value, mask) if mask == field.full_mask:
            return value
        case int(value):
            return value
    return None


def make_matches(value_set: ValueSetInfo, member: Sequence[int]) -> tuple[Match, ...]:
    return tuple(
        value
        if field.kind is MatchKind.EXACT
        else RangeMatch(value, value)
        if field.kind is MatchKind.RANGE
        else Masked(value, field.full_mask)
        for field, value in zip(value_set.key.fields, member, strict=True)
    )


def _make_entity(value_set: ValueSetInfo, members: tuple[Member, ...]) -> p4r.Entity:
    entity = p4r.Entity()
    message = entity.value_set_entry
    message.value_set_id = value_set.id
    for member in members:
        value_set.key.encode(make_matches(value_set, member), message.members.add())
    return entity
