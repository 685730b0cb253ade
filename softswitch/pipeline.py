"""The seam of the switch: packets in, packets out, and the state that the control plane may touch.

Nothing here knows sockets, threads or clocks; time comes in as arguments. `InterpretedPipeline` is the
readable oracle and `CompiledPipeline` the fast one; both are bit-exact with BMv2 (docs/softswitch.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from softswitch.ir import Match, Program


class Output(NamedTuple):
    """A frame that leaves the switch: egress port number and bytes."""

    port: int
    frame: bytes


class ActionCall(NamedTuple):
    """An action by its P4 name with run-time data in declaration order."""

    name: str
    args: tuple[int, ...] = ()


class Change(Enum):
    """Kind of a table update, as in P4Runtime 1.4 §12."""

    INSERT = 1
    MODIFY = 2
    DELETE = 3


class EntryWrite(NamedTuple):
    """One update of a table. `key` has one match a field, in table order.

    `priority` tells entries with ternary, optional or range matches apart, and the larger wins; others
    have 0.
    """

    change: Change
    table: str
    key: tuple[Match, ...]
    action: ActionCall | None = None
    priority: int = 0


class CounterValue(NamedTuple):
    """One counter cell."""

    packets: int
    bytes: int


class Pipeline(Protocol):
    """A loaded program with its state. Names are the fully qualified P4 names of BMv2 JSON and P4Info."""

    @property
    def program(self) -> Program:
        """The program's typed IR."""
        ...

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        """Run one frame. `t_in` is when it arrived and `now` what egress reads, both in µs since start."""
        ...

    def write_entries(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        """Apply the writes in order, as one batch between two packets; one result for each write.

        A result is None, or EntryExists, EntryMissing or TableFull; a failed write changes nothing.
        """
        ...

    def set_default(self, table: str, action: ActionCall | None) -> None:
        """Replace the table's default action; None restores the program's own."""
        ...

    def entry_counter(self, table: str, key: tuple[Match, ...], priority: int = 0) -> CounterValue:
        """Read an entry's direct counter; `EntryMissing` where there is no such entry."""
        ...

    def set_entry_counter(
        self, table: str, key: tuple[Match, ...], value: CounterValue, priority: int = 0
    ) -> None:
        """Write an entry's direct counter; `EntryMissing` where there is no such entry."""
        ...

    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]:
        """Read cells `start` to `stop` of an indirect counter."""
        ...

    def write_counter(self, name: str, index: int, value: CounterValue) -> None:
        """Write one cell of an indirect counter."""
        ...

    def read_register(self, name: str, start: int, stop: int) -> list[int]:
        """Read cells `start` to `stop` of a register array."""
        ...

    def write_register(self, name: str, index: int, value: int) -> None:
        """Write one cell of a register array."""
        ...
