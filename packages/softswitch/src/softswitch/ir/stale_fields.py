"""Find the fields that can be other than 0 while their header is invalid.

Headers start invalid, with all fields 0. A field keeps its value if its header becomes invalid, and a
statement may assign a field of an invalid header.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from softswitch.ir.expressions import Element, ElementField, FieldRef, HeaderRef
from softswitch.ir.headers import Header, Stack
from softswitch.ir.statements import AssignHeader, SetInvalid, Shift


class StaleFields:
    """The set of fields that may be stale; the switch writes `other_writes` outside statements."""

    def __init__(
        self,
        headers: tuple[Header, ...],
        stacks: tuple[Stack, ...],
        unions: tuple[tuple[int, ...], ...],
        statements: Iterable[object],
        other_writes: Iterable[FieldRef],
    ) -> None:
        self._stacks = stacks
        self._metadata_headers = {index for index, header in enumerate(headers) if header.metadata}
        self._invalidated_headers = {member for union in unions for member in union}
        self._assigned_fields = {(ref.header, ref.field) for ref in other_writes}
        for statement in statements:
            self._add_statement(statement)
        for stack in stacks:  # push and pop move the elements
            fields = {field for header, field in self._assigned_fields if header in stack.headers}
            self._assigned_fields |= {(header, field) for header in stack.headers for field in fields}

    def __contains__(self, ref: FieldRef) -> bool:
        if ref.header in self._metadata_headers:
            return False
        return ref.header in self._invalidated_headers or (ref.header, ref.field) in self._assigned_fields

    def _add_statement(self, statement: object) -> None:
        match statement:
            case SetInvalid(header) | AssignHeader(header, _):
                self._invalidated_headers.update(self._possible_headers(header))
            case Shift(stacks):
                self._invalidated_headers.update(h for stack in stacks for h in self._stacks[stack].headers)
            case _:
                self._assigned_fields.update(self._target_fields(getattr(statement, "target", None)))

    def _target_fields(self, target: object) -> Iterator[tuple[int, int]]:
        match target:
            case FieldRef(header, field):
                yield header, field
            case ElementField(element, field):
                yield from ((header, field) for header in self._possible_headers(element))

    def _possible_headers(self, header: HeaderRef) -> tuple[int, ...]:
        """Return the headers to which a reference may resolve: all of a stack for a computed position."""
        return self._stacks[header.stack].headers if isinstance(header, Element) else (header,)
