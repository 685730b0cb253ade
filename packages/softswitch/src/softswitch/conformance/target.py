"""The interface of a switch under test. Every `Pipeline` implements it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from softswitch.pipeline import (
    CounterValue,
    EntryAction,
    EntryKey,
    EntryWrite,
    MeterConfig,
    Output,
    ReplicationOps,
)


class TargetTables(Protocol):
    def write(self, writes: Sequence[EntryWrite]) -> list[Exception | None]:
        """Apply table updates in order; return an error or None for each."""

    def set_default(self, table: str, action: EntryAction | None) -> None: ...

    def counter(self, entry: EntryKey) -> CounterValue: ...


class TargetCells(Protocol):
    def read_counter(self, name: str, start: int, stop: int) -> list[CounterValue]: ...

    def write_counter(self, name: str, index: int, value: CounterValue) -> None: ...

    def read_register(self, name: str, start: int, stop: int) -> list[int]: ...

    def write_register(self, name: str, index: int, value: int) -> None: ...

    def write_meter(self, name: str, index: int, config: MeterConfig | None) -> None: ...


class ConformanceTarget(Protocol):
    """A switch that runs one program. Names are full P4 names; methods are those of `Pipeline`."""

    @property
    def tables(self) -> TargetTables: ...

    @property
    def cells(self) -> TargetCells: ...

    @property
    def replication(self) -> ReplicationOps: ...

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        """Return the outputs of one frame, in order for each port.

        `t_in` is its time of arrival and `now` its time in egress, both in µs since start.
        """
