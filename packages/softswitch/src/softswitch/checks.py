"""Checks of control-plane operations, shared by all pipelines; they raise `StateError` or `TableFull`."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from softswitch import ir
from softswitch.errors import StateError, TableFull
from softswitch.limits import GROUP_MEMBERS_PER_MEMBER, MAX_REPLICAS
from softswitch.memory.words import HALF, WORD
from softswitch.messages import pluralize
from softswitch.pipeline import (
    ActionCall,
    CounterValue,
    EntryAction,
    MeterConfig,
    Replica,
    UseGroup,
    UseMember,
)
from softswitch.v1model import CLONE_SESSIONS, MULTICAST_GROUPS

# -- tables


def check_action(
    program: ir.Program, table: ir.Table, action: EntryAction
) -> ir.Invocation | UseMember | UseGroup:
    if isinstance(action, ActionCall) != (table.profile is None):
        kinds = ["an action", "a member or group"]
        expected, got = kinds if table.profile is None else reversed(kinds)
        raise StateError(f"entry of table {table.name}: expected {expected}, got {got}")
    if isinstance(action, ActionCall):
        return program.invocation(table, action.name, action.args)
    return action


def check_default(table: ir.Table, action: EntryAction | None) -> None:
    if table.default_is_const and action is not None:
        raise StateError(f"the default action of table {table.name} is constant")


def table_full(table: ir.Table) -> TableFull:
    return TableFull(f"table {table.name} is full: it holds its {pluralize(table.size, 'entry', 'entries')}")


# -- action profiles


def check_member(
    program: ir.Program, profile_index: int, number: int, action: ActionCall, members: Collection[int]
) -> ir.Invocation:
    profile, actions = program.profiles[profile_index], program.profile_actions[profile_index]
    if action.name not in actions:
        raise StateError(f"action profile {profile.name} has no action {action.name}")
    invocation = program.make_invocation(actions[action.name], action.args)
    _check_room(profile, "member", number, members)
    return invocation


def check_group(
    profile: ir.ActionProfile,
    number: int,
    group_members: Sequence[int],
    members: Collection[int],
    groups: Collection[int],
    members_of_other_groups: int,
) -> None:
    for member in group_members:
        check_use(profile, UseMember(member), members)
    _check_room(profile, "group", number, groups)
    limit = GROUP_MEMBERS_PER_MEMBER * profile.size
    if members_of_other_groups + len(group_members) > limit:
        raise TableFull(f"action profile {profile.name} is full: its groups hold {limit} members")


def check_use(profile: ir.ActionProfile, use: UseMember | UseGroup, existing: Collection[int]) -> None:
    (number,) = use
    if number not in existing:
        kind = "member" if isinstance(use, UseMember) else "group"
        raise StateError(f"action profile {profile.name} has no {kind} {number}")


def _check_room(profile: ir.ActionProfile, kind: str, number: int, existing: Collection[int]) -> None:
    if number not in existing and len(existing) >= profile.size:
        limit = f"it holds its {pluralize(profile.size, kind)}"
        raise TableFull(f"action profile {profile.name} has no room for {kind} {number}: {limit}")


# -- packet replication


def check_multicast_group(group: int) -> None:
    if not 0 < group < MULTICAST_GROUPS:
        raise StateError(f"multicast group: expected a number from 1 to {MULTICAST_GROUPS - 1}, got {group}")


def check_clone_session(session: int) -> None:
    if not 0 <= session < CLONE_SESSIONS:
        raise StateError(f"clone session: expected a number from 0 to {CLONE_SESSIONS - 1}, got {session}")


def check_each_replica(replicas: Sequence[Replica]) -> None:
    for replica in replicas:
        for part, value in zip(("port", "instance"), replica, strict=True):
            check_value(f"{part} of a replica", value, HALF)


def check_replicas(count: int) -> None:
    if count > MAX_REPLICAS:
        raise TableFull(f"groups and clone sessions are full: they hold {MAX_REPLICAS} replicas together")


# -- arrays and value sets


def check_index(name: str, index: int, size: int) -> None:
    if not 0 <= index < size:
        raise StateError(f"{name} has cells 0 to {size - 1}, not {index}")


def check_value(name: str, value: int, width: int) -> None:
    if not 0 <= value < 1 << width:
        raise StateError(f"{name}: expected a value of bit<{width}>, got {value}")


def check_counter(value: CounterValue) -> None:
    check_value("packets of a counter", value.packets, WORD)
    check_value("bytes of a counter", value.bytes, WORD)


def check_meter(config: MeterConfig) -> None:
    for rate in (config.committed_rate, config.peak_rate):
        if not 0 <= rate < math.inf:
            raise StateError(f"meter: expected a rate of at least 0, got {rate}")
    for burst in (config.committed_burst, config.peak_burst):
        check_value("burst of a meter", burst, WORD)


def check_value_set(declared: ir.ValueSet, members: Sequence[tuple[int, ...]]) -> None:
    for member in members:
        for value, width in zip(member, declared.widths, strict=True):
            check_value(f"value set {declared.name}", value, width)
    if len(members) > declared.size:
        limit = f"it holds {pluralize(declared.size, 'member')}, not {len(members)}"
        raise TableFull(f"value set {declared.name} is full: {limit}")
