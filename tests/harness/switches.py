"""The P4 program in a pipeline for the testbed, and two broken variants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from controller.tables import CPU_PORT
from foundation.protocol import codec, frames
from foundation.protocol.codec import Message
from foundation.protocol.frames import UdpEndpoint
from foundation.protocol.hashing import lane_of, ps_of
from foundation.protocol.header import PS_BITS, RESPONSE, SLOT_MASK, WINDOW_BITS, Op
from foundation.protocol.leaf_spine import ServerHomes
from softswitch.pipeline import Change, EntryWrite, Output, Pipeline
from tests.harness.testnet import INGRESS, held, hot_entry, insert, numbers, write

CELLS = INGRESS + "exactly_once.cells"


class Attached(NamedTuple):
    """A host's end of the wire and its switch port."""

    end: UdpEndpoint
    port: int


class PipelineSwitch:
    """The compiled P4 program in a pipeline of softswitch."""

    homes: ServerHomes = ()
    """Number of the switch with each PS's hot set, if there are several."""
    levels = 1
    """Number of homes of a PS, of which each key in a switch is at one."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._states: dict[tuple[int, int], str] = {}
        self._jobs: set[int] = set()
        self.level_of: dict[int, int] = {}
        """Key -> the level of the home that has the key or gets it; 0 for others."""

    def number_of(self, key: int, servers: int) -> int:
        """Return the number of a key's server at the home that has the key or gets it."""
        return ps_of(key, servers) | self.level_of.get(key, 0) << PS_BITS

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        return self.pipeline.process(port, frame, t_in, now)

    def set_job(self, job: int, offload: bool, proxy: bool) -> None:
        entry = insert("identify.jobs", (job,), "identify.set_job", int(offload), int(proxy))
        change = Change.MODIFY if job in self._jobs else Change.INSERT
        self._jobs.add(job)
        write(self.pipeline, [entry._replace(change=change)])

    def add_server(self, job: int, ps: int, server: Attached, service: UdpEndpoint) -> None:
        data = (*numbers(server.end), server.port, *numbers(service))
        write(self.pipeline, [insert("identify.servers", (job, ps), "identify.set_server", *data)])

    def add_caller(self, job: int, caller: int, epoch: int, row: int, at: Attached, privileged: bool) -> None:
        data = (row, *numbers(at.end), at.port, int(privileged))
        write(self.pipeline, [insert("identify.workers", (job, caller, epoch), "identify.set_worker", *data)])

    def remove_caller(self, job: int, caller: int, epoch: int) -> None:
        gone = EntryWrite(Change.DELETE, INGRESS + "identify.workers", (job, caller, epoch))
        write(self.pipeline, [gone])

    def set_entry(self, job: int, key: int, state: str | None, slot: int) -> None:
        """Insert, change or (None) delete a key's entry."""
        known = (job, key) in self._states
        change = Change.DELETE if state is None else Change.MODIFY if known else Change.INSERT
        write(self.pipeline, [hot_entry(change, key, state or "", slot, lane_of(key), job)])
        if state is None:
            del self._states[job, key]
        else:
            self._states[job, key] = state

    def register(self, key: int, slot: int) -> int:
        return held(self.pipeline, lane_of(key), slot)


class BrokenSwitch(PipelineSwitch, ABC):
    """Rewrites the exactly-once cell of each request before the program reads it."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        self._rows: dict[tuple[int, int, int], int] = {}

    def add_caller(self, job: int, caller: int, epoch: int, row: int, at: Attached, privileged: bool) -> None:
        self._rows[job, caller, epoch] = row
        super().add_caller(job, caller, epoch, row, at, privileged)

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        if port != CPU_PORT:
            message = codec.parse(frames.parse(frame).payload)
            header = message.header
            row = self._rows.get((header.job, header.worker, header.epoch))
            if row is not None and header.op in (Op.PULL, Op.PUSH) and not header.flags & RESPONSE:
                cell = CELLS, row << WINDOW_BITS | header.seq & SLOT_MASK
                [value] = self.pipeline.cells.read_register(*cell, cell[1] + 1)
                self.pipeline.cells.write_register(*cell, self.rewritten(value, message))
        return super().process(port, frame, t_in, now)

    @abstractmethod
    def rewritten(self, cell: int, message: Message) -> int:
        """Return the cell (epoch, turn and served lanes of 32 bits each) for the program."""


class TodaysHits(BrokenSwitch):
    """Answers a duplicate push with the lanes that are hot now."""

    def rewritten(self, cell: int, message: Message) -> int:
        header, keys = message.header, message.keys
        if header.op != Op.PUSH or keys is None or cell >> 32 & 0xFFFFFFFF != header.seq >> WINDOW_BITS:
            return cell
        hot = [
            lane_of(key) == lane and self._states.get((header.job, key)) == "hot"
            for lane, key in enumerate(keys.tolist())
        ]
        return cell >> 32 << 32 | sum(1 << lane for lane, is_hot in enumerate(hot) if is_hot)


class EveryTurnIsNew(BrokenSwitch):
    """Adds duplicates."""

    def rewritten(self, cell: int, message: Message) -> int:
        turn = (message.header.seq >> WINDOW_BITS) - 1
        return (message.header.epoch << 32 | turn) << 32
