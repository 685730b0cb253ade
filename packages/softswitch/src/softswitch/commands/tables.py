from __future__ import annotations

from softswitch.commands.base import ARROW, CommandGroup, exact_words, min_words, without_arrow
from softswitch.commands.dump import (
    LINE,
    STARS,
    data_line,
    entry_lines,
    key_line,
    profile_lines,
    table_action_line,
)
from softswitch.commands.names import CommandError, NamedTable
from softswitch.commands.values import parse_int, parse_match
from softswitch.messages import pluralize
from softswitch.runtime.interface import TableAction
from softswitch.runtime.keys import join_match

_RULE_WIDTH = 80


class TableCommands(CommandGroup):
    # -- declarations

    def do_show_tables(self, line: str) -> None:
        """List tables defined in the P4 program: show_tables"""
        exact_words(line, 0)
        self.say_all(table.describe() for _, table in sorted(self.program.tables.by_name.items()))

    def do_show_actions(self, line: str) -> None:
        """List actions defined in the P4 program: show_actions"""
        exact_words(line, 0)
        self.say_all(action.describe() for _, action in sorted(self.program.actions.by_name.items()))

    def do_table_show_actions(self, line: str) -> None:
        """List one table's actions as per the P4 program: table_show_actions <table_name>"""
        (name,) = exact_words(line, 1)
        table = self.program.tables[name]
        self.say_all(action.describe() for _, action in sorted(table.actions.items()))

    def do_table_info(self, line: str) -> None:
        """Show info about a table: table_info <table_name>"""
        (name,) = exact_words(line, 1)
        table = self.program.tables[name]
        self.say(table.describe())
        self.say("*" * _RULE_WIDTH)
        self.say_all(action.describe() for _, action in sorted(table.actions.items()))

    # -- entries

    def do_table_add(self, line: str) -> None:
        """Add entry to a match table: table_add <table name> <action name> <match fields> => <action
        parameters> [priority]
        """
        words = min_words(line, 3)
        table = self.program.tables[words[0]]
        action = self.program.action_of(table.actions, words[1], f"Table {words[0]}")
        priority = _pop_priority(table, words)
        key, data_words = _split_at_arrow(words[2:])
        matches = _parse_matches(table, key)
        data = self.data_of(action, data_words)
        self.say(f"Adding entry to {table.kind} match table {words[0]}")
        self.say(f"{'match key:':20} {key_line(table, matches)}")
        self.say(f"{'action:':20} {words[1]}")
        self.say(f"{'runtime data:':20} {data_line(action, data)}")
        handle = self.switch.table_add(
            table.name, _join_matches(table, matches), priority, TableAction(action=action.name, data=data)
        )
        self.say(f"Entry has been added with handle {handle}")

    def do_table_modify(self, line: str) -> None:
        """Change the action of an entry: table_modify <table name> <action name> <entry handle> [action
        parameters]
        """
        words = min_words(line, 3)
        table = self.program.tables[words[0]]
        action = self.program.action_of(table.actions, words[1], f"Table {words[0]}")
        handle = parse_int(words[2], "entry handle")
        data = self.data_of(action, without_arrow(words[3:]))
        self.say(f"Modifying entry {handle} for {table.kind} match table {words[0]}")
        self.switch.table_modify(table.name, handle, TableAction(action=action.name, data=data))

    def do_table_delete(self, line: str) -> None:
        """Delete entry from a match table: table_delete <table name> <entry handle>"""
        name, text = exact_words(line, 2)
        table, handle = self.program.tables[name], parse_int(text, "entry handle")
        self.say(f"Deleting entry {handle} from {name}")
        self.switch.table_delete(table.name, handle)

    def do_table_delete_match(self, line: str) -> None:
        """Delete entry from a match table: table_delete_match <table name> <match fields> [priority]"""
        words = min_words(line, 1)
        table = self.program.tables[words[0]]
        priority = _pop_priority(table, words)
        entry = self.switch.table_find(
            table.name, _join_matches(table, _parse_matches(table, words[1:])), priority
        )
        self.say(f"Deleting entry {entry['handle']} from {words[0]}")
        self.switch.table_delete(table.name, entry["handle"])

    def do_table_clear(self, line: str) -> None:
        """Clear all entries in a match table (direct or indirect), but not the default entry: table_clear
        <table name>
        """
        (name,) = exact_words(line, 1)
        self.switch.table_clear(self.program.tables[name].name)

    def do_table_num_entries(self, line: str) -> None:
        """Return the number of entries in a match table (direct or indirect):
        table_num_entries <table name>
        """
        (name,) = exact_words(line, 1)
        self.say(str(self.switch.table_size(self.program.tables[name].name)))

    def do_table_set_timeout(self, line: str) -> None:
        """Set a timeout in ms for a given entry; the table has to support timeouts: table_set_timeout
        <table_name> <entry handle> <timeout (ms)>
        """
        name, entry, text = exact_words(line, 3)
        table = self.program.tables[name]
        if not table.has_timeout:
            raise CommandError(f"Error: Table {name} does not support entry timeouts", name)
        handle, timeout = parse_int(entry, "entry handle"), parse_int(text, "timeout")
        self.say(f"Setting a {timeout} ms timeout for entry {handle}")
        self.switch.table_set_timeout(table.name, handle, timeout)

    # -- reading entries

    def do_table_dump(self, line: str) -> None:
        """Display entries in a match-table: table_dump <table name>"""
        (name,) = exact_words(line, 1)
        table = self.program.tables[name]
        self.say(LINE)
        self.say("TABLE ENTRIES")
        for entry in self.switch.table_entries(table.name):
            self.say(STARS)
            self.say_all(entry_lines(table, entry))
        if table.profile is not None:
            self.say_all(profile_lines(table.profile, self.switch))
        self.say(LINE)
        self.say("Dumping default entry")
        self.say(table_action_line(self.switch.table_default(table.name)))
        self.say(LINE)

    def do_table_dump_entry(self, line: str) -> None:
        """Display some information about a table entry: table_dump_entry <table name> <entry handle>"""
        name, text = exact_words(line, 2)
        table = self.program.tables[name]
        entry = self.switch.table_entry(table.name, parse_int(text, "entry handle"))
        self.say_all(entry_lines(table, entry))

    def do_table_dump_entry_from_key(self, line: str) -> None:
        """Display some information about a table entry: table_dump_entry_from_key <table name> <match
        fields> [priority]
        """
        words = min_words(line, 1)
        table = self.program.tables[words[0]]
        priority = _pop_priority(table, words)
        entry = self.switch.table_find(
            table.name, _join_matches(table, _parse_matches(table, words[1:])), priority
        )
        self.say_all(entry_lines(table, entry))

    # -- defaults

    def do_table_set_default(self, line: str) -> None:
        """Set default action for a match table: table_set_default <table name> <action name> <action
        parameters>
        """
        words = min_words(line, 2)
        table = self.program.tables[words[0]]
        action = self.program.action_of(table.actions, words[1], f"Table {words[0]}")
        data = self.data_of(action, without_arrow(words[2:]))
        self.say(f"Setting default action of {words[0]}")
        self.say(f"{'action:':20} {words[1]}")
        self.say(f"{'runtime data:':20} {data_line(action, data)}")
        self.switch.table_set_default(table.name, TableAction(action=action.name, data=data))

    def do_table_reset_default(self, line: str) -> None:
        """Reset default entry for a match table: table_reset_default <table name>"""
        (name,) = exact_words(line, 1)
        self.switch.table_set_default(self.program.tables[name].name, None)

    # -- indirect tables

    def do_table_indirect_add(self, line: str) -> None:
        """Add entry to an indirect match table: table_indirect_add <table name> <match fields> => <member
        handle> [priority]
        """
        self._indirect_add(line, is_group=False)

    def do_table_indirect_add_with_group(self, line: str) -> None:
        """Add entry to an indirect match table: table_indirect_add_with_group <table name> <match fields> =>
        <group handle> [priority]
        """
        self._indirect_add(line, is_group=True)

    def do_table_indirect_delete(self, line: str) -> None:
        """Delete entry from an indirect match table: table_indirect_delete <table name> <entry handle>"""
        self._indirect_table(exact_words(line, 2)[0])
        self.do_table_delete(line)

    def do_table_indirect_set_default(self, line: str) -> None:
        """Set default member for indirect match table: table_indirect_set_default <table name> <member
        handle>
        """
        name, text = exact_words(line, 2)
        table_action = TableAction(member=parse_int(text, "handle"))
        self.switch.table_set_default(self._indirect_table(name).name, table_action)

    def do_table_indirect_set_default_with_group(self, line: str) -> None:
        """Set default group for indirect match table: table_indirect_set_default_with_group <table name>
        <group handle>
        """
        name, text = exact_words(line, 2)
        table_action = TableAction(group=parse_int(text, "handle"))
        self.switch.table_set_default(self._indirect_table(name, needs_selector=True).name, table_action)

    def do_table_indirect_reset_default(self, line: str) -> None:
        """Reset default entry for indirect match table: table_indirect_reset_default <table name>"""
        (name,) = exact_words(line, 1)
        self.switch.table_set_default(self._indirect_table(name).name, None)

    def _indirect_add(self, line: str, is_group: bool) -> None:
        words = min_words(line, 2)
        table = self._indirect_table(words[0], needs_selector=is_group)
        priority = _pop_priority(table, words)
        key, handle_words = _split_at_arrow(words[1:])
        if len(handle_words) != 1:
            raise CommandError("Error: Invalid arguments, could not find handle")
        handle, matches = parse_int(handle_words[0], "handle"), _parse_matches(table, key)
        self.say(f"Adding entry to indirect match table {table.name}")
        table_action = TableAction(group=handle) if is_group else TableAction(member=handle)
        new_handle = self.switch.table_add(table.name, _join_matches(table, matches), priority, table_action)
        self.say(f"Entry has been added with handle {new_handle}")

    def _indirect_table(self, name: str, needs_selector: bool = False) -> NamedTable:
        table = self.program.tables[name]
        if table.profile is None:
            raise CommandError("Error: Cannot run this command on non-indirect table", name)
        if needs_selector and not table.profile.has_selector:
            text = (
                "Error: Cannot run this command on non-indirect table, or on indirect table with no selector"
            )
            raise CommandError(text, name)
        return table


def _pop_priority(table: NamedTable, words: list[str]) -> int:
    """Remove and return the priority, the last word if the table's entries have one; else return 0."""
    if not table.has_priority:
        return 0
    word = words.pop()
    try:
        return int(word, 0)
    except ValueError:
        text = "Error: Table is ternary, but could not extract a valid priority from args"
        raise CommandError(text, word) from None


def _split_at_arrow(words: list[str]) -> tuple[list[str], list[str]]:
    if ARROW not in words:
        return words, []
    arrow = words.index(ARROW)
    return words[:arrow], words[arrow + 1 :]


def _parse_matches(table: NamedTable, words: list[str]) -> list[tuple[int, ...]]:
    if len(words) != len(table.key):
        expected = pluralize(len(table.key), "key field")
        raise CommandError(f"Error: Table {table.name}: expected {expected}, got {len(words)}")
    return [parse_match(field, word) for field, word in zip(table.key, words, strict=True)]


def _join_matches(table: NamedTable, matches: list[tuple[int, ...]]) -> list[str]:
    return [join_match(field.kind, parts) for field, parts in zip(table.key, matches, strict=True)]
