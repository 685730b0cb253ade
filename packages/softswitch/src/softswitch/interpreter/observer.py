"""Callbacks for the events of packets in the interpreter.

An observer must not change its arguments. It is called after each event, when the packet has its new state,
except for `applies`, which is called before the action runs.
"""

from __future__ import annotations

from enum import Enum
from typing import Generic, TypeVar

from softswitch import ir
from softswitch.pipeline import EntryKey, Notice, UseGroup, UseMember
from softswitch.v1model import Colour

P = TypeVar("P", contravariant=True)


class Origin(str, Enum):
    """Origins of a packet; the value is the name in traces."""

    ARRIVAL = "arrival"
    INGRESS_CLONE = "ingress clone"
    EGRESS_CLONE = "egress clone"
    REPLICA = "replica"
    RESUBMIT = "resubmit"
    RECIRCULATE = "recirculate"


class Observer(Generic[P]):
    # -- the packet's path

    def begins(self, packet: P, origin: Origin, parent: P | None) -> None:
        """Handle a frame that arrived, or a packet derived from another one (`parent`)."""

    def queued(self, packet: P, port: int) -> None: ...

    def leaves_queue(self, packet: P) -> None:
        """Handle a packet that left its port's queue; egress follows."""

    def enters(self, packet: P, control: ir.Control) -> None: ...

    def dropped(self, packet: P, reason: str) -> None:
        """Handle a dropped packet; it is the last event of that packet."""

    def deparses(self, packet: P) -> None:
        """Handle the start of the deparser."""

    def deparsed(self, packet: P, frame: bytes) -> None:
        """Handle the deparsed frame, which is not truncated yet."""

    def sent(self, packet: P, port: int, frame: bytes) -> None: ...

    # -- the parser

    def reached(self, packet: P, state: int) -> None:
        """Handle the parser's entry into a state."""

    def extracted(self, packet: P, header: int, start: int) -> None:
        """Handle an extracted header, from the bytes between `start` and the parser's position."""

    def advanced(self, packet: P, start: int) -> None:
        """Handle skipped bytes, those between `start` and the parser's position."""

    def selected(self, packet: P, key: int, state: int | None) -> None:
        """Handle the next state that a select has determined; None accepts."""

    def parsed(self, packet: P, error: int) -> None:
        """Handle the end of the parser with an error code, possibly that of NoError."""

    # -- controls

    def tested(self, packet: P, node: ir.Conditional, value: int) -> None: ...

    def looked_up(self, packet: P, table: ir.Table, key: tuple[int, ...], entry: EntryKey | None) -> None:
        """Handle the result of a table's look-up; `entry` None is a miss."""

    def chose(self, packet: P, use: UseMember | UseGroup, action_name: str | None) -> None:
        """Handle the action of an entry's member or group; `action_name` None is an empty group."""

    def applies(self, packet: P, table: ir.Table, invocation: ir.Invocation | None) -> None:
        """Handle a table's action before it runs; `invocation` None is no action."""

    # -- statements

    def executed(self, packet: P, statement: ir.Statement, position: int = 0) -> None:
        """Handle a statement that has run; `position` is its position in an action."""

    def branched(self, packet: P, position: int, value: int) -> None:
        """Handle the value of a branch's condition within an action."""

    # -- externs; for an index out of range, the content of the cell is None

    def read_register(self, packet: P, register: int, index: int, value: int | None) -> None: ...

    def wrote_register(self, packet: P, register: int, index: int, before: int | None, value: int) -> None:
        """Handle a value that was written to a register; `before` is the old value."""

    def counted(self, packet: P, name: str, index: int | None, cell: list[int] | None) -> None:
        """Handle a counted packet; `index` is None for an entry's direct counter."""

    def metered(self, packet: P, name: str, index: int | None, colour: Colour | None) -> None:
        """Handle a packet's colour; `index` is None for an entry's direct meter."""

    def calculated(self, packet: P, calculation: ir.Calculation, data: bytes, value: int) -> None: ...

    def drew(self, packet: P, low: int, high: int, value: int | None) -> None:
        """Handle a random number; `value` None is an empty range."""

    def notified(self, packet: P, notice: Notice) -> None: ...

    def verified(self, packet: P, checksum: ir.Checksum, expected: int) -> None: ...

    def updated(self, packet: P, checksum: ir.Checksum) -> None: ...


NULL_OBSERVER: Observer[object] = Observer()
