"""The switch's tables, written without P4Runtime: rows as the controller has them, into the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

from controller.tables import Change, MulticastGroup, Row, TableEntry, Update
from foundation.designs.interface import Design
from foundation.protocol.codec import Values
from hosts.keys import KeySpace
from simulator.contents import contents_of
from softswitch import pipeline as switch
from softswitch.compiled import CompiledPipeline
from softswitch.errors import StateError
from softswitch.ir import Program
from softswitch.jit import MachineCode
from softswitch.load import load_program

_CHANGES = {
    Change.INSERT: switch.Change.INSERT,
    Change.MODIFY: switch.Change.MODIFY,
    Change.DELETE: switch.Change.DELETE,
}


class Switchboard:
    """A pipeline with our program, and what of its state the simulation reads and writes.

    One that is `buffered` ends where packets wait for a port.
    """

    def __init__(
        self, design: Design, buffered: bool = False, compiled: tuple[Program, MachineCode] | None = None
    ) -> None:
        program, code = compiled or _compiled(design.program, buffered)
        self.pipeline = CompiledPipeline(program, code)
        self.contents = contents_of(design)
        self._loaded: dict[int, list[Row]] = {}
        """Job -> entries of its keys."""

    def install(self, rows: Iterable[Row]) -> None:
        """Insert rows; raises `StateError` for the first that the switch refuses."""
        self.write(Update(Change.INSERT, row) for row in rows)

    def write(self, updates: Iterable[Update]) -> None:
        """Insert, modify or delete rows; raises `StateError` for the first that the switch refuses."""
        write_rows(self.pipeline, updates)

    def load(self, job: int, keys: Sequence[int]) -> None:
        """Have the job's keys in the switch from the beginning, with value 0; `HotSetError` without room."""
        arriving = self.contents.arriving(chain(*self._loaded.values()), job, keys)
        self.install(arriving)
        self._loaded.setdefault(job, []).extend(arriving)

    def held(self, job: int, space: KeySpace) -> Values:
        """Values of the job's keys in the switch, by position in the key space; 0 of all others."""
        return self.contents.values(self.pipeline, self._loaded.get(job, []), space)

    def overflows(self) -> int:
        """Additions that overflowed, by the switch's own counters."""
        return self.contents.overflows(self.pipeline)


def write_rows(pipeline: switch.ControlPlane, updates: Iterable[Update]) -> None:
    """Insert, modify or delete rows and groups; raises `StateError` for the first that is refused."""
    writes = []
    for update in updates:
        entry, is_deleted = update.row.entry(), update.change is Change.DELETE
        if isinstance(entry, MulticastGroup):
            replicas = [switch.Replica(*each) for each in entry.replicas]
            pipeline.write_multicast_group(entry.group, [] if is_deleted else replicas)
        else:
            writes.append(entry_write(update.change, entry))
    for write, error in zip(writes, pipeline.write_entries(writes), strict=True):
        if error is not None:
            raise StateError(f"{write}: {error}")


def entry_write(change: Change, entry: TableEntry) -> switch.EntryWrite:
    """Return the write of an entry, as pipelines take it."""
    action = None if change is Change.DELETE else switch.ActionCall(entry.action, entry.args)
    return switch.EntryWrite(_CHANGES[change], entry.table, entry.key, action)


@cache
def _compiled(file: Path, buffered: bool) -> tuple[Program, MachineCode]:
    """A program and its machine code, which have no state."""
    program = load_program(file.read_bytes())
    return program, MachineCode(program, buffered=buffered)
