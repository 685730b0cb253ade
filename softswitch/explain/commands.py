"""State from a file of BMv2's CLI commands: the few that fill tables, registers and groups.

`apply_commands` is all that others use.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from softswitch import ir
from softswitch.errors import SwitchError
from softswitch.load.tables import TOP_PRIORITY
from softswitch.pipeline import ActionCall, Change, ControlPlane, EntryWrite, Replica


def apply_commands(pipeline: ControlPlane, path: Path) -> None:
    """Do the commands of a file, in order; an error names the line, and those before it are done."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise SwitchError(f"{path}: {reason}") from None
    commands = _Commands(pipeline)
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            commands.do(words)
        except SwitchError as error:
            raise SwitchError(f"{path}:{number}: {error}") from None


class _Commands:
    """The commands that are known, each a method."""

    def __init__(self, pipeline: ControlPlane) -> None:
        self._pipeline = pipeline
        self._program = pipeline.program
        self._groups: dict[int, list[Replica]] = {}
        self._nodes: list[list[Replica]] = []
        self._known: dict[str, Callable[..., None]] = {
            "table_add": self._table_add,
            "table_set_default": self._table_set_default,
            "register_write": self._register_write,
            "mc_mgrp_create": self._mc_mgrp_create,
            "mc_node_create": self._mc_node_create,
            "mc_node_associate": self._mc_node_associate,
            "mirroring_add": self._mirroring_add,
        }

    def do(self, words: list[str]) -> None:
        """One command."""
        name, *arguments = words
        command = self._known.get(name)
        if command is None:
            raise SwitchError(f"{name!r} is not known here; there are {', '.join(self._known)}")
        try:
            command(*arguments)
        except TypeError:
            raise SwitchError(f"{name}: {len(arguments)} words are not what it takes") from None

    def _table_add(self, table: str, action: str, *rest: str) -> None:
        if "=>" not in rest:
            raise SwitchError(
                "table_add: TABLE ACTION KEY... => DATA... [PRIORITY] expected, `=>` is missing"
            )
        found = self._program.tables[_named(table, self._program.tables, "table")]
        at = rest.index("=>")
        keys, data = rest[:at], list(rest[at + 1 :])
        if len(keys) != len(found.key):
            raise SwitchError(f"table {found.name} has {len(found.key)} fields in its key, not {len(keys)}")
        matches = tuple(_match(text, part) for text, part in zip(keys, found.key, strict=True))
        priority = 0
        if found.has_priority:
            if not data:
                raise SwitchError(f"table {found.name}: the priority is missing, the last word")
            priority = TOP_PRIORITY - _number(data.pop(), 31, "priority")
        call = self._call(found, action, data)
        (error,) = self._pipeline.write_entries(
            [EntryWrite(Change.INSERT, found.name, matches, call, priority)]
        )
        if error is not None:
            raise error

    def _table_set_default(self, table: str, action: str, *data: str) -> None:
        found = self._program.tables[_named(table, self._program.tables, "table")]
        self._pipeline.set_default(found.name, self._call(found, action, data))

    def _register_write(self, register: str, index: str, value: str) -> None:
        by_name = {each.name: each for each in self._program.registers}
        found = by_name[_named(register, by_name, "register")]
        number = _number(value, found.width, "value")
        self._pipeline.write_register(found.name, _number(index, 32, "index"), number)

    def _mc_mgrp_create(self, group: str) -> None:
        self._groups[_number(group, 16, "group")] = []

    def _mc_node_create(self, instance: str, *ports: str) -> None:
        if "|" in ports:
            raise SwitchError("mc_node_create: link aggregation (behind `|`) is not supported")
        number = _number(instance, 16, "instance")
        self._nodes.append([Replica(_number(port, 9, "port"), number) for port in ports])

    def _mc_node_associate(self, group: str, node: str) -> None:
        number, handle = _number(group, 16, "group"), _number(node, 31, "node")
        if number not in self._groups or handle >= len(self._nodes):
            raise SwitchError(f"mc_node_associate: no group {number} or no node {handle} was created before")
        self._groups[number] += self._nodes[handle]
        self._pipeline.write_multicast_group(number, self._groups[number])

    def _mirroring_add(self, session: str, port: str) -> None:
        copies = [Replica(_number(port, 9, "port"))]
        self._pipeline.write_clone_session(_number(session, 15, "session"), copies)

    def _call(self, table: ir.Table, action: str, data: Iterable[str]) -> ActionCall:
        by_name = {self._program.actions[i].name: self._program.actions[i] for i in table.actions}
        found, words = by_name[_named(action, by_name, f"action of table {table.name}")], list(data)
        if len(words) != len(found.parameters):
            raise SwitchError(f"action {found.name} takes {len(found.parameters)} words, not {len(words)}")
        sized = zip(words, found.parameters, strict=True)
        return ActionCall(found.name, tuple(_number(word, width, "action data") for word, width in sized))


def _named(name: str, known: Iterable[str], what: str) -> str:
    """The whole name of what is called so, or ends so behind a dot."""
    names = list(known)
    found = [name] if name in names else [each for each in names if each.endswith(f".{name}")]
    if len(found) != 1:
        raise SwitchError(f"no {what} {name!r}" if not found else f"{what} {name!r}: {' or '.join(found)}?")
    return found[0]


def _number(text: str, width: int, what: str) -> int:
    """A number, or an address of IPv4, IPv6 or Ethernet, that fits."""
    try:
        if re.fullmatch(r"([0-9a-fA-F]{1,2}:){5}[0-9a-fA-F]{1,2}", text):
            value = int.from_bytes(bytes(int(part, 16) for part in text.split(":")), "big")
        elif "." in text or ":" in text:
            value = int(ipaddress.ip_address(text))
        else:
            value = int(text, 0)
    except ValueError:
        raise SwitchError(f"{what} {text!r}: a number or an address expected") from None
    if not 0 <= value < 1 << width:
        raise SwitchError(f"{what} {text}: 0 to {(1 << width) - 1} expected (bit<{width}>)")
    return value


def _match(text: str, part: ir.KeyField) -> ir.Match:
    what, full = f"key field {part.name}", (1 << part.width) - 1
    match part.kind:
        case ir.MatchKind.EXACT:
            words = {"true": "1", "false": "0"}
            return _number(words.get(text.lower(), text), part.width, what)
        case ir.MatchKind.LPM:
            value, length = _two(text, "/", part)
            if length > part.width:
                raise SwitchError(f"{what} {text}: a prefix of 0 to {part.width} bits expected")
            mask = full & ~(full >> length)
            return ir.Masked(value & mask, mask)
        case ir.MatchKind.RANGE:
            return ir.Between(*_two(text, "->", part))
        case ir.MatchKind.OPTIONAL if "&&&" not in text:
            return ir.Masked(_number(text, part.width, what), full)
    value, mask = _two(text, "&&&", part)
    return ir.Masked(value & mask, mask)


def _two(text: str, between: str, part: ir.KeyField) -> tuple[int, int]:
    what = f"{part.kind.value} key field {part.name}"
    first, found, second = text.partition(between)
    if not found:
        raise SwitchError(
            f"{what} {text!r}: VALUE{between}{'LENGTH' if between == '/' else 'VALUE'} expected"
        )
    return _number(first, part.width, what), _number(second, part.width, what)
