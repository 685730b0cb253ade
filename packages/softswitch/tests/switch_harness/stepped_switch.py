"""What a switch does while its Unix clock is set: P4Runtime writes, idle timeouts, meters and digests.

All of its time is the test's: nothing passes on its monotonic clock but what `_observe` lets pass, and only a
step changes the Unix clock beside it. `python -m switch_harness.stepped_switch` prints what the compiled
loop's switch did, as JSON by step. The loop is linked with the C library's clocks once in a process, so this
needs a new one.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy as np
import pytest
from finsy.proto import p4r
from llvmlite import binding

from softswitch.compiled import CompiledPipeline
from softswitch.frames.ports import FramePorts
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.pipeline import DigestMessage, Notice
from softswitch.ports import loop
from softswitch.ports.checksums import VNET_HEADER_BYTES
from softswitch.ports.options import PortOptions
from softswitch.ports.sockets import TP_STATUS_USER, TPACKET2_HDR
from switch_harness.clocks import STEPS_NS, SteppedClock
from switch_harness.entity_model import entity, named
from switch_harness.kernel import OnLoopback
from switch_harness.p4runtime import DEVICE, ENTITIES, Controller, Rig, asynchronous, rig

CPU, PORT = 255, 1
MS, S = 1_000_000, 1_000_000_000
TIMEOUT_MS, LIST_MS = 40, 20
METER = (100, 2, 100, 4)
"""A committed packet and a peak one every 10 ms, at most 2 and 4 of them at once."""
HIT, NEVER_HIT, UNKNOWN = 5, 6, 9
"""Source addresses: two have entries, of which one is hit; digests are sent of the third."""
_SLOTS, _SLOT_BYTES = 64, 256
Observations = list[list[Any]]
GREEN, YELLOW, RED = 0, 1, 2
_FULL_BUCKETS = [GREEN, GREEN, YELLOW, YELLOW, RED, RED]
EXPECTED: Observations = [
    ["colours", HIT, _FULL_BUCKETS],
    # 10 ms later, after the step: a packet of each rate more.
    ["age", HIT, 10.0],
    ["age", NEVER_HIT, 10.0],
    ["colours", HIT, [GREEN, RED]],
    ["colours", UNKNOWN, [RED]],
    ["digest", 31, [UNKNOWN]],  # of 10 ms
    ["idle", 41, [NEVER_HIT]],  # since 0 ms
    ["idle", 51, [HIT]],  # since 10 ms
    ["idle", 85, [NEVER_HIT]],  # since 41 ms
    ["age", HIT, 75.0],
    ["age", NEVER_HIT, 85.0],
    ["colours", HIT, _FULL_BUCKETS],
]
"""What every datapath does, whatever the step; times in ms since the entries were written."""


class TestClock(SteppedClock):
    """A clock whose monotonic time is that of `pass_ms` alone."""

    __test__ = False

    def __init__(self) -> None:
        self.now_ns = 77 * S
        super().__init__(lambda: self.now_ns)

    def pass_ms(self, duration_ms: int) -> None:
        self.now_ns += duration_ms * MS


class SteppedDatapath(Protocol):
    """Ports, and the pipelines that they run, whose clock is a `TestClock`."""

    @property
    def make(self) -> Callable[[Program], Any]: ...

    @property
    def ports(self) -> Any: ...

    def receive(self, frame: bytes) -> None:
        """Let a frame arrive at `PORT`, and wake up what forwards it."""


# -- datapaths


class _NoTransport:
    name = address = "none"

    def open(self, ports: FramePorts) -> None: ...

    def send(self, port: int, frame: bytes, tag: int) -> bool:
        return True

    def close(self) -> None: ...


class FramesDatapath:
    """Compiled code behind a transport of frames (`softswitch.frames`)."""

    make = staticmethod(CompiledPipeline)

    def __init__(self) -> None:
        self.ports = FramePorts(_NoTransport(), cpu_port=CPU)

    def receive(self, frame: bytes) -> None:
        self.ports.receive(PORT, frame)


class InterpretedWithNotices(InterpretedPipeline):
    """An interpreter whose notices can go through a socket."""

    def take_records(self) -> list[bytes]:
        digests = [notice for notice in self.take_notices() if isinstance(notice, DigestMessage)]
        return [json.dumps([digest.digest, digest.values]).encode() for digest in digests]

    @staticmethod
    def decode_notice(data: bytes) -> Notice:
        digest, values = json.loads(data)
        return DigestMessage(digest, tuple(values))


class DirectDatapath:
    """A pipeline that this process gives each frame, with the time of the test's clock.

    `make` compiles a program to it, and `take_records` takes its notices.
    """

    def __init__(self, make: Callable[[Program], Any], take_records: Callable[[Any], list[bytes]]) -> None:
        self.make, self._take_records = make, take_records
        self.cpu_socket, self._switch_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notice_socket, self._notice_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._start_ns = time.monotonic_ns()
        self._pipeline: Any = None

    @property
    def ports(self) -> DirectDatapath:
        return self

    def now(self) -> int:
        return (time.monotonic_ns() - self._start_ns) // 1_000

    def start(self, pipeline: Any) -> None:
        self._pipeline = pipeline
        asyncio.get_running_loop().add_reader(self._switch_end.fileno(), self._receive_from_controller)

    def stop(self) -> None:
        asyncio.get_running_loop().remove_reader(self._switch_end.fileno())

    def close(self) -> None:
        for end in (self.cpu_socket, self._switch_end, self.notice_socket, self._notice_end):
            end.close()

    def receive(self, frame: bytes) -> None:
        self._process(PORT, frame)

    def _receive_from_controller(self) -> None:
        self._process(CPU, self._switch_end.recv(1_000))

    def _process(self, port: int, frame: bytes) -> None:
        now_us = self.now()
        self._pipeline.process(port, frame, now_us, now_us)
        for record in self._take_records(self._pipeline):
            self._notice_end.send(record)


class StampedRing:
    """In place of `PortSocket`: a ring that the test fills as the kernel does, with the time of its clock."""

    slots, slot_size, index, interface = _SLOTS, _SLOT_BYTES, 1, "stamped"

    def __init__(self, port: int, interface: str, ring_bytes: int) -> None:
        self.receiver, self._kernel_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.sender = self._kernel_end
        self._memory = np.zeros((_SLOTS, _SLOT_BYTES), np.uint8)
        self._received = 0

    @property
    def address(self) -> int:
        return self._memory.ctypes.data

    def receive(self, frame: bytes) -> None:
        """Fill the next slot. The socket remains readable, so that the loop looks for frames all the time."""
        slot, at = self._memory[self._received % _SLOTS], TPACKET2_HDR.itemsize + VNET_HEADER_BYTES
        slot[at : at + len(frame)] = np.frombuffer(frame, np.uint8)
        header = slot[: TPACKET2_HDR.itemsize].view(TPACKET2_HDR)[0]
        header["tp_len"] = header["tp_snaplen"] = len(frame)
        header["tp_mac"] = at
        header["tp_sec"], header["tp_nsec"] = divmod(time.time_ns(), S)
        header["tp_status"] = TP_STATUS_USER
        self._received += 1
        if self._received == 1:
            self._kernel_end.send(b"readable")

    def read_kernel_drops(self) -> int:
        return 0

    def close(self) -> None:
        self.receiver.close()
        self._kernel_end.close()


class LoopDatapath:
    """The compiled loop of sockets with a ring; the process must have injected the clock before."""

    make = staticmethod(CompiledPipeline)

    def __init__(self) -> None:
        vars(loop)["PortSocket"] = StampedRing  # in a process that tests nothing else
        self.ports = loop.PortLoop({PORT: "stamped"}, PortOptions(cpu_port=CPU))

    def receive(self, frame: bytes) -> None:
        [ring] = self.ports._sockets
        cast(StampedRing, ring).receive(frame)


def interpreted() -> DirectDatapath:
    return DirectDatapath(InterpretedWithNotices, InterpretedWithNotices.take_records)


def in_kernel() -> DirectDatapath:
    """Return the kernel's datapath, whose program takes the time of test runs from its arena."""
    return DirectDatapath(OnLoopback, lambda pipeline: list(pipeline.notices.take()))


# -- observations


def observe_step(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], SteppedDatapath], step_ns: int
) -> Observations:
    """Return what a datapath of this process does, whose clocks are then those of a test."""
    clock = TestClock()
    monkeypatch.setattr(time, "monotonic_ns", clock.monotonic_ns)
    monkeypatch.setattr(time, "time_ns", clock.time_ns)
    found = Observations()

    @asynchronous
    async def run() -> None:
        found.extend(await _observe(make(), clock, step_ns))

    run()
    return found


async def _observe(datapath: SteppedDatapath, clock: TestClock, step_ns: int) -> Observations:
    """Set the Unix clock between two frames; return what the switch does, as in `EXPECTED`."""
    begin_ns = clock.now_ns
    async with rig(datapath.make, ports=datapath.ports) as switch:
        primary = await switch.primary(ENTITIES)
        observer = _Observer(switch, primary, datapath)
        await primary.write(*_SETTINGS)
        await observer.burst(HIT, 6)
        clock.pass_ms(10)
        clock.step(step_ns)
        await observer.ages()
        await observer.burst(HIT, 2)
        await observer.burst(UNKNOWN, 1)
        for pause_ms in (21, 10, 10, 34):
            clock.pass_ms(pause_ms)
            await observer.message((clock.now_ns - begin_ns) // MS)
        await observer.ages()
        await observer.burst(HIT, 6)
    return observer.observations


class _Observer:
    def __init__(self, switch: Rig, primary: Controller, datapath: SteppedDatapath) -> None:
        self._stub, self._primary, self._datapath = switch.stub, primary, datapath
        self._frames = 0
        self.observations: Observations = []

    async def burst(self, source: int, count: int) -> None:
        """Send frames, every second of them from the controller; observe their colours."""
        colours = list[int]()
        for number in range(count):
            frame = bytes(6) + source.to_bytes(6, "big") + b"\x12\x34" + bytes(46)
            if number % 2:
                packet = p4r.PacketOut(payload=frame)
                packet.metadata.add(metadata_id=1, value=b"\0")
                await self._primary.stream.write(p4r.StreamMessageRequest(packet=packet))
            else:
                self._datapath.receive(frame)
            self._frames += 1
            while (await self._read(_COUNT)).counter_entry.data.packet_count < self._frames:
                pass
            colours.append(int.from_bytes((await self._read(_COLOUR)).register_entry.data.bitstring, "big"))
        self.observations.append(["colours", source, colours])

    async def ages(self) -> None:
        """Observe how long ago each entry was hit, or written, in ms."""
        response = self._stub.Read(p4r.ReadRequest(device_id=DEVICE, entities=[_AGES]))
        entries = [found.table_entry async for answer in response for found in answer.entities]
        for entry in entries:
            self.observations.append(["age", _source(entry), entry.time_since_last_hit.elapsed_ns / MS])

    async def message(self, now_ms: int) -> None:
        """Wait for the next message, and observe it with the time that it should come at."""
        message = await self._primary.receive()
        idle = [_source(entry) for entry in message.idle_timeout_notification.table_entry]
        learned = [int.from_bytes(data.struct.members[0].bitstring, "big") for data in message.digest.data]
        self.observations.append(["idle", now_ms, idle] if idle else ["digest", now_ms, learned])

    async def _read(self, query: p4r.Entity) -> p4r.Entity:
        response = self._stub.Read(p4r.ReadRequest(device_id=DEVICE, entities=[query]))
        [found] = [found async for answer in response for found in answer.entities]
        return found


def _source(entry: p4r.TableEntry) -> int:
    return int.from_bytes(entry.match[0].exact.value, "big")


def _seen_entry(source: int) -> p4r.Update:
    update = p4r.Update(type=p4r.Update.INSERT, entity=entity(("seen", source), "NoAction"))
    update.entity.table_entry.idle_timeout_ns = TIMEOUT_MS * MS
    return update


def _digest_entry() -> p4r.Update:
    update = p4r.Update(type=p4r.Update.INSERT, entity=entity(("digest",), 10))
    update.entity.digest_entry.config.max_timeout_ns = LIST_MS * MS
    return update


_COUNT = p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=named("counts"), index=p4r.Index(index=0)))
_COLOUR = p4r.Entity(register_entry=p4r.RegisterEntry(register_id=named("cells"), index=p4r.Index(index=0)))
_AGES = p4r.Entity(
    table_entry=p4r.TableEntry(table_id=named("seen"), time_since_last_hit=p4r.TableEntry.IdleTimeout())
)
_SETTINGS = [
    _seen_entry(HIT),
    _seen_entry(NEVER_HIT),
    p4r.Update(type=p4r.Update.MODIFY, entity=entity(("meter", 0), METER)),
    _digest_entry(),
]


# -- the compiled loop, in a process of its own


_READ_CLOCK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p)


def observe_loop() -> dict[str, Observations]:
    """Return what the compiled loop's switch does, by step, from a process of its own."""
    program = f"import sys; sys.path[:0] = {sys.path!r}; import switch_harness.stepped_switch as s; s.main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    observations: dict[str, Observations] = json.loads(done.stdout.splitlines()[-1])
    return observations


def main() -> None:
    clock, found = TestClock(), dict[str, Observations]()
    # Compiled code that this process loads from now on is linked with the first function, and Python has
    # the other two.
    [read_clock] = map(_READ_CLOCK, clock.replacements.values())
    binding.add_symbol("clock_gettime", ctypes.cast(read_clock, ctypes.c_void_p).value)
    time.monotonic_ns, time.time_ns = clock.monotonic_ns, clock.time_ns

    @asynchronous
    async def run(name: str, step_ns: int) -> None:
        found[name] = await _observe(LoopDatapath(), clock, step_ns)

    for name, step_ns in STEPS_NS.items():
        run(name, step_ns)
    print(json.dumps(found))
