"""Conversion of `TableAction` to `EntryAction` and back, according to the table's implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from softswitch.p4runtime.batch import Batch
from softswitch.p4runtime.entities.actions import decode_arguments, encode_call, unknown_action
from softswitch.p4runtime.entities.one_shots import prepare_one_shot, remove_one_shot
from softswitch.p4runtime.entities.profiles import OneShots, ProfileStore
from softswitch.p4runtime.entities.store import TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import ActionInfo, TableInfo
from softswitch.p4runtime.status import Refusal, denied, invalid
from softswitch.pipeline import ActionCall, EntryAction, UseGroup, UseMember


def decode_direct_action(
    table: TableInfo, table_action: p4r.TableAction, is_default: bool = False
) -> ActionCall:
    call = table_action.action
    action = (table.default_actions if is_default else table.entry_actions).get(call.action_id)
    if action is None:
        raise _wrong_action_error(table, table_action, is_default)
    return decode_arguments(action, call)


def prepare_action(store: TableStore, table_action: p4r.TableAction) -> Callable[[Batch], EntryAction]:
    """Check an action, or raise Refusal; return a function that counts its use and returns the action."""
    profile = store.profile
    if profile is None:
        call = decode_direct_action(store.table, table_action)
        return lambda _: call
    match table_action.WhichOneof("type"):
        case "action_profile_member_id":
            profile.check_member(table_action.action_profile_member_id)
            return partial(_add_use, profile, UseMember(table_action.action_profile_member_id))
        case "action_profile_group_id":
            profile.check_group(table_action.action_profile_group_id)
            return partial(_add_use, profile, UseGroup(table_action.action_profile_group_id))
        case "action_profile_action_set":
            return prepare_one_shot(profile, table_action.action_profile_action_set)
        case kind:
            expected = f"the table takes members or groups of action profile {profile.name}"
            raise invalid(f"table {store.name}: {kind or 'no action'} is given, but {expected}")


def release_action(store: TableStore, action: EntryAction, batch: Batch) -> None:
    if store.profile is None:
        return
    if isinstance(action, UseGroup) and action.group in store.profile.one_shots:
        remove_one_shot(store.profile, action.group, batch)
    else:
        _change_use(store.profile, action, change=-1, batch=batch)


def encode_action(
    action: EntryAction, actions: Mapping[str, ActionInfo], one_shots: OneShots, message: p4r.TableAction
) -> None:
    match action:
        case UseMember(member):
            message.action_profile_member_id = member
        case UseGroup(group) if group in one_shots:
            message.action_profile_action_set.CopyFrom(one_shots[group].message)
        case UseGroup(group):
            message.action_profile_group_id = group
        case ActionCall():
            encode_call(actions, action, message.action)


def _add_use(profile: ProfileStore, action: EntryAction, batch: Batch) -> EntryAction:
    _change_use(profile, action, change=1, batch=batch)
    return action


def _change_use(profile: ProfileStore, action: EntryAction, change: int, batch: Batch) -> None:
    if isinstance(action, UseMember):
        profile.change_uses(profile.member_uses, action.member, change, batch)
    elif isinstance(action, UseGroup):
        profile.change_uses(profile.group_uses, action.group, change, batch)


def _wrong_action_error(table: TableInfo, table_action: p4r.TableAction, is_default: bool) -> Refusal:
    kind, action_id = table_action.WhichOneof("type"), table_action.action.action_id
    if kind is None:
        return invalid(f"table {table.name}: the action is missing")
    if kind != "action":
        return invalid(f"table {table.name}: {kind} is given, but the table takes actions directly")
    if action_id in table.entry_actions:
        name = table.entry_actions[action_id].name
        return denied(f"table {table.name}: action {name} is not allowed as default action")
    if action_id in table.default_actions:
        name = table.default_actions[action_id].name
        return denied(f"table {table.name}: action {name} is allowed as default action only")
    allowed = table.default_actions if is_default else table.entry_actions
    return unknown_action(allowed, action_id, f"table {table.name}")
