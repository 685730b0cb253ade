"""Commands on action profiles, and BMv2's deprecated commands, which name the profile by its table."""

from __future__ import annotations

from softswitch.commands.base import CommandGroup, exact_words, min_words, without_arrow
from softswitch.commands.dump import group_lines, member_lines, profile_lines
from softswitch.commands.names import CommandError, NamedProfile
from softswitch.commands.values import parse_int


class ProfileCommands(CommandGroup):
    # -- members

    def do_act_prof_create_member(self, line: str) -> None:
        """Add a member to an action profile: act_prof_create_member <action profile name> <action_name>
        [action parameters]
        """
        words = min_words(line, 2)
        profile = self.program.profiles[words[0]]
        action = self.program.action_of(profile.actions, words[1], f"Action profile {words[0]}")
        data = self.data_of(action, without_arrow(words[2:]))
        handle = self.switch.member_create(profile.name, action.name, data)
        self.say(f"Member has been created with handle {handle}")

    def do_act_prof_modify_member(self, line: str) -> None:
        """Modify member in an action profile: act_prof_modify_member <action profile name> <action_name>
        <member_handle> [action parameters]
        """
        words = min_words(line, 3)
        profile = self.program.profiles[words[0]]
        action = self.program.action_of(profile.actions, words[1], f"Action profile {words[0]}")
        member = parse_int(words[2], "member handle")
        data = self.data_of(action, without_arrow(words[3:]))
        self.switch.member_modify(profile.name, member, action.name, data)

    def do_act_prof_delete_member(self, line: str) -> None:
        """Delete a member in an action profile: act_prof_delete_member <action profile name> <member
        handle>
        """
        name, member = exact_words(line, 2)
        self.switch.member_delete(self.program.profiles[name].name, parse_int(member, "member handle"))

    def do_act_prof_dump_member(self, line: str) -> None:
        """Display some information about a member: act_prof_dump_member <action profile name> <member
        handle>
        """
        name, text = exact_words(line, 2)
        handle = parse_int(text, "member handle")
        for member in self.switch.members(self.program.profiles[name].name):
            if member["handle"] == handle:
                self.say_all(member_lines(member))
                return
        raise CommandError("Invalid table operation (INVALID_MBR_HANDLE)", text)

    # -- groups

    def do_act_prof_create_group(self, line: str) -> None:
        """Add a group to an action profile: act_prof_create_group <action profile name>"""
        (name,) = exact_words(line, 1)
        handle = self.switch.group_create(self._profile_with_selector(name).name)
        self.say(f"Group has been created with handle {handle}")

    def do_act_prof_delete_group(self, line: str) -> None:
        """Delete a group from an action profile: act_prof_delete_group <action profile name> <group
        handle>
        """
        name, group = exact_words(line, 2)
        self.switch.group_delete(self._profile_with_selector(name).name, parse_int(group, "group handle"))

    def do_act_prof_add_member_to_group(self, line: str) -> None:
        """Add member to group in an action profile: act_prof_add_member_to_group <action profile name>
        <member handle> <group handle>
        """
        name, member, group = exact_words(line, 3)
        handles = parse_int(group, "group handle"), parse_int(member, "member handle")
        self.switch.group_add(self._profile_with_selector(name).name, *handles)

    def do_act_prof_remove_member_from_group(self, line: str) -> None:
        """Remove member from group in action profile: act_prof_remove_member_from_group <action profile
        name> <member handle> <group handle>
        """
        name, member, group = exact_words(line, 3)
        handles = parse_int(group, "group handle"), parse_int(member, "member handle")
        self.switch.group_remove(self._profile_with_selector(name).name, *handles)

    def do_act_prof_dump_group(self, line: str) -> None:
        """Display some information about a group: act_prof_dump_group <action profile name> <group handle>"""
        name, text = exact_words(line, 2)
        handle = parse_int(text, "group handle")
        for group in self.switch.groups(self.program.profiles[name].name):
            if group["handle"] == handle:
                self.say_all(group_lines(group))
                return
        raise CommandError("Invalid table operation (INVALID_GRP_HANDLE)", text)

    def do_act_prof_dump(self, line: str) -> None:
        """Display entries in an action profile: act_prof_dump <action profile name>"""
        (name,) = exact_words(line, 1)
        self.say_all(profile_lines(self.program.profiles[name], self.switch))

    # -- by table

    def do_table_indirect_create_member(self, line: str) -> None:
        """Add a member to an indirect match table: table_indirect_create_member <table name> <action_name>
        [action parameters]

        Use 'act_prof_create_member' instead
        """
        self.do_act_prof_create_member(self._replace_table_by_profile(line))

    def do_table_indirect_delete_member(self, line: str) -> None:
        """Delete a member in an indirect match table: table_indirect_delete_member <table name> <member
        handle>

        Use 'act_prof_delete_member' instead
        """
        self.do_act_prof_delete_member(self._replace_table_by_profile(line))

    def do_table_indirect_modify_member(self, line: str) -> None:
        """Modify member in an indirect match table: table_indirect_modify_member <table name> <action_name>
        <member_handle> [action parameters]

        Use 'act_prof_modify_member' instead
        """
        self.do_act_prof_modify_member(self._replace_table_by_profile(line))

    def do_table_indirect_create_group(self, line: str) -> None:
        """Add a group to an indirect match table: table_indirect_create_group <table name>

        Use 'act_prof_create_group' instead
        """
        self.do_act_prof_create_group(self._replace_table_by_profile(line))

    def do_table_indirect_delete_group(self, line: str) -> None:
        """Delete a group: table_indirect_delete_group <table name> <group handle>

        Use 'act_prof_delete_group' instead
        """
        self.do_act_prof_delete_group(self._replace_table_by_profile(line))

    def do_table_indirect_add_member_to_group(self, line: str) -> None:
        """Add member to group: table_indirect_add_member_to_group <table name> <member handle> <group
        handle>

        Use 'act_prof_add_member_to_group' instead
        """
        self.do_act_prof_add_member_to_group(self._replace_table_by_profile(line))

    def do_table_indirect_remove_member_from_group(self, line: str) -> None:
        """Remove member from group: table_indirect_remove_member_from_group <table name> <member handle>
        <group handle>

        Use 'act_prof_remove_member_from_group' instead
        """
        self.do_act_prof_remove_member_from_group(self._replace_table_by_profile(line))

    def do_table_dump_member(self, line: str) -> None:
        """Display some information about a member: table_dump_member <table name> <member handle>"""
        self.do_act_prof_dump_member(self._replace_table_by_profile(line))

    def do_table_dump_group(self, line: str) -> None:
        """Display some information about a group: table_dump_group <table name> <group handle>"""
        self.do_act_prof_dump_group(self._replace_table_by_profile(line))

    def _replace_table_by_profile(self, line: str) -> str:
        words = min_words(line, 1)
        profile = self.program.tables[words[0]].profile
        if profile is None:
            raise CommandError("Error: Cannot run this command on non-indirect table", words[0])
        return " ".join([profile.name, *words[1:]])

    def _profile_with_selector(self, name: str) -> NamedProfile:
        profile = self.program.profiles[name]
        if not profile.has_selector:
            text = "Error: Cannot run this command on an action profile without selector"
            raise CommandError(text, name)
        return profile
