"""The interpreter as a `Pipeline` (`softswitch.pipeline`)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from softswitch import ir
from softswitch.interpreter.control_plane import (
    InterpretedCells,
    InterpretedProfiles,
    InterpretedReplication,
    InterpretedTables,
)
from softswitch.interpreter.controls import Controls
from softswitch.interpreter.expressions import UINT64
from softswitch.interpreter.externs import Externs
from softswitch.interpreter.observer import NULL_OBSERVER, Observer
from softswitch.interpreter.packet import Packet
from softswitch.interpreter.traffic import TrafficManager
from softswitch.interpreter.undo import Transactions
from softswitch.pipeline import Notice, Output, PassResult, QueueDepths, WaitingPacket


class InterpretedPipeline:
    """A `BufferedPipeline` in plain Python; `BufferedPipeline` documents its methods.

    A packet whose `priority` is not less than `priority_queues` is dropped. `observer` gets all events.
    """

    def __init__(
        self, program: ir.Program, priority_queues: int = 1, observer: Observer[Packet] = NULL_OBSERVER
    ) -> None:
        self.program = program
        self._externs = Externs(program)
        self._controls = Controls(program, self._externs)
        self._traffic = TrafficManager(program, self._externs, self._controls, priority_queues, observer)
        self._transactions = Transactions()
        self.tables = InterpretedTables(self._controls, self._transactions)
        self.profiles = InterpretedProfiles(program, self._controls, self._transactions)
        self.replication = InterpretedReplication(self._traffic, self._transactions)
        self.cells = InterpretedCells(program, self._externs, self._traffic, self._transactions)

    def transaction(self, is_atomic: bool = False) -> AbstractContextManager[None]:
        return self._transactions.begin()

    def close(self) -> None:
        """Do nothing: the state is in Python objects."""

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        return self._traffic.process(port, frame, t_in, now)

    def enter(self, port: int, frame: bytes, t_in: int, now: int) -> PassResult:
        return self._traffic.enter(port, frame, t_in, now)

    def leave(self, waiting: WaitingPacket, depths: QueueDepths, now: int) -> PassResult:
        return self._traffic.leave(waiting, depths, now)

    def report_dropped(self, waiting: WaitingPacket, reason: str) -> None:
        self._traffic.report_dropped(waiting, reason)

    def take_notices(self) -> list[Notice]:
        notices, self._externs.notices = self._externs.notices, []
        return notices

    def seed_random(self, seed: int) -> None:
        self._externs.random.state = seed & UINT64
