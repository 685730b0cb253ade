"""BMv2's service `standard`: tables, and the action profiles of indirect tables."""

from __future__ import annotations

from softswitch.runtime.interface import Runtime, TableAction
from softswitch.runtime.refusals import TABLE, RuntimeRefusal
from softswitch.thrift.codec import I32, I64, U32
from softswitch.thrift.conversion import (
    CurrentNames,
    from_action_data,
    from_match_key,
    to_action_entry,
    to_count,
    to_member,
    to_rates,
    to_table_entry,
)
from softswitch.thrift.structs import (
    TABLE_ERRORS,
    ActionEntry,
    AddEntryOptions,
    CounterBytesAndPackets,
    MatchParam,
    MeterRate,
    ProfileGroup,
    ProfileMember,
    TableEntry,
    raises,
)


class StandardTables:
    """Calls on tables and action profiles; their names, argument numbers and types are BMv2's."""

    def __init__(self, runtime: Runtime, names: CurrentNames) -> None:
        self._runtime = runtime
        self._names = names

    # -- all tables

    @raises(TABLE_ERRORS)
    def bm_mt_get_num_entries(self, cxt_id: I32, table_name: str) -> I64:
        return self._runtime.table_size(table_name)

    @raises(TABLE_ERRORS)
    def bm_mt_clear_entries(self, cxt_id: I32, table_name: str, reset_default_entry: bool) -> None:
        self._runtime.table_clear(table_name)
        if reset_default_entry:
            self._runtime.table_set_default(table_name, None)

    @raises(TABLE_ERRORS)
    def bm_mt_get_entries(self, cxt_id: I32, table_name: str) -> list[TableEntry]:
        table = self._names.table(table_name)
        return [to_table_entry(table, entry) for entry in self._runtime.table_entries(table_name)]

    @raises(TABLE_ERRORS)
    def bm_mt_get_entry(self, cxt_id: I32, table_name: str, entry_handle: U32) -> TableEntry:
        entry = self._runtime.table_entry(table_name, entry_handle)
        return to_table_entry(self._names.table(table_name), entry)

    @raises(TABLE_ERRORS)
    def bm_mt_get_default_entry(self, cxt_id: I32, table_name: str) -> ActionEntry:
        return to_action_entry(self._runtime.table_default(table_name))

    @raises(TABLE_ERRORS)
    def bm_mt_get_entry_from_key(
        self, cxt_id: I32, table_name: str, match_key: list[MatchParam], options: AddEntryOptions
    ) -> TableEntry:
        """Return the entry, or the default entry if the key is empty, as in BMv2."""
        if not match_key:
            default = to_action_entry(self._runtime.table_default(table_name))
            return TableEntry([], AddEntryOptions(), 0, default)
        match, priority = from_match_key(match_key), options.priority or 0
        entry = self._runtime.table_find(table_name, match, priority)
        return to_table_entry(self._names.table(table_name), entry)

    # -- tables of actions

    @raises(TABLE_ERRORS)
    def bm_mt_add_entry(
        self,
        cxt_id: I32,
        table_name: str,
        match_key: list[MatchParam],
        action_name: str,
        action_data: list[bytes],
        options: AddEntryOptions,
    ) -> U32:
        return self._add(table_name, match_key, options, _action(action_name, action_data))

    @raises(TABLE_ERRORS)
    def bm_mt_set_default_action(
        self, cxt_id: I32, table_name: str, action_name: str, action_data: list[bytes]
    ) -> None:
        self._runtime.table_set_default(table_name, _action(action_name, action_data))

    @raises(TABLE_ERRORS)
    def bm_mt_reset_default_entry(self, cxt_id: I32, table_name: str) -> None:
        self._runtime.table_set_default(table_name, None)

    @raises(TABLE_ERRORS)
    def bm_mt_delete_entry(self, cxt_id: I32, table_name: str, entry_handle: U32) -> None:
        self._runtime.table_delete(table_name, entry_handle)

    @raises(TABLE_ERRORS)
    def bm_mt_modify_entry(
        self, cxt_id: I32, table_name: str, entry_handle: U32, action_name: str, action_data: list[bytes]
    ) -> None:
        self._runtime.table_modify(table_name, entry_handle, _action(action_name, action_data))

    @raises(TABLE_ERRORS)
    def bm_mt_set_entry_ttl(self, cxt_id: I32, table_name: str, entry_handle: U32, timeout_ms: I32) -> None:
        self._runtime.table_set_timeout(table_name, entry_handle, timeout_ms)

    # -- indirect tables: entries have members or groups

    @raises(TABLE_ERRORS)
    def bm_mt_indirect_add_entry(
        self,
        cxt_id: I32,
        table_name: str,
        match_key: list[MatchParam],
        mbr_handle: I32,
        options: AddEntryOptions,
    ) -> U32:
        return self._add(table_name, match_key, options, TableAction(member=mbr_handle))

    @raises(TABLE_ERRORS)
    def bm_mt_indirect_modify_entry(
        self, cxt_id: I32, table_name: str, entry_handle: U32, mbr_handle: I32
    ) -> None:
        self._runtime.table_modify(table_name, entry_handle, TableAction(member=mbr_handle))

    @raises(TABLE_ERRORS)
    def bm_mt_indirect_delete_entry(self, cxt_id: I32, table_name: str, entry_handle: U32) -> None:
        self._runtime.table_delete(table_name, entry_handle)

    @raises(TABLE_ERRORS)
    def bm_mt_indirect_set_entry_ttl(
        self, cxt_id: I32, table_name: str, entry_handle: U32, timeout_ms: I32
    ) -> None:
        self._runtime.table_set_timeout(table_name, entry_handle, timeout_ms)

    @raises(TABLE_ERRORS)
    def bm_mt_indirect_set_default_member(self, cxt_id: I32, table_name: str, mbr_handle: I32) -> None:
        self._runtime.table_set_default(table_name, TableAction(member=mbr_handle))

    @raises(TABLE_ERRORS)
    def bm_mt_indirect_reset_default_entry(self, cxt_id: I32, table_name: str) -> None:
        self._runtime.table_set_default(table_name, None)

    @raises(TABLE_ERRORS)
    def bm_mt_indirect_ws_add_entry(
        self,
        cxt_id: I32,
        table_name: str,
        match_key: list[MatchParam],
        grp_handle: I32,
        options: AddEntryOptions,
    ) -> U32:
        return self._add(table_name, match_key, options, TableAction(group=grp_handle))

    @raises(TABLE_ERRORS)
    def bm_mt_indirect_ws_modify_entry(
        self, cxt_id: I32, table_name: str, entry_handle: U32, grp_handle: I32
    ) -> None:
        self._runtime.table_modify(table_name, entry_handle, TableAction(group=grp_handle))

    @raises(TABLE_ERRORS)
    def bm_mt_indirect_ws_set_default_group(self, cxt_id: I32, table_name: str, grp_handle: I32) -> None:
        self._runtime.table_set_default(table_name, TableAction(group=grp_handle))

    # -- direct counters and meters

    @raises(TABLE_ERRORS)
    def bm_mt_read_counter(self, cxt_id: I32, table_name: str, entry_handle: U32) -> CounterBytesAndPackets:
        return to_count(self._runtime.entry_counter_read(table_name, entry_handle))

    @raises(TABLE_ERRORS)
    def bm_mt_reset_counters(self, cxt_id: I32, table_name: str) -> None:
        self._runtime.entry_counter_write(table_name, None, 0, 0)

    @raises(TABLE_ERRORS)
    def bm_mt_write_counter(
        self, cxt_id: I32, table_name: str, entry_handle: U32, value: CounterBytesAndPackets
    ) -> None:
        self._runtime.entry_counter_write(table_name, entry_handle, value.packets, value.bytes)

    @raises(TABLE_ERRORS)
    def bm_mt_set_meter_rates(
        self, cxt_id: I32, table_name: str, entry_handle: U32, rates: list[MeterRate]
    ) -> None:
        runtime_rates = [rate.to_runtime() for rate in rates]
        self._runtime.entry_meter_set_rates(table_name, entry_handle, runtime_rates)

    @raises(TABLE_ERRORS)
    def bm_mt_get_meter_rates(self, cxt_id: I32, table_name: str, entry_handle: U32) -> list[MeterRate]:
        return to_rates(self._runtime.entry_meter_rates(table_name, entry_handle))

    # -- action profiles

    @raises(TABLE_ERRORS)
    def bm_mt_act_prof_add_member(
        self, cxt_id: I32, act_prof_name: str, action_name: str, action_data: list[bytes]
    ) -> I32:
        return self._runtime.member_create(act_prof_name, action_name, from_action_data(action_data))

    @raises(TABLE_ERRORS)
    def bm_mt_act_prof_delete_member(self, cxt_id: I32, act_prof_name: str, mbr_handle: I32) -> None:
        self._runtime.member_delete(act_prof_name, mbr_handle)

    @raises(TABLE_ERRORS)
    def bm_mt_act_prof_modify_member(
        self, cxt_id: I32, act_prof_name: str, mbr_handle: I32, action_name: str, action_data: list[bytes]
    ) -> None:
        self._runtime.member_modify(act_prof_name, mbr_handle, action_name, from_action_data(action_data))

    @raises(TABLE_ERRORS)
    def bm_mt_act_prof_create_group(self, cxt_id: I32, act_prof_name: str) -> I32:
        return self._runtime.group_create(act_prof_name)

    @raises(TABLE_ERRORS)
    def bm_mt_act_prof_delete_group(self, cxt_id: I32, act_prof_name: str, grp_handle: I32) -> None:
        self._runtime.group_delete(act_prof_name, grp_handle)

    @raises(TABLE_ERRORS)
    def bm_mt_act_prof_add_member_to_group(
        self, cxt_id: I32, act_prof_name: str, mbr_handle: I32, grp_handle: I32
    ) -> None:
        self._runtime.group_add(act_prof_name, grp_handle, mbr_handle)

    @raises(TABLE_ERRORS)
    def bm_mt_act_prof_remove_member_from_group(
        self, cxt_id: I32, act_prof_name: str, mbr_handle: I32, grp_handle: I32
    ) -> None:
        self._runtime.group_remove(act_prof_name, grp_handle, mbr_handle)

    @raises(TABLE_ERRORS)
    def bm_mt_act_prof_get_members(self, cxt_id: I32, act_prof_name: str) -> list[ProfileMember]:
        return [to_member(member) for member in self._runtime.members(act_prof_name)]

    @raises(TABLE_ERRORS)
    def bm_mt_act_prof_get_member(self, cxt_id: I32, act_prof_name: str, mbr_handle: I32) -> ProfileMember:
        for member in self._runtime.members(act_prof_name):
            if member["handle"] == mbr_handle:
                return to_member(member)
        text = f"action profile {act_prof_name} has no member with handle {mbr_handle}"
        raise RuntimeRefusal(TABLE, "INVALID_MBR_HANDLE", text)

    @raises(TABLE_ERRORS)
    def bm_mt_act_prof_get_groups(self, cxt_id: I32, act_prof_name: str) -> list[ProfileGroup]:
        return [
            ProfileGroup(group["handle"], group["members"]) for group in self._runtime.groups(act_prof_name)
        ]

    @raises(TABLE_ERRORS)
    def bm_mt_act_prof_get_group(self, cxt_id: I32, act_prof_name: str, grp_handle: I32) -> ProfileGroup:
        for group in self.bm_mt_act_prof_get_groups(cxt_id, act_prof_name):
            if group.grp_handle == grp_handle:
                return group
        text = f"action profile {act_prof_name} has no group with handle {grp_handle}"
        raise RuntimeRefusal(TABLE, "INVALID_GRP_HANDLE", text)

    def _add(
        self, table: str, match_key: list[MatchParam], options: AddEntryOptions, table_action: TableAction
    ) -> int:
        match = from_match_key(match_key)
        return self._runtime.table_add(table, match, options.priority or 0, table_action)


def _action(name: str, data: list[bytes]) -> TableAction:
    return TableAction(action=name, data=from_action_data(data))
