"""Commands on action profiles, and on tables whose entries name members or groups."""

from __future__ import annotations

from finsy.proto import p4r

from switch_harness.p4runtime import ENTITIES, read
from switch_harness.switch_runtime import ShellSwitch, shells
from switch_harness.wording import says

switch = shells(ENTITIES, False, True)


def ports_of(switch: ShellSwitch, address: int) -> list[int]:
    """Return the port that a frame to an address leaves by, without clones."""
    return switch.ports_of(address.to_bytes(6, "big") + bytes(54))


def test_entries_execute_the_action_of_their_member(switch: ShellSwitch) -> None:
    assert switch.does("act_prof_create_member nexthops forward_to 2") == [
        "Member has been created with handle 0"
    ]
    assert switch.does("table_indirect_add routed 00:00:00:00:00:01 => 0") == [
        "Adding entry to indirect match table Entities.routed",
        "Entry has been added with handle 0",
    ]
    assert ports_of(switch, 1) == [2]
    switch.does("act_prof_modify_member nexthops forward_to 0 3")
    assert ports_of(switch, 1) == [3]
    assert switch.does("act_prof_dump_member nexthops 0") == [
        "Dumping member 0",
        "Action entry: Entities.forward_to - 03",
    ]
    assert says(switch.refuses("act_prof_delete_member nexthops 0"), "MBR_STILL_USED", "operation")
    switch.does("table_indirect_delete routed 0", "act_prof_delete_member nexthops 0")
    assert switch.does("act_prof_dump nexthops") == ["=" * 10, "MEMBERS"]
    assert says(switch.refuses("act_prof_delete_member nexthops 0"), "INVALID_MBR_HANDLE", "operation")


def test_groups_of_members_are_created_used_and_deleted_by_commands(switch: ShellSwitch) -> None:
    for line in (
        "act_prof_create_group paths",
        "act_prof_create_member paths forward_to 5",
        "act_prof_create_member paths forward_to 6",
        "act_prof_add_member_to_group paths 1 0",
        "table_indirect_add_with_group balanced 00:00:00:00:00:00/8 => 0",
    ):
        switch.does(line)
    assert ports_of(switch, 1) == [6]
    switch.does("act_prof_add_member_to_group paths 0 0", "act_prof_remove_member_from_group paths 1 0")
    assert ports_of(switch, 1) == [5]
    assert switch.does("table_dump balanced")[4:] == [
        "Match key:",
        "* ethernet.dst_addr   : LPM       000000000000/8",
        "Index: group(0)",
        "==========",
        "MEMBERS",
        "**********",
        "Dumping member 0",
        "Action entry: Entities.forward_to - 05",
        "**********",
        "Dumping member 1",
        "Action entry: Entities.forward_to - 06",
        "==========",
        "GROUPS",
        "**********",
        "Dumping group 0",
        "Members: [0]",
        "==========",
        "Dumping default entry",
        "EMPTY",
        "==========",
    ]
    for line, code in (
        ("act_prof_add_member_to_group paths 0 0", "MBR_ALREADY_IN_GRP"),
        ("act_prof_remove_member_from_group paths 1 0", "MBR_NOT_IN_GRP"),
        ("act_prof_add_member_to_group paths 0 7", "INVALID_GRP_HANDLE"),
        ("act_prof_delete_group paths 0", "GRP_STILL_USED"),
    ):
        assert switch.refuses(line).startswith(f"Invalid table operation ({code}): ")
    switch.does("table_clear balanced", "act_prof_delete_group paths 0")
    assert switch.does("act_prof_create_group paths") == ["Group has been created with handle 0"]


def test_p4runtime_reads_members_and_groups_by_ids(switch: ShellSwitch) -> None:
    switch.does("act_prof_create_member paths drop", "act_prof_create_group paths")
    switch.does("act_prof_add_member_to_group paths 0 0")
    (member,) = read(switch.control, p4r.Entity(action_profile_member=p4r.ActionProfileMember()))
    (group,) = read(switch.control, p4r.Entity(action_profile_group=p4r.ActionProfileGroup()))
    assert member.action_profile_member.member_id == 1
    assert [each.member_id for each in group.action_profile_group.members] == [1]


def test_the_older_commands_name_a_table_instead_of_a_profile(switch: ShellSwitch) -> None:
    for line in (
        "table_indirect_create_group balanced",
        "table_indirect_create_member balanced forward_to 5",
        "table_indirect_create_member balanced forward_to 6",
        "table_indirect_add_member_to_group balanced 0 0",
        "table_indirect_modify_member balanced forward_to 0 7",
        "table_indirect_add_with_group balanced 0/0 => 0",
    ):
        switch.does(line)
    assert ports_of(switch, 1) == [7]
    assert switch.does("table_dump_group balanced 0") == ["Dumping group 0", "Members: [0]"]
    assert switch.does("table_dump_member balanced 0")[1] == "Action entry: Entities.forward_to - 07"
    switch.does(
        "table_indirect_remove_member_from_group balanced 0 0", "table_indirect_delete_member balanced 0"
    )
    switch.does("table_clear balanced", "table_indirect_delete_group balanced 0")
    assert switch.does("act_prof_dump paths")[-2:] == ["=" * 10, "GROUPS"]


def test_default_entries_of_indirect_tables_are_members_or_groups(switch: ShellSwitch) -> None:
    switch.does("act_prof_create_member nexthops forward_to 4", "table_indirect_set_default routed 0")
    assert ports_of(switch, 1) == [4]
    assert switch.does("table_dump routed")[-2] == "Index: member(0)"
    assert says(switch.refuses("act_prof_delete_member nexthops 0"), "MBR_STILL_USED", "operation")
    switch.does("table_indirect_reset_default routed")
    assert ports_of(switch, 1) == [0]
    switch.does("act_prof_delete_member nexthops 0")
    switch.does("act_prof_create_group paths", "act_prof_create_member paths forward_to 8")
    switch.does("act_prof_add_member_to_group paths 0 0", "table_indirect_set_default_with_group balanced 0")
    assert ports_of(switch, 1) == [8]


def test_commands_that_do_not_fit_a_profile_are_refused(switch: ShellSwitch) -> None:
    for line, error in (
        (
            "act_prof_create_group nexthops",
            "Error: Cannot run this command on an action profile without selector",
        ),
        ("act_prof_create_member nexthops learn", "Error: Action profile nexthops has no action learn"),
        ("act_prof_create_member nowhere drop", "Error: Invalid action profile name (nowhere)"),
        ("table_indirect_add routed 1 => ", "Error: Invalid arguments, could not find handle"),
    ):
        assert switch.refuses(line) == error
    assert says(switch.refuses("table_indirect_add routed 1 => 9"), "INVALID_MBR_HANDLE", "operation")
