"""The switch as its controllers see it: tables, packet-outs, one primary; and what is left when it
restarts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from types import TracebackType
from typing import TypeVar

from typing_extensions import Self

from controller.client import SwitchClient
from controller.errors import DeviceError, NotPrimary
from controller.tables import Change, Row, Update
from foundation.designs.registry import design
from foundation.protocol.frames import packet_out_header
from simulator.contents import Entry
from simulator.switchboard import Switchboard
from softswitch.errors import StateError
from softswitch.ir import Program
from softswitch.ir.tables import Table
from softswitch.jit import MachineCode
from softswitch.load import load_program
from softswitch.memory.rows import Words

R = TypeVar("R", bound=Row)
_LARGEST = 64
"""Rows of a table: what a schedule needs, so that a switch that restarts is soon empty."""
_WINDOW = 64
_AT_ONCE = 16
"""Updates of a Write that take effect together at most: a controller may die between any two."""
_SLOWEST_S = 200e-6


@cache
def small(name: str) -> tuple[Program, MachineCode]:
    """A design's program with small tables, registers and counters, in machine code."""
    return compiled(load_program(design(name).program.read_bytes()))


def compiled(program: Program) -> tuple[Program, MachineCode]:
    """A program with small tables, registers and counters, in machine code."""
    nodes = {
        name: replace(node, size=min(node.size, _LARGEST)) if isinstance(node, Table) else node
        for name, node in program.ingress.nodes.items()
    }
    program = replace(
        program,
        counters=tuple(replace(each, size=min(each.size, _LARGEST)) for each in program.counters),
        ingress=replace(program.ingress, nodes=nodes),
        registers=tuple(
            replace(each, size=min(each.size, _LARGEST * (_WINDOW if "cells" in each.name else 1)))
            for each in program.registers
        ),
    )
    return program, MachineCode(program)


class VirtualSwitch:
    """One switch with a design's program. `rows` are its entries as the controller has them."""

    def __init__(self, name: str, code: tuple[Program, MachineCode] | None = None) -> None:
        self.board = Switchboard(design(name), compiled=code or small(name))
        self.rows: dict[object, Row] = {}
        self.is_off = False
        self.restarts = 0
        self.primary: Session | None = None
        self.sessions = 0
        self._empty = self.image()

    def image(self) -> Words:
        """Tables, counters and registers as they are now; not the multicast groups, which ours never has."""
        pipeline = self.board.pipeline
        return pipeline.memory_image()[: pipeline.code.layout.replication.multicast]

    def restart(self) -> None:
        """Come up with nothing: no entries, all registers 0, no controller."""
        self.board.pipeline.load_image(self._empty)
        self.rows.clear()
        self.primary, self.is_off = None, False
        self.restarts += 1

    def write(self, updates: Sequence[Update]) -> None:
        """Apply updates; `DeviceError` for what the switch refuses."""
        try:
            self.board.write(updates)
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
        return [row for row in self.rows.values() if self.board.contents.is_entry(row)]


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
