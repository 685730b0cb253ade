"""Actions of table entries, according to the table's implementation, and one-shot groups.

A one-shot group belongs to one table entry (P4Runtime 1.4 §9.2.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter

from softswitch.p4runtime.batch import Batch
from softswitch.p4runtime.entities.actions import decode_arguments, decode_call, encode_call, unknown_action
from softswitch.p4runtime.entities.profiles import GroupMember, OneShot, OneShots, ProfileStore, watched_port
from softswitch.p4runtime.entities.store import TableStore
from softswitch.p4runtime.group_actions import compose_calls, group_action
from softswitch.p4runtime.messages import p4r
from softswitch.p4runtime.p4info import ActionInfo, TableInfo
from softswitch.p4runtime.status import Refusal, denied, invalid
from softswitch.pipeline import ActionCall, ControlPlane, EntryAction, UseGroup, UseMember


def prepare_one_shot(
    store: ProfileStore, message: p4r.ActionProfileActionSet
) -> Callable[[Batch], EntryAction]:
    calls, weights, watched_ports = _decode_members(store, message)
    copy = p4r.ActionProfileActionSet()
    copy.CopyFrom(message)
    return partial(_add_one_shot, store, copy, calls, weights, watched_ports)


def remove_one_shot(store: ProfileStore, group: int, batch: Batch) -> None:
    member_numbers = store.one_shots[group].member_numbers
    batch.put(store.one_shots, group, None)
    store.group_sizes.put(group, None, batch)
    store.one_shot_sizes.put(group, None, batch)
    batch.put(store.group_orders, group, None)
    store.numbers.group_allocator.free(group, batch.on_undo)
    for numbers in member_numbers:
        store.numbers.free(numbers, batch.on_undo)

    def step(pipeline: ControlPlane) -> None:
        pipeline.profiles.write_group(store.name, group, None)
        for numbers in member_numbers:
            pipeline.profiles.write_member(store.name, numbers[0], None)

    batch.add(step)


def _add_one_shot(
    store: ProfileStore,
    message: p4r.ActionProfileActionSet,
    calls: Sequence[ActionCall],
    weights: Sequence[int],
    watched_ports: Sequence[int | None],
    batch: Batch,
) -> EntryAction:
    group = store.numbers.group_allocator.allocate(batch.on_undo)
    member_numbers = [store.numbers.allocate(weight, batch.on_undo) for weight in weights]
    batch.put(store.one_shots, group, OneShot(message, member_numbers))
    store.group_sizes.put(group, sum(weights), batch)
    store.one_shot_sizes.put(group, len(calls), batch)
    # In the pipeline, a member has the number of its first copy.
    numbered_members = [
        (number, GroupMember(numbers[0], port))
        for numbers, port in zip(member_numbers, watched_ports, strict=True)
        for number in numbers
    ]

    def write_members(pipeline: ControlPlane) -> None:
        for numbers, call in zip(member_numbers, calls, strict=True):
            pipeline.profiles.write_member(store.name, numbers[0], call)

    batch.add(write_members)
    order = [member for _, member in sorted(numbered_members, key=itemgetter(0))]
    store.put_group_order(group, order, batch)
    return UseGroup(group)


def _decode_members(
    store: ProfileStore, message: p4r.ActionProfileActionSet
) -> tuple[list[ActionCall], list[int], list[int | None]]:
    """Return actions, weights and watched ports; raises Refusal if the profile does not accept them."""
    location = f"action profile {store.name}"
    if not store.profile.has_selector:
        raise invalid(f"{location} has no selector: an entry needs a member")
    if store.members or store.groups:
        raise invalid(f"{location} has members or groups, so no one-shot entries")
    if message.action_selection_mode == message.RANDOM:
        raise invalid(f"{location}: expected HASH as selection mode, got RANDOM")
    counts_members = store.profile.counts_members
    if message.size_semantics:
        counts_members = message.size_semantics == message.SUM_OF_MEMBERS
    profile_actions = message.action_profile_actions
    calls = [
        decode_call(store.profile.actions, profile_action.action, location)
        for profile_action in profile_actions
    ]
    if (action := group_action(message)) is not None:
        group_call = decode_call(store.profile.group_actions, action, f"{location}, group_action")
        calls = [compose_calls(group_call, call) for call in calls]
    weights = [
        store.check_weight(profile_action.weight, has_limit=counts_members)
        for profile_action in profile_actions
    ]
    watched_ports = [
        watched_port(profile_action, location, store.port_translation) for profile_action in profile_actions
    ]
    size, limit = len(weights) if counts_members else sum(weights), store.profile.max_group_size
    if 0 < limit < size:
        raise invalid(f"{location}: a group of size {size} is larger than max_group_size, {limit}")
    store.check_group_size(weights, limit=0)
    if store.one_shot_sizes.total + len(calls) > store.size:
        raise store.full_error("member")
    if len(store.one_shots) >= store.size:
        raise store.full_error("group")
    return calls, weights, watched_ports


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
