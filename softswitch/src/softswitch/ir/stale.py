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
    """The set of fields that may be stale; `written` are fields that the switch writes outside statements."""

    def __init__(
        self,
        headers: tuple[Header, ...],
        stacks: tuple[Stack, ...],
        unions: tuple[tuple[int, ...], ...],
        statements: Iterable[object],
        written: Iterable[FieldRef],
    ) -> None:
        self._stacks = stacks
        self._metadata = {index for index, header in enumerate(headers) if header.metadata}
        self._invalidated = {member for union in unions for member in union}
        self._assigned = {(ref.header, ref.field) for ref in written}
        for statement in statements:
            self._add(statement)
        for stack in stacks:  # push and pop move the elements
            fields = {field for header, field in self._assigned if header in stack.headers}
            self._assigned |= {(header, field) for header in stack.headers for field in fields}

    def __contains__(self, ref: FieldRef) -> bool:
        if ref.header in self._metadata:
            return False
        return ref.header in self._invalidated or (ref.header, ref.field) in self._assigned

    def _add(self, statement: object) -> None:
        match statement:
            case SetInvalid(header) | AssignHeader(header, _):
                self._invalidated.update(self._possible_headers(header))
            case Shift(stacks):
                self._invalidated.update(h for stack in stacks for h in self._stacks[stack].headers)
            case _:
                self._assigned.update(self._targets(getattr(statement, "target", None)))

    def _targets(self, target: object) -> Iterator[tuple[int, int]]:
        match target:
            case FieldRef(header, field):
                yield header, field
            case ElementField(element, field):
                yield from ((header, field) for header in self._possible_headers(element))

    def _possible_headers(self, header: HeaderRef) -> tuple[int, ...]:
        """Return the headers to which a reference may resolve: all of a stack for a computed position."""
        return self._stacks[header.stack].headers if isinstance(header, Element) else (header,)
