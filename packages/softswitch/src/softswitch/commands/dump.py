"""Text of entries, members and groups in BMv2's format (BMv2: tools/runtime_CLI.py)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from softswitch.commands.names import NamedAction, NamedField, NamedProfile, NamedTable
from softswitch.commands.values import octets
from softswitch.runtime.interface import Group, Member, Runtime, RuntimeEntry, TableAction
from softswitch.runtime.keys import SEPARATORS

_MIN_NAME_WIDTH = 20
STARS, LINE = "**********", "=========="  # above each item, and around lists of items


def key_line(table: NamedTable, matches: Sequence[Sequence[int]]) -> str:
    """Return a key as `table_add` prints it: `LPM-0a:00:00:01/32`."""
    return "\t".join(
        f"{field.kind.upper()}-{_format_match(field, match, ':')}"
        for field, match in zip(table.key, matches, strict=True)
    )


def data_line(action: NamedAction, data: Sequence[str]) -> str:
    values = (octets(int(text, 16), p.width) for text, p in zip(data, action.parameters, strict=True))
    return "\t".join(value.hex(":") for value in values)


def entry_lines(table: NamedTable, entry: RuntimeEntry) -> Iterator[str]:
    width = max([_MIN_NAME_WIDTH, *(len(field.name) for field in table.key)])
    yield f"Dumping entry {entry['handle']:#x}"
    yield "Match key:"
    for field, match in zip(table.key, entry["match"], strict=True):
        parts = [int(part, 0) for part in match.split(SEPARATORS.get(field.kind))]
        yield f"* {field.name:{width}}: {field.kind.upper():10}{_format_match(field, parts, '')}"
    if entry["priority"] >= 0:
        yield f"Priority: {entry['priority']}"
    yield table_action_line(entry["doing"])
    life = entry["life"]
    if life is not None:
        yield f"Life: {life['idle']}ms since hit, timeout is {life['timeout']}ms"


def table_action_line(table_action: TableAction | None) -> str:
    if table_action is None:
        return "EMPTY"
    if "member" in table_action:
        return f"Index: member({table_action['member']})"
    if "group" in table_action:
        return f"Index: group({table_action['group']})"
    return _action_line(table_action["action"], table_action["data"])


def member_lines(member: Member) -> Iterator[str]:
    yield f"Dumping member {member['handle']}"
    yield _action_line(member["action"], member["data"])


def group_lines(group: Group) -> Iterator[str]:
    yield f"Dumping group {group['handle']}"
    yield f"Members: [{', '.join(map(str, group['members']))}]"


def profile_lines(profile: NamedProfile, switch: Runtime) -> Iterator[str]:
    yield LINE
    yield "MEMBERS"
    for member in switch.members(profile.name):
        yield STARS
        yield from member_lines(member)
    if profile.has_selector:
        yield LINE
        yield "GROUPS"
        for group in switch.groups(profile.name):
            yield STARS
            yield from group_lines(group)


def _action_line(name: str, data: Sequence[str]) -> str:
    """Return the line of an action, whose data BMv2 prints in as few bytes as hold them."""
    values = [int(text, 16) for text in data]
    texts = (octets(value, max(1, value.bit_length())).hex() for value in values)
    return f"Action entry: {name} - {', '.join(texts)}"


def _format_match(field: NamedField, parts: Sequence[int], separator: str) -> str:
    if field.kind == "lpm":
        value, prefix_length = parts
        return f"{_format_bytes(value, field.width, separator)}/{prefix_length}"
    texts = (_format_bytes(part, field.width, separator) for part in parts)
    return f" {SEPARATORS.get(field.kind, '')} ".join(texts)


def _format_bytes(value: int, width: int, separator: str) -> str:
    data = octets(value, width)
    return data.hex(separator) if separator else data.hex()
