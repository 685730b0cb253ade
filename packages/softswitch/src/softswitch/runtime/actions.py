"""Convert actions of entries and members between the runtime service (names, handles) and P4Runtime (IDs)."""

from __future__ import annotations

from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.entities.profiles import ProfileStore
from softswitch.p4runtime.entities.store import TableStore
from softswitch.p4runtime.messages import p4r
from softswitch.pipeline import ActionCall, EntryAction, UseGroup, UseMember
from softswitch.runtime.base import PL
from softswitch.runtime.interface import TableAction
from softswitch.runtime.keys import parse_value
from softswitch.runtime.refusals import TABLE, RuntimeRefusal


def fill_action(
    control: ControlledPipeline[PL], store: TableStore, table_action: TableAction, entry: p4r.TableEntry
) -> None:
    if store.profile is not None:
        use = find_use(store.profile, table_action)
        if isinstance(use, UseMember):
            entry.action.action_profile_member_id = use.member
        else:
            entry.action.action_profile_group_id = use.group
        return
    if "action" not in table_action:
        raise RuntimeRefusal(TABLE, "WRONG_TABLE_TYPE", f"table {store.name} takes actions, not members")
    fill_call(control, table_action["action"], table_action.get("data", []), entry.action.action)


def fill_call(control: ControlledPipeline[PL], name: str, data: list[str], call: p4r.Action) -> None:
    action = control.p4info.actions.get(name)
    if action is None:
        raise RuntimeRefusal(TABLE, "INVALID_ACTION_NAME", f"the program has no action {name}")
    fields = action.params.fields
    if len(data) != len(fields):
        text = f"action {name} needs {len(fields)} parameters, not {len(data)}"
        raise RuntimeRefusal(TABLE, "BAD_ACTION_DATA", text)
    values = [
        parse_value(value_text, field.width, f"action {name}, parameter {field.name}")
        for value_text, field in zip(data, fields, strict=True)
    ]
    call.action_id = action.id
    for param_id, value in action.params.encode(values):
        call.params.add(param_id=param_id, value=value)


def find_use(profile: ProfileStore, table_action: TableAction) -> UseMember | UseGroup:
    """Return the member or group that an entry uses; raises RuntimeRefusal if it is given an action."""
    if "member" in table_action:
        return UseMember(find_member(profile, table_action["member"]))
    if "group" in table_action:
        return UseGroup(find_group(profile, table_action["group"]))
    text = f"the table takes members or groups of action profile {profile.name}, not actions"
    raise RuntimeRefusal(TABLE, "WRONG_TABLE_TYPE", text)


def describe_action(store: TableStore, action: EntryAction) -> TableAction:
    if isinstance(action, ActionCall):
        return TableAction(action=action.name, data=format_data(action))
    assert store.profile is not None
    numbers = store.profile.numbers
    if isinstance(action, UseMember):
        return TableAction(member=numbers.member_number(action.member))
    # A one-shot group of an entry has no handle: use its number.
    number = numbers.group_number(action.group)
    return TableAction(group=action.group if number is None else number)


def format_data(call: ActionCall) -> list[str]:
    return [f"{value:#x}" for value in call.args]


def find_member(profile: ProfileStore, handle: int) -> int:
    member = profile.numbers.find_member(handle)
    if member is not None:
        return member
    text = f"action profile {profile.name} has no member with handle {handle}"
    raise RuntimeRefusal(TABLE, "INVALID_MBR_HANDLE", text)


def find_group(profile: ProfileStore, handle: int) -> int:
    group = profile.numbers.find_group(handle)
    if group is not None:
        return group
    text = f"action profile {profile.name} has no group with handle {handle}"
    raise RuntimeRefusal(TABLE, "INVALID_GRP_HANDLE", text)
