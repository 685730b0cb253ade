"""The switch's tables, written without P4Runtime: rows as the controller has them, into the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import numpy as np

from controller.hotset.migrate import plan
from controller.tables import HotParam, Row, Update, UpdateType
from designs.interface import Design
from hosts.keys import KeySpace
from protocol.codec import Values
from protocol.header import LANES
from softswitch.compiled import CompiledPipeline
from softswitch.errors import StateError
from softswitch.ir import Program
from softswitch.jit import MachineCode
from softswitch.load import load_program
from softswitch.pipeline import ActionCall, Change, EntryWrite

_INGRESS = "HotlineIngress."


class Switchboard:
    """A pipeline with our program, and what of its state the simulation reads and writes.

    One that is `buffered` ends where packets wait for a port.
    """

    def __init__(
        self, design: Design, buffered: bool = False, compiled: tuple[Program, MachineCode] | None = None
    ) -> None:
        program, code = compiled or _compiled(design.program, buffered)
        self.pipeline = CompiledPipeline(program, code)
        self._names = _by_alias(program)
        self._params: list[HotParam] = []

    def install(self, rows: Iterable[Row]) -> None:
        """Insert rows; raises `StateError` for the first that the switch refuses."""
        self.write(Update(UpdateType.INSERT, row) for row in rows)

    def write(self, updates: Iterable[Update]) -> None:
        """Insert, modify or delete rows; raises `StateError` for the first that the switch refuses."""
        writes = [self._write_of(update.row, Change[update.type.name]) for update in updates]
        for write, error in zip(writes, self.pipeline.write_entries(writes), strict=True):
            if error is not None:
                raise StateError(f"{write}: {error}")

    def load(self, job: int, keys: Sequence[int]) -> None:
        """Have the job's keys in the switch from the beginning, with value 0; `HotSetError` without room."""
        arriving = [move.param for move in plan(self._params, job, keys, offload=True).arriving]
        self.install(arriving)
        self._params += arriving

    def held(self, job: int, space: KeySpace) -> Values:
        """Values of the job's keys in the switch, by position in the key space; 0 of all others."""
        return self.values_of([param for param in self._params if param.job == job], space)

    def values_of(self, params: Iterable[HotParam], space: KeySpace) -> Values:
        """Values of some entries, by position in the key space; 0 of all other keys."""
        held = np.zeros(space.size, np.uint32)
        by_lane: dict[int, list[HotParam]] = {}
        for param in params:
            by_lane.setdefault(param.lane, []).append(param)
        for lane, params in by_lane.items():
            slots = [param.slot for param in params]
            cells = self.pipeline.read_register(f"{_INGRESS}aggregate_{lane:02d}.values", 0, max(slots) + 1)
            keys = np.array([param.key for param in params], np.uint64)
            held[space.positions(keys)] = np.array(cells, np.uint32)[slots]
        return held

    def overflows(self) -> int:
        """Additions that overflowed, by the switch's own counters."""
        names = [f"{_INGRESS}aggregate_{lane:02d}.lane_stats" for lane in range(LANES)]
        return sum(self.pipeline.read_counter(name, 2, 3)[0].packets for name in names)

    def _write_of(self, row: Row, change: Change) -> EntryWrite:
        if isinstance(row, HotParam):  # of which there are tens of thousands
            lane = f"{_INGRESS}lookup_{row.lane:02d}."
            action = None if change is Change.DELETE else ActionCall(lane + row.state.value, (row.slot,))
            return EntryWrite(change, f"{lane}hot_params", (row.job, row.key), action)
        entry: Any = row.entry()
        table = self._names[entry.table_id]
        prefix = table.rpartition(".")[0]
        name = entry.action.name.rpartition(".")[2]
        arguments = tuple(_number(value) for value in entry.action.args.values())
        key = tuple(_number(value) for value in entry.match.values())
        action = None if change is Change.DELETE else ActionCall(f"{prefix}.{name}", arguments)
        return EntryWrite(change, table, key, action)


@cache
def _compiled(file: Path, buffered: bool) -> tuple[Program, MachineCode]:
    """A program and its machine code, which have no state."""
    program = load_program(file.read_bytes())
    return program, MachineCode(program, buffered=buffered)


def _by_alias(program: Program) -> Mapping[str, str]:
    """Table by the name that rows have: the last parts of its full name."""
    found: dict[str, str] = {}
    for table in program.tables:
        parts = table.split(".")
        found |= {".".join(parts[k:]): table for k in range(len(parts))}
    return found


def _number(value: object) -> int:
    """What an entry has: a number, a MAC or an IPv4 address."""
    if isinstance(value, int):
        return value
    text = str(value)
    return int(text.replace(":", ""), 16) if ":" in text else int(IPv4Address(text))
