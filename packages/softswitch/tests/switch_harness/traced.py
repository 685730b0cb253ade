"""A program, interpreted, that tells what frames reach in it, miss in tables and read in invalid headers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

from softswitch import ir
from softswitch.conformance.client import pipeline_config
from softswitch.interpreter import InterpretedPipeline
from softswitch.interpreter.packet import Packet
from softswitch.p4runtime.control import ControlledPipeline
from softswitch.p4runtime.messages import adopt, p4r
from softswitch.pipeline import EntryKey, LogRecord
from softswitch.testing.coverage import TABLE, Coverage, CoverageRecorder
from switch_harness.twins import STEP_US

_WRITTEN = "target"


class Traced:
    """The program of a path without suffix."""

    def __init__(self, program: Path) -> None:
        config = pipeline_config(program)
        self.p4info, self._now = config.p4info, 0
        self.fails_assertion = False
        """Whether the last frame failed an assertion, which would end BMv2."""
        self._control = ControlledPipeline(config, self._make, lambda: self._now)

    def _make(self, program: ir.Program) -> InterpretedPipeline:
        self._recorder = _Recorder(program)
        return InterpretedPipeline(program, observer=self._recorder)

    @property
    def pipeline(self) -> InterpretedPipeline:
        return self._control.pipeline

    @property
    def coverage(self) -> Coverage:
        return self._recorder.coverage

    def write(self, update: p4r.Update) -> bool:
        return self._control.write(p4r.WriteRequest(updates=[adopt(update)])) == [None]

    def process(self, port: int, frame: bytes) -> None:
        self._now += STEP_US
        self._recorder.begin()
        self._control.pipeline.process(port, frame, self._now, self._now)
        notices = self._control.pipeline.take_notices()
        self.fails_assertion = any(isinstance(notice, LogRecord) and notice.failed for notice in notices)
        self._recorder.take()

    @property
    def missed(self) -> list[tuple[ir.Table, tuple[int, ...]]]:
        return self._recorder.missed

    @property
    def reads_invalid(self) -> bool:
        """Whether the last frame read a field of an invalid header, as a key of a table excepted."""
        return self._recorder.reads_invalid

    def hits(self) -> str:
        tables = [place for place in self.coverage.places if place[0] == TABLE and place[1].endswith(" hit")]
        return f"{sum(place in self.coverage.reached for place in tables)} of {len(tables)} tables hit"


class _Recorder(CoverageRecorder):
    def __init__(self, program: ir.Program) -> None:
        super().__init__(program)
        self._program = program
        self.begin()

    def begin(self) -> None:
        self.missed: list[tuple[ir.Table, tuple[int, ...]]] = []
        self.reads_invalid = False

    def looked_up(
        self, packet: Packet, table: ir.Table, key: tuple[int, ...], entry: EntryKey | None
    ) -> None:
        if entry is None and table.key:
            self.missed.append((table, key))
        super().looked_up(packet, table, key, entry)

    def executed(self, packet: Packet, statement: ir.Statement, position: int = 0) -> None:
        self._note(packet, statement)
        super().executed(packet, statement, position)

    def tested(self, packet: Packet, node: ir.Conditional, value: int) -> None:
        self._note(packet, node.condition)
        super().tested(packet, node, value)

    def calculated(self, packet: Packet, calculation: ir.Calculation, data: bytes, value: int) -> None:
        self._note(packet, calculation)
        super().calculated(packet, calculation, data, value)

    def _note(self, packet: Packet, read: object) -> None:
        if not all(packet.valid[header] for header in headers_read(read)):
            self.reads_invalid = True


@cache
def headers_read(node: object) -> frozenset[int]:
    """Return the headers whose fields a statement, expression or calculation reads."""
    return frozenset(ref.header for ref in _fields_read(node))


def _fields_read(node: object) -> Iterator[ir.FieldRef]:
    if isinstance(node, ir.FieldRef):
        yield node
    elif isinstance(node, tuple):
        for each in node:
            yield from _fields_read(each)
    elif is_dataclass(node):
        for field in fields(node):
            if field.name != _WRITTEN:
                yield from _fields_read(getattr(node, field.name))
