"""Statements in their structure, between the tree and the graph of a control or the body of an action."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch import ir
from softswitch.p4.diagnostics import Position


@dataclass(frozen=True, slots=True)
class Label:
    """A place after a part of the flow, to which the part may leave; compared by identity."""

    name: str

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


EXIT = Label("exit")
"""The end of the control."""


@dataclass(frozen=True, slots=True)
class Step:
    """A statement, with its place in the source."""

    statement: ir.Statement | ir.Extract | ir.Advance | ir.Verify
    position: Position


@dataclass(slots=True)
class Branch:
    condition: ir.Expression
    position: Position
    text: str
    then: list[Item] = field(default_factory=list)
    otherwise: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class Apply:
    """The application of a table; `branches` has what follows each action, or "hit" and "miss"."""

    table: str
    position: Position
    branches: dict[str | int, list[Item]] = field(default_factory=dict)
    other: list[Item] | None = None
    """Items after actions that have no branch."""


@dataclass(slots=True)
class Part:
    """A part that may be left: a `Leave` of its label goes on after it."""

    label: Label
    items: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class Unit:
    """A direct call of an action, which becomes one action of the switch, with jumps within."""

    position: Position
    items: list[Item] = field(default_factory=list)


@dataclass(slots=True)
class Loop:
    """Items that are repeated, for ever unless they leave; only an action can have a loop."""

    label: Label
    position: Position
    items: list[Item] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Leave:
    label: Label


@dataclass(slots=True)
class ParserCall:
    """The application of a sub-parser: a state of it comes next, and afterwards what follows."""

    parser: object
    position: Position


Item = Step | Branch | Apply | Part | Unit | Loop | Leave | ParserCall


def leaves_always(items: list[Item]) -> bool:
    """Return whether nothing after the items can be reached through them."""
    for item in items:
        match item:
            case Leave():
                return True
            case Branch(then=then, otherwise=otherwise):
                if leaves_always(then) and leaves_always(otherwise):
                    return True
    return False
