"""The switch of a simulated network: a pipeline of softswitch in this process, under P4Runtime.

Rows are written to it as the P4Runtime messages that other switches get over gRPC.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any, NamedTuple

from finsy.proto import p4r

from controller.controller_ops import control_of
from controller.tables import Change, RowEncoder, TableRow, Update
from foundation.designs.interface import Arm, Design, SwitchHosts
from foundation.designs.registry import HOW_TO_COMPILE, DesignError, compile_if_changed
from foundation.protocol.codec import Values
from foundation.protocol.header import LANES
from foundation.protocol.rows import ONE_VALUE, RowRanges
from hosts.keys import KeySpace
from hotline_simulator.switch_state import state_ops_of
from softswitch.compiled import CompiledPipeline
from softswitch.errors import StateError, SwitchError
from softswitch.ir import Program
from softswitch.jit import MachineCode
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.loaded_config import LoadedConfig
from softswitch.p4runtime.plain.request import Request

_SMALL_WRITE = 64  # maximum updates of a write whose encoding is cached
_CACHED_UPDATES = 1024


class CompiledConfig(NamedTuple):
    """A pipeline config and the machine code of its program. It is immutable, so switches share it."""

    config: LoadedConfig
    code: MachineCode

    def pipeline(self, program: Program) -> CompiledPipeline:
        return CompiledPipeline(program, self.code)


class SimulatedSwitch:
    """A switch with a design's program; with `buffered`, its packets can wait in egress queues.

    Keys are loaded into its first `lanes` lanes, as if the program had no more.
    """

    def __init__(
        self,
        design: Design,
        buffered: bool = False,
        compiled: CompiledConfig | None = None,
        lanes: int = LANES,
    ) -> None:
        self.state_ops = state_ops_of(design)
        compiled = compiled or compiled_config(design, buffered)
        control = ControlledPipeline(compiled.config, compiled.pipeline, clock=lambda: 0)
        self.pipeline = control.pipeline
        self._writer = RowWriter(control)
        self._lanes = lanes
        self._loaded_rows: dict[int, list[TableRow]] = {}

    @property
    def pipelines(self) -> list[CompiledPipeline]:
        return [self.pipeline]

    def install(self, rows: Iterable[TableRow]) -> None:
        self._writer.insert(rows)

    def write(self, updates: Iterable[Update]) -> None:
        self._writer.write(updates)

    def load(self, job: int, keys: Sequence[int], ranges: RowRanges = ONE_VALUE) -> None:
        """Load keys, whose rows have the dims of `ranges`."""
        entries = chain(*self._loaded_rows.values())
        rows_to_load = self.state_ops.rows_to_load(entries, job, keys, self._lanes, ranges)
        self.install(rows_to_load)
        self._loaded_rows.setdefault(job, []).extend(rows_to_load)

    def stored_values(self, job: int, space: KeySpace) -> Values:
        return self.state_ops.values(self.pipeline, self._loaded_rows.get(job, []), space)

    def read_register(self, name: str) -> list[int]:
        """Return all cells of a register of the program, by its name in the P4Info."""
        [register] = [each for each in self.pipeline.program.registers if each.name == name]
        return list(self.pipeline.cells.read_register(name, 0, register.size))

    def overflows(self) -> int:
        return self.state_ops.overflows(self.pipeline)


def switch_of(design: Design, hosts: SwitchHosts, arms: Sequence[Arm], epoch: int = 0) -> SimulatedSwitch:
    """Return a switch with the rows of arms; the switches of lockstep designs have no epochs."""
    switch = SimulatedSwitch(design)
    switch.install(control_of(design).rows(hosts, arms, epoch))
    return switch


@cache
def loaded_config(design: Design) -> LoadedConfig:
    """Return the program and P4Info of a design, which pipelines share; compile a changed source before."""
    compile_if_changed(design.program)
    try:
        return LoadedConfig.read(design.program, design.p4info)
    except SwitchError as error:
        raise DesignError(f"design {design.name}: {error}; {HOW_TO_COMPILE}") from error


@cache
def compiled_config(design: Design, buffered: bool = False) -> CompiledConfig:
    config = loaded_config(design)
    return CompiledConfig(config, MachineCode(config.program, buffered=buffered))


class RowWriter:
    def __init__(self, control: ControlledPipeline[Any]) -> None:  # a pipeline of any kind
        self._control = control
        self._encoder = RowEncoder(control.config.p4info)
        # Schedules of faults write the same few rows many times.
        self._encode_cached = lru_cache(_CACHED_UPDATES)(self._encoder.update)

    def insert(self, rows: Iterable[TableRow]) -> None:
        self.write(Update(Change.INSERT, row) for row in rows)

    def write(self, updates: Iterable[Update]) -> None:
        updates = list(updates)
        message = p4r.WriteRequest()
        if len(updates) <= _SMALL_WRITE:
            message.updates.extend(map(self._encode_cached, updates))
        else:
            for update in updates:
                self._encoder.append(message, update)
        results = self._control.write_bytes(Request(message.SerializeToString()))
        for update, refusal in zip(updates, results, strict=True):
            if refusal is not None:
                change = update.change.name.lower()
                raise StateError(f"{change} of {update.row}: {refusal.code.name}: {refusal}")
