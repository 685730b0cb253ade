"""Who is told what happens to packets, as it happens. The interpreter does the same whoever is told.

An observer must change nothing. It is told afterwards, so it finds in the packet what became of it; only of a
table's action it is told before that runs.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Generic, TypeVar

from softswitch import ir
from softswitch.pipeline import EntryKey, Notice, UseGroup, UseMember
from softswitch.v1model import Colour

P = TypeVar("P", contravariant=True)
"""The interpreter's packet, which has an observer."""


class Origin(str, Enum):
    """Where a packet comes from; the value is its name in traces."""

    ARRIVAL = "arrival"
    INGRESS_CLONE = "ingress clone"
    EGRESS_CLONE = "egress clone"
    REPLICA = "replica"
    RESUBMIT = "resubmit"
    RECIRCULATE = "recirculate"


class Observer(Generic[P]):
    """Takes no notice of anything; who wants to know overrides a method."""

    # -- the packet's way

    def begins(self, packet: P, origin: Origin, parent: P | None) -> None:
        """A frame has arrived, or a packet was made of another one (`parent`)."""

    def queued(self, packet: P, port: int) -> None:
        """It is on its way to egress."""

    def leaves_queue(self, packet: P) -> None:
        """It is out of the port's queue; egress follows."""

    def enters(self, packet: P, control: ir.Control) -> None:
        """A control begins."""

    def dropped(self, packet: P, reason: str) -> None:
        """Nothing more happens to it."""

    def deparses(self, packet: P) -> None:
        """The deparser begins."""

    def deparsed(self, packet: P, frame: bytes) -> None:
        """Its headers and payload are a frame again, of which nothing is truncated yet."""

    def sent(self, packet: P, port: int, frame: bytes) -> None:
        """The frame leaves the switch."""

    # -- the parser

    def reached(self, packet: P, state: int) -> None:
        """A state begins."""

    def extracted(self, packet: P, header: int, start: int) -> None:
        """A header was filled with what lies from byte `start` to the parser's position."""

    def advanced(self, packet: P, start: int) -> None:
        """The parser skipped what lies from byte `start` to its position."""

    def selected(self, packet: P, key: int, state: int | None) -> None:
        """A state's select has found where to go on; None: the parser accepts."""

    def parsed(self, packet: P, error: int) -> None:
        """The parser has ended, with the code of an error or of NoError."""

    # -- controls

    def tested(self, packet: P, node: ir.Conditional, value: int) -> None:
        """An `if` was decided."""

    def looked_up(self, packet: P, table: ir.Table, key: tuple[int, ...], entry: EntryKey | None) -> None:
        """A table was looked up; None: a miss."""

    def chose(self, packet: P, use: UseMember | UseGroup, call: str | None) -> None:
        """An entry's member or group has an action for the packet; None: an empty group."""

    def applies(self, packet: P, table: ir.Table, invocation: ir.Invocation | None) -> None:
        """A table's action runs next; None: nothing does."""

    # -- statements

    def executed(self, packet: P, statement: ir.Statement, position: int = 0) -> None:
        """A statement has run, the one at `position` where it is of an action."""

    def branched(self, packet: P, position: int, value: int) -> None:
        """A branch within an action was decided."""

    # -- externs; an index that is outside comes with None in place of what the cell holds

    def read_register(self, packet: P, register: int, index: int, value: int | None) -> None:
        """A register was read."""

    def wrote_register(self, packet: P, register: int, index: int, before: int | None, value: int) -> None:
        """A register was written; `before` is what it held."""

    def counted(self, packet: P, name: str, index: int | None, cell: list[int] | None) -> None:
        """A counter has counted the packet; `index` is None for the direct counter of an entry."""

    def metered(self, packet: P, name: str, index: int | None, colour: Colour | None) -> None:
        """A meter has given the packet a colour; `index` is None for the direct meter of an entry."""

    def calculated(self, packet: P, calculation: ir.Calculation, data: bytes, value: int) -> None:
        """A hash or checksum was computed over some bytes."""

    def drew(self, packet: P, low: int, high: int, value: int | None) -> None:
        """A random number was drawn; None from an empty range."""

    def notified(self, packet: P, notice: Notice) -> None:
        """The control plane is told something."""

    def verified(self, packet: P, checksum: ir.Checksum, expected: int) -> None:
        """A checksum was compared with what it should be."""

    def updated(self, packet: P, checksum: ir.Checksum) -> None:
        """A checksum was stored."""


NULL_OBSERVER: Observer[Any] = Observer()
