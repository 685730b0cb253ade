"""Table updates as P4Runtime messages."""

from __future__ import annotations

from collections.abc import Sequence

from finsy.proto import p4i, p4r

from softswitch.ir import Between, Masked, Match
from softswitch.p4runtime.codecs import values
from softswitch.pipeline import ActionCall, Change, EntryAction, EntryWrite, UseGroup, UseMember

UPDATE_TYPES = {
    Change.INSERT: p4r.Update.INSERT,
    Change.MODIFY: p4r.Update.MODIFY,
    Change.DELETE: p4r.Update.DELETE,
}


class EntryEncoder:
    """Makes messages of what the tables of one program are told."""

    def __init__(self, p4info: p4i.P4Info) -> None:
        self._tables = {table.preamble.name: table for table in p4info.tables}
        self._actions = {action.preamble.name: action.preamble.id for action in p4info.actions}

    def __call__(self, write: EntryWrite) -> p4r.Update:
        """The update of a table entry."""
        update = p4r.Update(type=UPDATE_TYPES[write.change])
        update.entity.table_entry.CopyFrom(self.entry(write.table, write.key, write.priority))
        if write.action is not None:
            self._invoke(update.entity.table_entry, write.action)
        return update

    def default(self, table: str, action: EntryAction | None) -> p4r.Update:
        """The update of a table's default action; None resets it (P4Runtime 1.4 §9.1.4)."""
        update = p4r.Update(type=p4r.Update.MODIFY)
        entry = update.entity.table_entry
        entry.table_id, entry.is_default_action = self._tables[table].preamble.id, True
        if action is not None:
            self._invoke(entry, action)
        return update

    def entry(self, table: str, key: Sequence[Match], priority: int) -> p4r.TableEntry:
        """An entry without its action, as queries name it."""
        declared = self._tables[table]
        entry = p4r.TableEntry(table_id=declared.preamble.id, priority=priority)
        matches = map(_field_match, declared.match_fields, key)
        entry.match.extend(match for match in matches if match is not None)
        return entry

    def _invoke(self, entry: p4r.TableEntry, action: EntryAction) -> None:
        match action:
            case UseMember(member):
                entry.action.action_profile_member_id = member
            case UseGroup(group):
                entry.action.action_profile_group_id = group
            case ActionCall(name, args):
                entry.action.action.action_id = self._actions[name]
                for index, value in enumerate(args, start=1):
                    entry.action.action.params.add(param_id=index, value=values.encode(value))


def _field_match(field: p4i.MatchField, match: Match) -> p4r.FieldMatch | None:
    """A match field in canonical form: none where any value matches (P4Runtime 1.4 §9.1.1)."""
    message = p4r.FieldMatch(field_id=field.id)
    match match:
        case Masked(_, 0):
            return None
        case Between(0, high) if high == (1 << field.bitwidth) - 1:
            return None
        case Between(low, high):
            message.range.low, message.range.high = values.encode(low), values.encode(high)
        case Masked(value, mask) if field.match_type == p4i.MatchField.LPM:
            message.lpm.value, message.lpm.prefix_len = values.encode(value), mask.bit_count()
        case Masked(value, mask) if field.match_type == p4i.MatchField.TERNARY:
            message.ternary.value, message.ternary.mask = values.encode(value), values.encode(mask)
        case Masked(value, _):
            message.optional.value = values.encode(value)
        case int(value):
            message.exact.value = values.encode(value)
    return message
