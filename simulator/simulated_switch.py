"""The switch of a simulated network: a pipeline of softswitch in this process, under P4Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import NamedTuple

from controller.designs import control_of
from controller.tables import TableRow, Update
from foundation.designs.interface import Arm, Design, SwitchHosts
from foundation.protocol.codec import Values
from foundation.protocol.header import LANES
from hosts.keys import KeySpace
from simulator.row_writer import RowWriter
from simulator.switch_state import state_ops_of
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
        compiled = compiled or compiled_config(design, buffered)
        control = ControlledPipeline(compiled.config, compiled.pipeline, clock=lambda: 0)
        self.pipeline = control.pipeline
        self._writer = RowWriter(control)
        self.state_ops = state_ops_of(design)
        self._lanes = lanes
        self._loaded_rows: dict[int, list[TableRow]] = {}

    def install(self, rows: Iterable[TableRow]) -> None:
        self._writer.insert(rows)

    def write(self, updates: Iterable[Update]) -> None:
        self._writer.write(updates)

    def load(self, job: int, keys: Sequence[int]) -> None:
        rows_to_load = self.state_ops.rows_to_load(chain(*self._loaded_rows.values()), job, keys, self._lanes)
        self.install(rows_to_load)
        self._loaded_rows.setdefault(job, []).extend(rows_to_load)

    def stored_values(self, job: int, space: KeySpace) -> Values:
        return self.state_ops.values(self.pipeline, self._loaded_rows.get(job, []), space)

    def overflows(self) -> int:
        return self.state_ops.overflows(self.pipeline)


def switch_of(design: Design, hosts: SwitchHosts, arms: Sequence[Arm], epoch: int = 0) -> SimulatedSwitch:
    """Return a switch with the rows of arms; the switches of lockstep designs have no epochs."""
    switch = SimulatedSwitch(design)
    switch.install(control_of(design).rows(hosts, arms, epoch))
    return switch


@cache
def compiled_config(design: Design, buffered: bool = False) -> CompiledConfig:
    config = LoadedConfig.read(design.program, design.p4info)
    return CompiledConfig(config, MachineCode(config.program, buffered=buffered))
