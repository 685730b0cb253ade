"""Switches for the testbed: a plain model of the data plane, and the real program behind the same methods."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from controller.tables import CPU_PORT
from foundation.protocol import codec, frames
from foundation.protocol.codec import Message
from foundation.protocol.errors import MalformedDatagram
from foundation.protocol.frames import UdpEndpoint, UdpFrame
from foundation.protocol.hashing import lane_of
from foundation.protocol.header import KEYS, RESPONSE, SLOT_MASK, VALUES, WINDOW_BITS, Header, Op
from softswitch.pipeline import Change, EntryWrite, Output, Pipeline
from tests.harness.testnet import INGRESS, held, hot_entry, insert, number, write
from tests.harness.wire import MODULUS


class Attached(NamedTuple):
    """A host's end of the wire and its switch port."""

    end: UdpEndpoint
    port: int


class Switch(Protocol):
    """A switch with the tables of p4src/. Frames are whole Ethernet frames, times µs."""

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]: ...

    def set_job(self, job: int, offload: bool, proxy: bool) -> None: ...

    def add_server(self, job: int, ps: int, server: Attached, service: UdpEndpoint) -> None: ...

    def add_caller(
        self, job: int, caller: int, epoch: int, row: int, at: Attached, privileged: bool
    ) -> None: ...

    def remove_caller(self, job: int, caller: int, epoch: int) -> None: ...

    def set_entry(self, job: int, key: int, state: str | None, slot: int) -> None:
        """Insert, change or (None) delete a key's entry."""
        ...

    def register(self, key: int, slot: int) -> int: ...


class PipelineSwitch:
    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._states: dict[tuple[int, int], str] = {}
        self._jobs: set[int] = set()
        self.process = pipeline.process

    def set_job(self, job: int, offload: bool, proxy: bool) -> None:
        entry = insert("identify.jobs", (job,), "identify.set_job", int(offload), int(proxy))
        change = Change.MODIFY if job in self._jobs else Change.INSERT
        self._jobs.add(job)
        write(self.pipeline, [entry._replace(change=change)])

    def add_server(self, job: int, ps: int, server: Attached, service: UdpEndpoint) -> None:
        data = (*_numbers(server.end), server.port, *_numbers(service))
        write(self.pipeline, [insert("identify.servers", (job, ps), "identify.set_server", *data)])

    def add_caller(self, job: int, caller: int, epoch: int, row: int, at: Attached, privileged: bool) -> None:
        data = (row, *_numbers(at.end), at.port, int(privileged))
        write(self.pipeline, [insert("identify.workers", (job, caller, epoch), "identify.set_worker", *data)])

    def remove_caller(self, job: int, caller: int, epoch: int) -> None:
        gone = EntryWrite(Change.DELETE, INGRESS + "identify.workers", (job, caller, epoch))
        write(self.pipeline, [gone])

    def set_entry(self, job: int, key: int, state: str | None, slot: int) -> None:
        known = (job, key) in self._states
        change = Change.DELETE if state is None else Change.MODIFY if known else Change.INSERT
        write(self.pipeline, [hot_entry(change, key, state or "", slot, lane_of(key), job)])
        if state is None:
            del self._states[job, key]
        else:
            self._states[job, key] = state

    def register(self, key: int, slot: int) -> int:
        return held(self.pipeline, lane_of(key), slot)


def _numbers(end: UdpEndpoint) -> tuple[int, int, int]:
    return number(end.mac), number(end.address), end.port


class _Caller(NamedTuple):
    row: int
    at: Attached
    privileged: bool


class PlainSwitch:
    """The rules of docs/design.md in dictionaries. Trusts frames to be well-formed; keeps no counters."""

    def __init__(self) -> None:
        self._jobs: dict[int, tuple[bool, bool]] = {}
        self._servers: dict[tuple[int, int], tuple[Attached, UdpEndpoint]] = {}
        self._callers: dict[tuple[int, int, int], _Caller] = {}
        self._entries: dict[tuple[int, int], tuple[str, int]] = {}
        self._registers: dict[tuple[int, int], int] = {}
        self._cells: dict[tuple[int, int], tuple[int, int, int]] = {}

    def set_job(self, job: int, offload: bool, proxy: bool) -> None:
        self._jobs[job] = offload, proxy

    def add_server(self, job: int, ps: int, server: Attached, service: UdpEndpoint) -> None:
        self._servers[job, ps] = server, service

    def add_caller(self, job: int, caller: int, epoch: int, row: int, at: Attached, privileged: bool) -> None:
        self._callers[job, caller, epoch] = _Caller(row, at, privileged)

    def remove_caller(self, job: int, caller: int, epoch: int) -> None:
        del self._callers[job, caller, epoch]

    def set_entry(self, job: int, key: int, state: str | None, slot: int) -> None:
        if state is None:
            del self._entries[job, key]
        else:
            self._entries[job, key] = state, slot

    def register(self, key: int, slot: int) -> int:
        return self._registers.get((lane_of(key), slot), 0)

    def process(self, port: int, frame: bytes, t_in: int, now: int) -> list[Output]:
        if port == CPU_PORT:
            head, frame = frame[:2], frame[2:]
            if head != frames.packet_out_header(None):
                return [Output(int.from_bytes(head, "big") >> 7, frame)]
        parsed = frames.parse(frame)
        if parsed.payload[1] == Op.CONTROL:
            return [Output(CPU_PORT, (port << 7).to_bytes(2, "big") + frame)]
        try:
            message = codec.parse(parsed.payload)
        except MalformedDatagram:
            return []
        header = message.header
        caller = self._callers.get((header.job, header.worker, header.epoch))
        if caller is None:
            return []
        server, service = self._servers[header.job, header.ps]
        if header.flags & RESPONSE:
            assert port == server.port
            return [_out(caller.at, service, parsed.payload)]
        assert port == caller.at.port
        offload, proxy = self._jobs[header.job]
        slots = self._hits(message, offload, caller.privileged)
        hits = sum(1 << lane for lane in slots)
        turn = self._turn(caller.row, header, hits)
        if turn is None:
            return []
        is_duplicate, served = turn
        values = np.zeros(header.count, dtype=np.uint32)
        for lane, slot in slots.items():
            register = lane, slot
            if header.op == Op.PULL:
                values[lane] = self._registers.get(register, 0)
            elif not is_duplicate:
                assert message.values is not None
                self._registers[register] = (
                    self._registers.get(register, 0) + int(message.values[lane])
                ) % MODULUS
        header = header._replace(served=served)
        if header.op != Op.EMPTY and (caller.privileged or served == header.live):
            is_pull = header.op == Op.PULL
            answer = header._replace(flags=RESPONSE | (VALUES if is_pull else 0))
            return [_out(caller.at, service, codec.build(Message(answer, None, values if is_pull else None)))]
        if header.op == Op.PULL and served:
            header = header._replace(flags=KEYS | VALUES)
            message = message._replace(values=values)
        source = service if proxy else parsed.source
        return [_out(server, source, codec.build(message._replace(header=header)))]

    def _hits(self, message: Message, offload: bool, privileged: bool) -> dict[int, int]:
        """Return the slot by lane of the keys that this caller reaches."""
        states = {"hot", "reserved", "draining"} if privileged else {"hot"} if offload else set()
        slots = {}
        for lane, key in enumerate([] if message.keys is None else message.keys.tolist()):
            state, slot = self._entries.get((message.header.job, key), ("", 0))
            if message.header.live >> lane & 1 and state in states and lane == lane_of(key):
                slots[lane] = slot
        return slots

    def _turn(self, row: int, header: Header, hits: int) -> tuple[bool, int] | None:
        """Return whether it is a duplicate and the lanes served; None for a packet out of turn."""
        cell = row, header.seq & SLOT_MASK
        epoch, last, stored = self._cells.get(cell, (0, 0, 0))
        turn = header.seq >> WINDOW_BITS
        if epoch != header.epoch:
            last = 0
        if turn == last + 1:
            self._cells[cell] = header.epoch, turn, hits
            return False, hits
        if turn != last or turn == 0:
            return None
        return True, self.served_of_duplicate(header, hits, stored)

    def served_of_duplicate(self, header: Header, hits: int, stored: int) -> int:
        """Return the served lanes of a duplicate: for a push those of its first copy, which were added."""
        return stored if header.op == Op.PUSH else hits


def _out(to: Attached, source: UdpEndpoint, payload: bytes | bytearray) -> Output:
    return Output(to.port, frames.build(UdpFrame(source, to.end, bytes(payload))))
