"""A simulated switch that can be restarted, and the sessions of controllers with it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from random import Random
from typing import TypeVar

from typing_extensions import Self

from controller.client import SwitchClient
from controller.controller import Controller
from controller.errors import DeviceError, NotPrimary
from controller.network_controller import NetworkController
from controller.tables import Change, TableRow, Update
from foundation.designs.registry import NAMES, design
from foundation.protocol.frames import packet_out_header
from foundation.protocol.leaf_spine import LeafSpine
from hotline_simulator.simulated_switch import CompiledConfig, SimulatedSwitch, compiled_config
from hotline_simulator.switch_state import Entry
from softswitch.errors import StateError
from softswitch.jit import MachineCode
from softswitch.memory.rows import Words
from softswitch.p4runtime.loaded_config import LoadedConfig, read_p4info
from softswitch.p4runtime.messages import p4i, p4r

R = TypeVar("R", bound=TableRow)
_MAX_ROWS = 64  # maximum rows of a table: enough for a fault schedule, and few, so that a restart is fast
_WINDOW = 64  # cells of an exactly-once register for each row
_MAX_BATCH = 16
"""Maximum updates of a Write that take effect together; a controller may die between two such batches."""
_MAX_PAUSE_S = 200e-6


@cache
def small_config(name: str) -> CompiledConfig:
    chosen_design = design(name)
    if name not in NAMES:  # what the indexes of its registers are is not known
        return compiled_config(chosen_design)
    return compile_small(chosen_design.program.read_bytes(), read_p4info(chosen_design.p4info))


def compile_small(program: bytes, p4info: p4i.P4Info) -> CompiledConfig:
    description = json.loads(program)
    for table in chain(*(each["tables"] for each in description["pipelines"] if each["name"] == "ingress")):
        table["max_size"] = max(min(table["max_size"], _MAX_ROWS), len(table.get("entries", ())))
    for counter in (each for each in description["counter_arrays"] if not each["is_direct"]):
        counter["size"] = min(counter["size"], _MAX_ROWS)
    for register in description["register_arrays"]:
        register["size"] = min(register["size"], _cells(register["name"]))
    for counter_info in p4info.counters:
        counter_info.size = min(counter_info.size, _MAX_ROWS)
    for register_info in p4info.registers:
        register_info.size = min(register_info.size, _cells(register_info.preamble.name))
    device_config = json.dumps(description).encode()
    config = LoadedConfig(p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=device_config))
    return CompiledConfig(config, MachineCode(config.program))


def _cells(register: str) -> int:
    return _MAX_ROWS * (_WINDOW if "exactly_once" in register else 1)


class RestartableSwitch(SimulatedSwitch):
    def __init__(self, name: str, compiled: CompiledConfig | None = None) -> None:
        super().__init__(design(name), compiled=compiled or small_config(name))
        self.rows: dict[object, TableRow] = {}
        self.is_off = False
        self.restarts = 0
        self.primary: ControllerSession | None = None
        self._empty_image = self.image()

    def image(self) -> Words:
        """Return tables, counters and registers, but no multicast groups: the program uses none."""
        return self.pipeline.memory_image()[: self.pipeline.code.layout.replication.multicast]

    def restart(self, image: Words | None = None) -> None:
        """Restart with the content of an `image`; None means an empty switch."""
        self.pipeline.load_image(self._empty_image if image is None else image)
        self.rows.clear()
        self.primary, self.is_off = None, False
        self.restarts += 1

    def write(self, updates: Iterable[Update]) -> None:
        updates = list(updates)
        try:
            super().write(updates)
        except StateError as error:
            raise DeviceError(f"the switch refused {error}") from error
        for update in updates:
            if update.change is Change.DELETE:
                del self.rows[update.row.identity]
            else:
                self.rows[update.row.identity] = update.row

    @property
    def entries(self) -> list[Entry]:
        return [row for row in self.rows.values() if self.state_ops.is_entry(row)]


class ControllerProcess:
    """A process that controls all hot sets, with a session for each switch that has one; it can be killed."""

    def __init__(self, topology: LeafSpine | None, sessions: Sequence[ControllerSession]) -> None:
        self._topology, self._sessions = topology, sessions

    def controller(self) -> Controller:
        controllers = [Controller(switch=session) for session in self._sessions]
        return controllers[0] if self._topology is None else NetworkController(self._topology, controllers)

    @property
    def updates_written(self) -> int:
        return sum(session.updates_written for session in self._sessions)

    def watch(self, on_write: Callable[[], None]) -> None:
        for session in self._sessions:
            session.on_write = on_write

    def kill(self) -> None:
        for session in self._sessions:
            session.kill()


class ControllerSession(SwitchClient):
    """A controller's connection to a switch in simulated time; once killed, its requests have no effect."""

    def __init__(
        self, switch: RestartableSwitch, random: Random, packet_out: Callable[[bytes], None]
    ) -> None:  # without super().__init__(), as there is no connection
        self._simulated_switch = switch
        self._random = random
        self._packet_out = packet_out
        self._incarnation = switch.restarts
        self.is_killed = False
        self.updates_written = 0
        self.on_write: Callable[[], None] = lambda: None
        self.packet_ins: asyncio.Queue[bytes] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        await self._pause()
        self._check_is_on()
        self._incarnation = self._simulated_switch.restarts
        self._simulated_switch.primary = self
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._simulated_switch.primary is self:
            self._simulated_switch.primary = None

    def new_epoch(self) -> int:
        return self._random.getrandbits(32)

    async def commit_pipeline(self) -> bool:
        """Return False: a switch that is on has its pipeline."""
        self._check_is_on()
        return False

    def check_pipeline(self) -> None:
        self._check_is_on()

    async def read(self, kind: type[R]) -> list[R]:
        await self._pause()
        self._check_is_on()
        return [row for row in self._simulated_switch.rows.values() if isinstance(row, kind)]

    async def write(self, updates: Sequence[Update]) -> None:
        written = 0
        while written < len(updates):
            await self._pause()
            self._check_may_write()
            if self.is_killed:
                return
            batch = updates[written : written + self._random.randint(1, _MAX_BATCH)]
            self._simulated_switch.write(batch)
            self.updates_written += len(batch)
            written += len(batch)
            self.on_write()
        await self._pause()

    async def send(self, frame: bytes, egress_port: int | None) -> None:
        self._check_may_write()
        if not self.is_killed:
            self._packet_out(packet_out_header(egress_port) + frame)

    async def packets(self) -> AsyncIterator[bytes]:
        while True:
            yield await self.packet_ins.get()

    def kill(self) -> None:
        self.is_killed = True
        if self._simulated_switch.primary is self:
            self._simulated_switch.primary = None

    async def _pause(self) -> None:
        if not self.is_killed:
            await asyncio.sleep(self._random.random() * _MAX_PAUSE_S)

    def _check_is_on(self) -> None:
        if self._simulated_switch.is_off or self._incarnation != self._simulated_switch.restarts:
            raise DeviceError("the switch has closed the connection")

    def _check_may_write(self) -> None:
        self._check_is_on()
        if not self.is_killed and self._simulated_switch.primary is not self:
            raise NotPrimary("another controller has become primary")
