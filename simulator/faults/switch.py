"""The switch as its controllers see it: tables, packet-outs, one primary; and what is left when it
restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import cache
from itertools import chain
from random import Random
from types import TracebackType
from typing import TypeVar

from typing_extensions import Self

from controller.client import SwitchClient
from controller.errors import DeviceError, NotPrimary
from controller.tables import Change, Row, Update
from foundation.designs.interface import Design
from foundation.designs.registry import design
from foundation.protocol.frames import packet_out_header
from simulator.contents import Entry
from simulator.simulated_switch import CompiledConfig, SimulatedSwitch
from softswitch.errors import StateError
from softswitch.jit import MachineCode
from softswitch.memory.rows import Words
from softswitch.p4runtime.loaded_config import LoadedConfig, read_p4info
from softswitch.p4runtime.messages import p4r

R = TypeVar("R", bound=Row)
_LARGEST = 64
"""Rows of a table: what a schedule needs, so that a switch that restarts is soon empty."""
_WINDOW = 64
_AT_ONCE = 16
"""Updates of a Write that take effect together at most: a controller may die between any two."""
_SLOWEST_S = 200e-6


@cache
def small(name: str) -> CompiledConfig:
    """Return a design's program with small tables, registers and counters, in machine code."""
    chosen = design(name)
    return compiled(chosen, chosen.program.read_bytes())


def compiled(chosen: Design, program: bytes) -> CompiledConfig:
    """Compile a program of a design, made so that its tables, registers and counters are small."""
    description, p4info = json.loads(program), read_p4info(chosen.p4info)
    for table in chain(*(each["tables"] for each in description["pipelines"] if each["name"] == "ingress")):
        table["max_size"] = min(table["max_size"], _LARGEST)
    for counter in (each for each in description["counter_arrays"] if not each["is_direct"]):
        counter["size"] = min(counter["size"], _LARGEST)
    for register in description["register_arrays"]:
        register["size"] = min(register["size"], _cells(register["name"]))
    for counter_info in p4info.counters:
        counter_info.size = min(counter_info.size, _LARGEST)
    for register_info in p4info.registers:
        register_info.size = min(register_info.size, _cells(register_info.preamble.name))
    device_config = json.dumps(description).encode()
    config = LoadedConfig(p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=device_config))
    return CompiledConfig(config, MachineCode(config.program))


def _cells(register: str) -> int:
    """Most cells of a register: one for each row of a table, or for each RPC of its window."""
    return _LARGEST * (_WINDOW if "cells" in register else 1)


class VirtualSwitch(SimulatedSwitch):
    """A switch that can be off and restart. `rows` are its entries as the controller has them."""

    def __init__(self, name: str, compiled: CompiledConfig | None = None) -> None:
        super().__init__(design(name), compiled=compiled or small(name))
        self.rows: dict[object, Row] = {}
        self.is_off = False
        self.restarts = 0
        self.primary: Session | None = None
        self.sessions = 0
        self._empty = self.image()

    def image(self) -> Words:
        """Tables, counters and registers as they are now; not the multicast groups, which ours never has."""
        return self.pipeline.memory_image()[: self.pipeline.code.layout.replication.multicast]

    def restart(self) -> None:
        """Come up with nothing: no entries, all registers 0, no controller."""
        self.pipeline.load_image(self._empty)
        self.rows.clear()
        self.primary, self.is_off = None, False
        self.restarts += 1

    def write(self, updates: Iterable[Update]) -> None:
        """Apply updates; `DeviceError` for what the switch refuses."""
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
        """Those of parameters."""
        return [row for row in self.rows.values() if self.contents.is_entry(row)]


class Session(SwitchClient):
    """A controller's connection, in virtual time: what it asks takes some, and takes effect in pieces.

    One that is `killed` has no effect any more, though its coroutines may clean up.
    """

    def __init__(
        self, switch: VirtualSwitch, random: Random, packet_out: Callable[[bytes], None]
    ) -> None:  # no connection, so nothing of the real one's
        self._virtual = switch
        self._random = random
        self._packet_out = packet_out
        self._incarnation = switch.restarts
        self.killed = False
        self.written = 0
        """Updates."""
        self.on_write: Callable[[], None] = lambda: None
        """Called when some have taken effect."""
        self.arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        await self._pause()
        self._check_is_on()
        self._incarnation = self._virtual.restarts
        self._virtual.primary = self
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._virtual.primary is self:
            self._virtual.primary = None

    def new_epoch(self) -> int:
        """Later sessions have later ones."""
        self._virtual.sessions += 1
        return self._virtual.sessions

    async def commit_pipeline(self) -> bool:
        """It is there as soon as the switch is on."""
        self._check_is_on()
        return False

    def check_pipeline(self) -> None:
        """A switch that is on has our pipeline."""
        self._check_is_on()

    async def read(self, kind: type[R]) -> list[R]:
        """Rows of a kind as they are."""
        await self._pause()
        self._check_is_on()
        return [row for row in self._virtual.rows.values() if isinstance(row, kind)]

    async def write(self, updates: Sequence[Update]) -> None:
        """Apply updates, a few at a time."""
        at = 0
        while at < len(updates):
            await self._pause()
            self._check_may_write()
            if self.killed:
                return
            some = updates[at : at + self._random.randint(1, _AT_ONCE)]
            self._virtual.write(some)
            self.written += len(some)
            at += len(some)
            self.on_write()
        await self._pause()

    async def send(self, frame: bytes, egress_port: int | None) -> None:
        """Send a packet-out."""
        self._check_may_write()
        if not self.killed:
            self._packet_out(packet_out_header(egress_port) + frame)

    async def packets(self) -> AsyncIterator[bytes]:
        """Packet-ins."""
        while True:
            yield await self.arrived.get()

    async def _pause(self) -> None:
        if not self.killed:
            await asyncio.sleep(self._random.random() * _SLOWEST_S)

    def _check_is_on(self) -> None:
        if self._virtual.is_off or self._incarnation != self._virtual.restarts:
            raise DeviceError("the switch has closed the connection")

    def _check_may_write(self) -> None:
        self._check_is_on()
        if not self.killed and self._virtual.primary is not self:
            raise NotPrimary("another controller has become primary")
