"""Action profiles: limits, weights, one-shots, and the members that the pipeline picks from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from finsy.proto import p4i, p4r

from softswitch.limits import GROUP_MEMBERS_PER_MEMBER
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import adopt
from softswitch.pipeline import ActionCall
from switch_harness.entity_model import OneShot, entity, named
from switch_harness.model_pipeline import ModelPipeline, Profile
from switch_harness.p4runtime import (
    DELETE,
    ENTITIES,
    INSERT,
    MODIFY,
    Clock,
    Control,
    config,
    controlled,
    controlled_by,
    write,
)

PATHS = "action profile Entities.paths"


@pytest.fixture
def control() -> Control:
    return controlled(ENTITIES, ModelPipeline)


def changed(change: Callable[[p4i.ActionProfile], object]) -> Control:
    other = config(program=ENTITIES)
    change(next(profile for profile in other.p4info.action_profiles if profile.with_selector))
    return controlled_by(other, ModelPipeline)


def update(kind: Any, *key: Any, value: Any = None) -> p4r.Update:
    return p4r.Update(type=kind, entity=entity(key, value))


def done(control: Control, *updates: p4r.Update) -> None:
    assert not any(write(control, *updates))


def refused(control: Control, change: p4r.Update) -> tuple[str, str]:
    (result,) = write(control, change)
    assert result is not None
    return result.code.name, str(result)


def members(*numbers: int) -> list[p4r.Update]:
    return [update(INSERT, "member paths", number, value=number) for number in numbers]


def group(number: int, weights: dict[int, int], max_size: int = 20, kind: Any = INSERT) -> p4r.Update:
    answer = update(kind, "group", number, value=tuple(weights.items()))
    answer.entity.action_profile_group.max_size = max_size
    return answer


def paths(control: Control) -> Profile:
    profile: Profile = control.pipeline.profile_states["Entities.paths"]
    return profile


def test_groups_list_their_members_in_the_order_of_their_numbers(control: Control) -> None:
    done(control, *members(9, 3), group(1, {3: 1, 9: 2}))
    assert paths(control).groups[1] == [9, 3, 9]
    done(control, group(1, {3: 2}, kind=MODIFY))
    assert paths(control).groups[1] == [3, 3]


def test_a_one_shot_is_a_group_of_new_members(control: Control) -> None:
    done(control, update(INSERT, "balanced", 5, 48, value=OneShot(((7, 2), (8, 1)))))
    ports = [paths(control).members[member].args for member in paths(control).groups[0]]
    assert ports == [(7,), (7,), (8,)]
    assert len(paths(control).members) == 2
    done(control, update(MODIFY, "balanced", 5, 48, value=OneShot(((9, 1),))))
    assert [*paths(control).members.values()] == [ActionCall("Entities.forward_to", (9,))]
    done(control, update(MODIFY, "balanced", 5, 48, value=OneShot(())))
    assert (paths(control).members, list(paths(control).groups.values())) == ({}, [[]])
    done(control, update(DELETE, "balanced", 5, 48, value=OneShot(())))
    assert paths(control) == Profile()


def test_one_shots_and_members_do_not_mix(control: Control) -> None:
    one_shot = update(INSERT, "balanced", 5, 48, value=OneShot(((7, 1),)))
    done(control, *members(1))
    text = f"{PATHS} has members or groups, so no one-shot entries"
    assert refused(control, one_shot) == ("INVALID_ARGUMENT", text)
    done(control, update(DELETE, "member paths", 1, value=1), one_shot)
    text = f"{PATHS} has one-shot entries, so neither members nor groups"
    assert refused(control, members(1)[0]) == ("INVALID_ARGUMENT", text)


def test_members_and_groups_in_use_cannot_be_deleted(control: Control) -> None:
    done(control, *members(1, 2), group(1, {1: 1}), update(INSERT, "balanced", 5, 48, value=("group", 1)))
    done(control, update(INSERT, "balanced", 0, 0, value=("member", 2)))
    for number in (1, 2):
        text = f"{PATHS}: member {number} is used by 1 entry or group"
        gone = update(DELETE, "member paths", number, value=1)
        assert refused(control, gone) == ("FAILED_PRECONDITION", text)
    text = f"{PATHS}: group 1 is used by 1 entry"
    assert refused(control, group(1, {}, kind=DELETE)) == ("FAILED_PRECONDITION", text)
    done(control, update(MODIFY, "balanced", 5, 48, value=("member", 2)), group(1, {}, kind=DELETE))
    done(control, update(DELETE, "member paths", 1, value=1))


@pytest.mark.parametrize(
    ("weights", "max_size", "code", "message"),
    [
        ({1: 3}, 2, "RESOURCE_EXHAUSTED", f"{PATHS}: a group of size 3 is larger than 2"),
        ({1: 5}, 0, "RESOURCE_EXHAUSTED", f"{PATHS}: a group of size 5 is larger than 4"),
        ({}, 5, "INVALID_ARGUMENT", f"{PATHS}: expected 0 to 4 as max_size of group 1, got 5"),
        ({1: 0}, 1, "INVALID_ARGUMENT", f"{PATHS}: weight 0 is not positive"),
        ({7: 1}, 1, "NOT_FOUND", f"{PATHS}: member 7 is not there"),
    ],
)
def test_invalid_groups_are_refused_with_their_code(
    weights: dict[int, int], max_size: int, code: str, message: str
) -> None:
    control = changed(lambda profile: setattr(profile, "max_group_size", 4))
    done(control, *members(1))
    assert refused(control, group(1, weights, max_size)) == (code, message)


def test_a_one_shot_larger_than_the_maximum_group_size_is_refused() -> None:
    control = changed(lambda profile: setattr(profile, "max_group_size", 4))
    one_shot = update(INSERT, "balanced", 5, 48, value=OneShot(((7, 5),)))
    text = f"{PATHS}: a group of size 5 is larger than max_group_size, 4"
    assert refused(control, one_shot) == ("INVALID_ARGUMENT", text)


def test_with_sum_of_members_weights_do_not_count() -> None:
    def change(profile: p4i.ActionProfile) -> None:
        profile.max_group_size = 2
        profile.sum_of_members.max_member_weight = 50

    control = changed(change)
    done(control, *members(1, 2, 3), group(1, {1: 50, 2: 50}, 2))
    text = f"{PATHS}: a group of size 3 is larger than 2"
    assert refused(control, group(2, {1: 1, 2: 1, 3: 1}, 2)) == ("RESOURCE_EXHAUSTED", text)
    text = f"{PATHS}: weight 51 is above the largest, 50"
    assert refused(control, group(2, {1: 51}, 2)) == ("INVALID_ARGUMENT", text)


def test_a_one_shot_may_have_other_size_semantics_than_its_selector() -> None:
    actions = p4r.ActionProfileActionSet

    def outcome(control: Control, semantics: Any, weights: list[int], mode: Any = actions.HASH) -> str | None:
        one_shot = update(INSERT, "balanced", 5, 48, value=OneShot(tuple((7, weight) for weight in weights)))
        shot = one_shot.entity.table_entry.action.action_profile_action_set
        shot.size_semantics, shot.action_selection_mode = semantics, mode
        (result,) = write(control, one_shot)
        return result.code.name if result is not None else None

    def by_members(profile: p4i.ActionProfile) -> None:
        profile.max_group_size = 2
        profile.sum_of_members.max_member_weight = 5

    def by_weights(profile: p4i.ActionProfile) -> None:
        profile.max_group_size = 4

    default = actions.DEFAULT_SIZE_DETERMINED_BY_ACTION_SELECTOR
    for change, semantics, fits, too_large in (
        (by_members, default, [5, 5], [1, 1, 1]),
        (by_members, actions.SUM_OF_MEMBERS, [5, 5], [6]),
        (by_members, actions.SUM_OF_WEIGHTS, [1, 1], [3]),
        (by_weights, default, [2, 2], [5]),
        (by_weights, actions.SUM_OF_WEIGHTS, [4], [1] * 5),
        (by_weights, actions.SUM_OF_MEMBERS, [9, 9, 9, 9], [1] * 5),
    ):
        assert outcome(changed(change), semantics, too_large) == "INVALID_ARGUMENT"
        assert outcome(changed(change), semantics, fits) is None
    assert outcome(changed(by_weights), default, [1], actions.RANDOM) == "INVALID_ARGUMENT"


def test_weights_are_refused_if_the_profile_disallows_weights() -> None:
    control = changed(lambda profile: setattr(profile, "weights_disallowed", True))
    done(control, *members(1, 2), group(1, {2: 0, 1: 0}))
    assert paths(control).groups[1] == [1, 2]
    text = f"{PATHS}: weight 1 is given, weights are disallowed"
    assert refused(control, group(2, {1: 1})) == ("INVALID_ARGUMENT", text)


def test_a_profile_refuses_members_groups_and_weights_beyond_its_sizes(control: Control) -> None:
    done(control, *members(*range(1, 9)))
    text = f"{PATHS} is full with 8 members"
    assert refused(control, members(9)[0]) == ("RESOURCE_EXHAUSTED", text)
    done(control, *(group(number, {1: 60}, 0) for number in range(1, 9)))
    text = f"{PATHS} is full with 8 groups"
    assert refused(control, group(9, {1: 1}, 0)) == ("RESOURCE_EXHAUSTED", text)
    room = GROUP_MEMBERS_PER_MEMBER * 8
    done(control, group(1, {1: room - 7 * 60}, 0, MODIFY))
    text = f"{PATHS}: its groups have room for {room} members together, not {room + 1}"
    larger = group(1, {1: room - 7 * 60 + 1}, 0, MODIFY)
    assert refused(control, larger) == ("RESOURCE_EXHAUSTED", text)
    assert refused(control, group(1, {1: 1}, 9, MODIFY)) == (
        "INVALID_ARGUMENT",
        f"{PATHS}, group 1: max_size cannot be changed from 0 to 9",
    )


def test_many_one_shots_fill_a_profile(control: Control) -> None:
    prefixes = [(value, 48) for value in range(9)]
    done(control, *(update(INSERT, "balanced", *prefix, value=OneShot(())) for prefix in prefixes[:8]))
    text = f"{PATHS} is full with 8 groups"
    ninth = update(INSERT, "balanced", *prefixes[8], value=OneShot(()))
    assert refused(control, ninth) == ("RESOURCE_EXHAUSTED", text)
    nine = update(MODIFY, "balanced", *prefixes[0], value=OneShot(((1, 1),) * 9))
    assert refused(control, nine)[1] == f"{PATHS} is full with 8 members"


def test_a_watched_port_is_accepted_if_the_port_number_exists(control: Control) -> None:
    watching = group(1, {1: 1})
    (member,) = watching.entity.action_profile_group.members
    member.watch_port = b"\x02\x00"
    done(control, *members(1))
    text = f"{PATHS}, group 1: watched port 512 does not exist, ports go from 0 to 510"
    assert refused(control, watching) == ("INVALID_ARGUMENT", text)
    member.watch_port = b"\x05"
    done(control, watching)


def test_the_default_entry_of_an_indirect_table_is_constant(control: Control) -> None:
    change = p4r.Update(type=MODIFY)
    change.entity.table_entry.table_id, change.entity.table_entry.is_default_action = named("routed"), True
    text = "table Entities.routed has a constant default action"
    assert refused(control, change) == ("PERMISSION_DENIED", text)


def watching(update: p4r.Update, **ports: int) -> p4r.Update:
    """Let members watch ports; `ports` are by "m" and the ID of the member, or its position in a one-shot."""
    message = update.entity
    if message.HasField("action_profile_group"):
        by_id = {f"m{member.member_id}": member for member in message.action_profile_group.members}
    else:
        actions = message.table_entry.action.action_profile_action_set.action_profile_actions
        by_id = {f"m{i}": each for i, each in enumerate(actions)}  # type: ignore[misc]  # both have watch_port
    for name, port in ports.items():
        by_id[name].watch_port = bytes([port])
    return update


@pytest.mark.parametrize("is_one_shot", [False, True])
def test_members_that_watch_a_port_leave_the_group_while_the_port_is_down(is_one_shot: bool) -> None:
    down = {6}
    control: Control = ControlledPipeline(adopt(config(program=ENTITIES)), ModelPipeline, Clock(), down)
    if is_one_shot:
        made = watching(
            update(INSERT, "balanced", 5, 48, value=OneShot(((7, 1), (8, 2), (9, 1)))), m1=5, m2=6
        )
        done(control, made)
        number, first, second, third = 0, 0, 1, 3
    else:
        done(control, *members(1, 2, 3), watching(group(1, {1: 1, 2: 2, 3: 1}), m2=5, m3=6))
        number, first, second, third = 1, 1, 2, 3
    groups = paths(control).groups
    # A copy of a member has the member's number in the pipeline, and a number of its own in the order.
    everything = [first, second, second, third] if is_one_shot else [first, second, third, second]
    assert groups[number] == [each for each in everything if each != third]
    for port, is_up, missing in ((6, True, ()), (5, False, (second,)), (5, True, ()), (7, False, ())):
        (down.discard if is_up else down.add)(port)
        control.port_changed(port)
        assert groups[number] == [each for each in everything if each not in missing]


def test_a_member_may_have_an_action_that_only_the_default_may() -> None:
    """As in BMv2's server, which asks for an action of the profile's tables."""
    other = config(program=ENTITIES)
    (paths_info,) = [profile for profile in other.p4info.action_profiles if profile.with_selector]
    for table in other.p4info.tables:
        if table.implementation_id == paths_info.preamble.id:
            for ref in table.action_refs:
                ref.scope = p4i.ActionRef.DEFAULT_ONLY
    done(controlled_by(other, ModelPipeline), *members(1))
