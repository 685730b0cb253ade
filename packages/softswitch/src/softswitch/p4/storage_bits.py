"""Sets of storage, and what expressions and statements do to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass

from softswitch import ir
from softswitch.p4.operands import expression_parts

VALIDITY = -1
"""Position of a header's validity among its fields."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Sets of storage that a statement touches; `replaced` is what it writes in any case."""

    read: int
    written: int
    replaced: int = 0
    only_writes: bool = False
    """Whether the statement does nothing but write."""


class StorageBits:
    """Numbers the fields and the validity of all headers; a set of them is an integer with their bits."""

    def __init__(self, program: ir.Program) -> None:
        self._program = program
        self._start: list[int] = []
        count = 0
        for header in program.headers:
            self._start.append(count)
            count += 1 + len(header.fields)
        self.all = (1 << count) - 1
        self._known: dict[int, tuple[ir.Statement, Effects]] = {}
        """Effects by the identity of a statement, which is there as long as its number is."""

    def field(self, ref: ir.FieldRef) -> int:
        return 1 << self._start[ref.header] + 1 + ref.field

    def validity(self, header: int) -> int:
        return 1 << self._start[header]

    def header(self, header: int) -> int:
        """Return the validity and all fields of a header."""
        return ((2 << len(self._program.headers[header].fields)) - 1) << self._start[header]

    def stack(self, stack: int) -> int:
        return self._union(map(self.header, self._program.stacks[stack].headers))

    def stacks_of(self, cursor: int) -> int:
        found = (i for i, stack in enumerate(self._program.stacks) if stack.cursor == cursor)
        return self._union(map(self.stack, found))

    @staticmethod
    def _union(sets: Iterable[int]) -> int:
        found = 0
        for each in sets:
            found |= each
        return found

    # -- expressions

    def read(self, expression: ir.Expression) -> int:
        """Return what an expression reads."""
        return self._union(map(self._part, expression_parts(expression)))

    def _part(self, part: object) -> int:
        match part:
            case ir.FieldRef():
                return self.field(part)
            case ir.IsValid(header):
                return self.validity(header)
            case ir.ElementField():
                return self._element_field(part)
            case ir.LastIndex(stack):
                return self.stack(stack)
        return 0

    def _element_field(self, ref: ir.ElementField) -> int:
        headers = self._program.stacks[ref.element.stack].headers
        return self._union(self.field(ir.FieldRef(header, ref.field)) for header in headers)

    def mentioned(self, part: object) -> int:
        """Return the fields and validities that a part of a program mentions."""
        found, pending = 0, [part]
        while pending:
            each = pending.pop()
            match each:
                case tuple():
                    pending += each
                case ir.WholeHeader(header):
                    found |= self.header(header)
                case ir.AssignHeader() | ir.SetValid() | ir.SetInvalid() | ir.Shift() | ir.CopyCursor():
                    effects = self.effects(each)
                    found |= effects.read | effects.written
                case _ if is_dataclass(each):
                    found |= self._part(each)
                    pending += [getattr(each, field.name) for field in fields(each)]
        return found

    # -- statements

    def effects(self, statement: ir.Statement) -> Effects:
        known = self._known.get(id(statement))
        if known is None:
            known = self._known[id(statement)] = statement, self._effects_of(statement)
        return known[1]

    def _effects_of(self, statement: ir.Statement) -> Effects:
        match statement:
            case ir.Assign(ir.FieldRef() as target, value):
                return self._replacement(self.read(value), self.field(target))
            case ir.Assign(ir.ElementField() as target, value):
                read = self.read(value) | self.read(target.element.index)
                return Effects(read, self._element_field(target), only_writes=True)
            case ir.AssignVarbit(target, source):
                return self._replacement(self.field(source), self.field(target))
            case ir.AssignHeader(target, source):
                index, written = self._reference(target)
                read = index | self._union(self._reference(source))
                siblings = self._siblings(target) if isinstance(target, int) else 0
                return self._header_write(target, read, written, siblings)
            case ir.SetInvalid(reference):
                return self._header_write(reference, *self._reference(reference))
            case ir.SetValid(int() as header):  # zeroes the fields of an invalid header
                valid, siblings = self.validity(header), self._siblings(header)
                written = self.header(header) | siblings
                return Effects(valid, written, valid | siblings, only_writes=True)
            case ir.SetValid(reference):
                index, written = self._reference(reference)
                return Effects(index | written, written)
            case ir.RegisterRead(ir.FieldRef() as target, register, index):
                written, size = self.field(target), self._program.registers[register].size
                is_inside = isinstance(index, ir.Constant) and 0 <= index.value < size
                return Effects(self.read(index), written, written if is_inside else 0, only_writes=True)
            case ir.Shift(stacks):
                shifted = self._union(map(self.stack, stacks))
                return Effects(shifted, shifted)
            case ir.CopyCursor(target_cursor, source_cursor):
                return Effects(self.stacks_of(source_cursor), self.stacks_of(target_cursor))
            case ir.If(condition, then, otherwise):
                one, other = self.effects(then), self.effects(otherwise)
                read = self.read(condition) | one.read | other.read
                return Effects(read, one.written | other.written)
            case ir.MarkToDrop(egress_spec, group):
                written = self.field(egress_spec) | (self.field(group) if group else 0)
                return Effects(0, written, written)
        return self._extern(statement)

    def _replacement(self, read: int, replaced: int) -> Effects:
        return Effects(read, replaced, replaced, only_writes=True)

    def _header_write(self, target: ir.HeaderRef, read: int, written: int, others: int = 0) -> Effects:
        """Return the effects of a statement that replaces a header, and may invalidate others.

        The fields of an invalid header are undefined (specification, §8.17).
        """
        return Effects(read, written | others, written if isinstance(target, int) else 0, only_writes=True)

    def _siblings(self, header: int) -> int:
        """Return the other members of a header's union, which become invalid when it becomes valid."""
        return self._union(map(self.header, self._program.siblings.get(header, ())))

    def _reference(self, reference: ir.HeaderRef) -> tuple[int, int]:
        """Return what decides which header is meant, and the headers that may be."""
        if isinstance(reference, int):
            return 0, self.header(reference)
        headers = self._program.stacks[reference.stack].headers
        found = self.stack(reference.stack) | self._union(map(self._siblings, headers))
        return self.read(reference.index), found

    def _extern(self, statement: ir.Statement) -> Effects:
        read = written = 0
        for each in fields(statement):
            part = getattr(statement, each.name)
            if each.name != "target":
                read |= self.mentioned(part)
            elif isinstance(part, ir.ElementField):
                read, written = read | self.read(part.element.index), self._element_field(part)
            else:
                written = self.field(part)
        return Effects(read, written)
