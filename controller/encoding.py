"""Rows of the switch's tables as P4Runtime messages."""

from __future__ import annotations

from finsy.proto import p4i, p4r

from controller.tables import Change, MulticastGroup, Replica, TableEntry, Update


class RowEncoder:
    """Encode the rows of one program. All of its match fields are exact."""

    def __init__(self, p4info: p4i.P4Info) -> None:
        self._tables = {
            table.preamble.name: (table.preamble.id, [field.id for field in table.match_fields])
            for table in p4info.tables
        }
        self._actions = {action.preamble.name: action.preamble.id for action in p4info.actions}

    def update(self, update: Update) -> p4r.Update:
        """Return the P4Runtime update of a row. A DELETE names the entry and has no action."""
        entry, is_deleted = update.row.entry(), update.change is Change.DELETE
        message = p4r.Update(type=update.change.value)
        if isinstance(entry, MulticastGroup):
            group = message.entity.packet_replication_engine_entry.multicast_group_entry
            group.multicast_group_id = entry.group
            group.replicas.extend(map(_replica, () if is_deleted else entry.replicas))
        else:
            self._fill(message.entity.table_entry, entry, is_deleted)
        return message

    def _fill(self, message: p4r.TableEntry, entry: TableEntry, is_deleted: bool) -> None:
        message.table_id, field_ids = self._tables[entry.table]
        for field_id, number in zip(field_ids, entry.key, strict=True):
            message.match.add(field_id=field_id).exact.value = _octets(number)
        if not is_deleted:
            action = message.action.action
            action.action_id = self._actions[entry.action]
            for param_id, number in enumerate(entry.args, start=1):
                action.params.add(param_id=param_id, value=_octets(number))


def _replica(replica: Replica) -> p4r.Replica:
    return p4r.Replica(egress_port=replica.port, instance=replica.instance)


def _octets(number: int) -> bytes:
    """Return the canonical byte string of a number (P4Runtime 1.4 §8.3)."""
    return number.to_bytes((number.bit_length() + 7) // 8 or 1, "big")
