"""Replay the events of a trace, and nothing else: the resulting frames must be those that were sent.

Of the program it knows the widths of fields and the order in which the deparser emits headers.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from softswitch.explain.events import to_json
from softswitch.explain.record import Recorder
from softswitch.interpreter import InterpretedPipeline
from softswitch.ir import Program
from softswitch.pipeline import ControlPlane
from switch_harness.state import cells

Line = dict[str, Any]
"""An event as its JSON has it."""
AS_PARENT = ("replica", "egress clone")


@dataclass
class Copy:
    data: bytes
    taken: int = 0
    values: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    widths: dict[str, int] = field(default_factory=dict)
    valid: set[str] = field(default_factory=set)
    deparsed: bytes = b""


class Replay:
    """Takes the events of one frame after another; registers and counters last."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.declared = {header.name: header for header in program.headers}
        self.registers: dict[tuple[str, int], int] = {}
        self.counters: dict[tuple[str, int], tuple[int, int]] = {}

    def frame(self, events: list[Line]) -> list[tuple[int, bytes]]:
        self.copies: dict[int, Copy] = {}
        self.sent: list[tuple[int, bytes]] = []
        for event in events:
            do = getattr(self, event["kind"], None)
            if do is not None:
                do(event, self.copies.get(event["copy"]))
        return self.sent

    def begin(self, event: Line, _: Copy | None) -> None:
        assert event["copy"] == len(self.copies)
        if event["origin"] in AS_PARENT:
            self.copies[event["copy"]] = deepcopy(self.copies[event["parent"]])
        else:
            self.copies[event["copy"]] = Copy(bytes.fromhex(event["data"]))

    def extract(self, event: Line, copy: Copy) -> None:
        header = self.declared[event["header"]]
        at, end = event["start"], event["start"] + event["length"]
        for each in event["fields"]:
            copy.values[f"{header.name}.{each['name']}"] = int(each["value"], 16)
        if header.varbit_position is not None:
            name = f"{header.name}.{header.fields[header.varbit_position].name}"
            copy.widths[name] = 8 * event["length"] - header.bits
        copy.valid.add(header.name)
        copy.taken = end
        assert self.bytes_of(copy, header.name) == copy.data[at:end]

    def advance(self, event: Line, copy: Copy) -> None:
        assert event["start"] == copy.taken
        copy.taken += event["length"]

    def parsed(self, event: Line, copy: Copy) -> None:
        assert event["taken"] == copy.taken

    def assign(self, event: Line, copy: Copy) -> None:
        name = event["field"]
        assert copy.values[name] == int(event["before"], 16)
        copy.values[name], copy.widths[name] = int(event["after"], 16), event["width"]

    def validity(self, event: Line, copy: Copy) -> None:
        assert event["valid"] is (event["header"] not in copy.valid)
        (copy.valid.add if event["valid"] else copy.valid.remove)(event["header"])

    def deparse(self, event: Line, copy: Copy) -> None:
        headers = [self.program.headers[index].name for index in self.program.deparser]
        assert event["headers"] == [name for name in headers if name in copy.valid]
        emitted = b"".join(self.bytes_of(copy, name) for name in event["headers"])
        assert len(copy.data) - copy.taken == event["payload"]
        copy.deparsed = emitted + copy.data[copy.taken :]
        assert copy.deparsed.hex() == event["data"]

    def send(self, event: Line, copy: Copy) -> None:
        data = bytes.fromhex(event["data"])
        assert copy.deparsed.startswith(data)
        self.sent.append((event["port"], data))

    def register(self, event: Line, _: Copy) -> None:
        if event["before"] is not None:
            cell = event["name"], event["index"]
            assert self.registers.get(cell, 0) == int(event["before"], 16)
            self.registers[cell] = int(event["after"], 16)

    def counter(self, event: Line, _: Copy) -> None:
        if event["index"] is not None and event["packets"] is not None:
            packets, octets = self.counters.get((event["name"], event["index"]), (0, 0))
            assert event["packets"] == packets + 1 and event["bytes"] >= octets
            self.counters[event["name"], event["index"]] = event["packets"], event["bytes"]

    def bytes_of(self, copy: Copy, name: str) -> bytes:
        bits = width = 0
        for each in self.declared[name].fields:
            full = f"{name}.{each.name}"
            size = copy.widths.get(full, 0) if each.varbit else each.width
            bits, width = bits << size | copy.values[full], width + size
        return bits.to_bytes(width // 8, "big")


class ObservedPair:
    """An interpreter that is observed, one that is not, and what a reader of the trace makes of it."""

    def __init__(self, program: Program, prepare: Callable[[ControlPlane], None], queues: int = 1) -> None:
        self.recorder = Recorder(program)
        self.observed = InterpretedPipeline(program, queues, self.recorder)
        self.alone = InterpretedPipeline(program, queues)
        self.replay = Replay(program)
        for pipeline in (self.observed, self.alone):
            prepare(pipeline)
            pipeline.seed_random(7)

    def process(self, port: int, frame: bytes, now: int) -> None:
        outputs = self.observed.process(port, frame, now, now + 3)
        assert outputs == self.alone.process(port, frame, now, now + 3)
        assert self.observed.take_notices() == self.alone.take_notices()
        lines = [json.loads(to_json(event)) for event in self.recorder.take()]
        assert self.replay.frame(lines) == outputs

    def check_state(self) -> None:
        assert cells(self.observed) == cells(self.alone)
        for (name, index), value in self.replay.registers.items():
            assert self.observed.cells.read_register(name, index, index + 1) == [value]
        for (name, index), (packets, octets) in self.replay.counters.items():
            assert self.observed.cells.read_counter(name, index, index + 1) == [(packets, octets)]
