"""The switch of a simulated network: a pipeline of softswitch in this process, under P4Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

from controller.tables import Row, Update
from foundation.designs.interface import Design
from foundation.protocol.codec import Values
from hosts.keys import KeySpace
from simulator.contents import contents_of
from simulator.row_writer import RowWriter
from softswitch.compiled import CompiledPipeline
from softswitch.ir import Program
from softswitch.jit import MachineCode
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.loaded_config import LoadedConfig


class CompiledConfig(NamedTuple):
    """A pipeline config and the machine code of its program. It is immutable, so switches share it."""

    config: LoadedConfig
    code: MachineCode

    def pipeline(self, program: Program) -> CompiledPipeline:
        """Return a new pipeline of the program."""
        return CompiledPipeline(program, self.code)


class SimulatedSwitch:
    """A switch with a design's program, and what of its state the simulation reads and writes.

    The pipeline of a `buffered` one ends where packets wait for a port.
    """

    def __init__(
        self, design: Design, buffered: bool = False, compiled: CompiledConfig | None = None
    ) -> None:
        compiled = compiled or compiled_config(design, buffered)
        control = ControlledPipeline(compiled.config, compiled.pipeline, clock=lambda: 0)
        self.pipeline = control.pipeline
        self._writer = RowWriter(control)
        self.contents = contents_of(design)
        self._loaded: dict[int, list[Row]] = {}
        """Job -> entries of its keys."""

    def install(self, rows: Iterable[Row]) -> None:
        """Insert rows; raises `StateError` for the first that the switch refuses."""
        self._writer.insert(rows)

    def write(self, updates: Iterable[Update]) -> None:
        """Insert, modify or delete rows; raises `StateError` for the first that the switch refuses."""
        self._writer.write(updates)

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


@cache
def compiled_config(design: Design, buffered: bool = False) -> CompiledConfig:
    """Return the pipeline config of a design; the code of a `buffered` one ends where packets wait."""
    config = LoadedConfig.read(design.program, design.p4info)
    return CompiledConfig(config, MachineCode(config.program, buffered=buffered))
