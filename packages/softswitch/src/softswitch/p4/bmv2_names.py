"""Names by which BMv2's JSON refers to the parts of a program, and places in the source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from softswitch import ir
from softswitch.p4.diagnostics import SourceFiles
from softswitch.p4.storage import VariableStorage

Json = dict[str, Any]  # the type of a value depends on its key
VALIDITY_FIELD = "$valid$"  # BMv2's hidden field of each header


@dataclass(frozen=True, slots=True)
class StackName:
    """The name of a header stack, or of a stack of unions with a member of the union."""

    name: str
    member: str = ""
    member_index: int = 0

    @property
    def kind(self) -> str:
        return "header_union_stack" if self.member else "header_stack"


class JsonNames:
    """Refers to the parts of a program by the names that its JSON declares."""

    def __init__(self, program: ir.Program, storage: VariableStorage, sources: SourceFiles) -> None:
        self.program, self.storage = program, storage
        self._sources = sources
        self.stacks = self._name_stacks()
        self.stack_of_cursor = {
            stack.cursor: index for index, stack in reversed(list(enumerate(program.stacks)))
        }

    def header(self, index: int) -> str:
        return self.program.headers[index].name

    def field(self, ref: ir.FieldRef) -> list[str]:
        header = self.program.headers[ref.header]
        return [header.name, header.fields[ref.field].name]

    def element_field(self, ref: ir.ElementField) -> str:
        first = self.program.stacks[ref.element.stack].headers[0]
        return self.program.headers[first].fields[ref.field].name

    def source_info(self, location: str, text: str | None = None) -> Json:
        """Return the key `source_info` for a "file:line", or no key without one.

        Without a `text`, the line itself is quoted. The column counts from 0, as p4c's.
        """
        if not location:
            return {}
        file, _, number = location.rpartition(":")
        lines, line = self._sources.lines.get(file, []), int(number)
        source_line = lines[line - 1].rstrip() if 1 <= line <= len(lines) else ""
        if text is None:
            text = source_line.strip().rstrip(" {;")
        column = max(source_line.find(text), 0)
        info = {"filename": file, "line": line, "column": column, "source_fragment": text}
        return {"source_info": info}

    def _name_stacks(self) -> list[StackName]:
        names: list[StackName] = []
        members = {
            name: self.storage.union_members[positions[0]] for name, _, positions in self.storage.union_stacks
        }
        for stack in self.program.stacks:
            name, _, member = stack.name.rpartition(".")
            if name in members and member in members[name]:
                names.append(StackName(name, member, members[name].index(member)))
            else:
                names.append(StackName(stack.name))
        return names


def hexstr(value: int, width: int = 1) -> str:
    """Return a hexadecimal number with digits for whole bytes of a width in bits."""
    bits = max(width, abs(value).bit_length(), 1)
    digits = -(-bits // 8) * 2
    return f"{'-' if value < 0 else ''}0x{abs(value):0{digits}x}"


def hex_value(value: int, width: int = 1) -> Json:
    return {"type": "hexstr", "value": hexstr(value, width)}


def numbered(items: Iterable[Json]) -> list[Json]:
    """Return items with IDs, from 0 on, after their names."""
    return [{"name": item.pop("name"), "id": number, **item} for number, item in enumerate(items)]
