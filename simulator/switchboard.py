"""The switch's tables, written without P4Runtime: rows as the controller has them, into the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from controller.hotset.migrate import plan
from controller.tables import INGRESS, HotParam, Row, Update
from designs.interface import Design
from hosts.keys import KeySpace
from protocol.codec import Values
from protocol.header import LANES
from softswitch.compiled import CompiledPipeline
from softswitch.errors import StateError
from softswitch.ir import Program
from softswitch.jit import MachineCode
from softswitch.load import load_program
from softswitch.pipeline import Change


class Switchboard:
    """A pipeline with our program, and what of its state the simulation reads and writes.

    One that is `buffered` ends where packets wait for a port.
    """

    def __init__(
        self, design: Design, buffered: bool = False, compiled: tuple[Program, MachineCode] | None = None
    ) -> None:
        program, code = compiled or _compiled(design.program, buffered)
        self.pipeline = CompiledPipeline(program, code)
        self._params: list[HotParam] = []

    def install(self, rows: Iterable[Row]) -> None:
        """Insert rows; raises `StateError` for the first that the switch refuses."""
        self.write(Update(Change.INSERT, row) for row in rows)

    def write(self, updates: Iterable[Update]) -> None:
        """Insert, modify or delete rows; raises `StateError` for the first that the switch refuses."""
        writes = [update.write() for update in updates]
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
            cells = self.pipeline.read_register(f"{INGRESS}aggregate_{lane:02d}.values", 0, max(slots) + 1)
            keys = np.array([param.key for param in params], np.uint64)
            held[space.positions(keys)] = np.array(cells, np.uint32)[slots]
        return held

    def overflows(self) -> int:
        """Additions that overflowed, by the switch's own counters."""
        names = [f"{INGRESS}aggregate_{lane:02d}.lane_stats" for lane in range(LANES)]
        return sum(self.pipeline.read_counter(name, 2, 3)[0].packets for name in names)


@cache
def _compiled(file: Path, buffered: bool) -> tuple[Program, MachineCode]:
    """A program and its machine code, which have no state."""
    program = load_program(file.read_bytes())
    return program, MachineCode(program, buffered=buffered)
