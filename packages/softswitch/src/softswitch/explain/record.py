"""An observer of the interpreter that collects events."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from softswitch import ir
from softswitch.explain import events as ev
from softswitch.explain.shadow import Shadow
from softswitch.interpreter.observer import Observer, Origin
from softswitch.interpreter.packet import Packet
from softswitch.ir.names import source_field_name, source_name
from softswitch.pipeline import DigestMessage, EntryKey, Notice, UseGroup, UseMember
from softswitch.runtime.keys import format_match
from softswitch.v1model import Colour, CoreError

SWITCH, PARSER, VERIFY, UPDATE, DEPARSER = "switch", "parser", "verify", "update", "deparser"
_INHERITING_ORIGINS = (Origin.REPLICA, Origin.EGRESS_CLONE)
"""Origins of packets that start with the headers and metadata of their parent."""


@dataclass
class _CopyFamily:
    packet: int  # number of the frame
    copy_numbers: Iterator[int] = field(default_factory=itertools.count)


@dataclass
class _PacketTrace:
    family: _CopyFamily
    copy: int  # number of the copy; 0 for the frame itself
    shadow: Shadow
    part: str = SWITCH
    state: str = ""
    has_key: bool = False
    """Whether the state selects the next one by a key."""
    table: ir.Table | None = None
    action: ir.Action | None = None

    def context(self, source: str | None = None) -> ev.Context:
        table = "" if self.table is None else source_name(self.table.name)
        if source is None:
            source = "" if self.table is None else self.table.location
        action = "" if self.action is None else source_name(self.action.name)
        return ev.Context(self.family.packet, self.copy, self.part, self.state, table, action, source)

    def leave_table(self) -> None:
        self.move_to(self.part)

    def move_to(self, part: str, state: str = "") -> None:
        self.part, self.state, self.table, self.action = part, state, None, None


class Recorder(Observer[Packet]):
    """An observer that collects events until `take`; frames are numbered from 1 without `frame_numbers`."""

    def __init__(self, program: ir.Program, frame_numbers: Iterator[int] | None = None) -> None:
        self._program = program
        self._errors = {code: name for name, code in program.errors.items()}
        self._events: list[ev.Event] = []
        self._pending: list[tuple[type[ev.Event], tuple[Any, ...]]] = []  # fields of any kind
        """Class and fields of events whose context, the statement or table, is not known yet."""
        self._last_lookup: tuple[tuple[int, ...], EntryKey | None] = ((), None)
        self._chosen_use: UseMember | UseGroup | None = None
        self._traces: dict[int, _PacketTrace] = {}
        self._frame_numbers = itertools.count(1) if frame_numbers is None else frame_numbers

    def take(self) -> list[ev.Event]:
        events, self._events = self._events, []
        return events

    # -- collecting

    def _trace(self, packet: Packet) -> _PacketTrace:
        return self._traces[id(packet)]

    def _emit(self, event: ev.Event) -> None:
        self._events.append(event)

    def _emit_switch_changes(self, packet: Packet) -> _PacketTrace:
        trace = self._trace(packet)
        context = ev.Context(trace.family.packet, trace.copy, SWITCH)
        self._events += trace.shadow.take_changes(packet, context)
        return trace

    def _emit_step(self, packet: Packet, source: str | None = None) -> None:
        trace = self._trace(packet)
        context = trace.context(source)
        self._events += (event_class(context, *values) for event_class, values in self._pending)
        self._pending.clear()
        self._events += trace.shadow.take_changes(packet, context)

    def _field_name(self, ref: ir.FieldRef) -> str:
        header = self._program.headers[ref.header]
        return source_field_name(header.name, header.fields[ref.field].name)

    # -- packets

    def begins(self, packet: Packet, origin: Origin, parent: Packet | None) -> None:
        if parent is None:
            family = _CopyFamily(next(self._frame_numbers))
            trace = _PacketTrace(family, next(family.copy_numbers), Shadow(packet))
        else:
            parent_trace = self._emit_switch_changes(parent)
            shadow = parent_trace.shadow.copy() if origin in _INHERITING_ORIGINS else Shadow(packet)
            trace = _PacketTrace(parent_trace.family, next(parent_trace.family.copy_numbers), shadow)
        self._traces[id(packet)] = trace
        weakref.finalize(packet, self._traces.pop, id(packet), None)
        parent_copy = None if parent is None else self._trace(parent).copy
        self._emit(ev.BeginEvent(trace.context(), origin.value, parent_copy, packet.port, packet.frame.hex()))
        self._emit_switch_changes(packet)

    def queued(self, packet: Packet, port: int) -> None:
        self._emit_switch_changes(packet).move_to(SWITCH)
        self._emit(ev.QueueEvent(self._trace(packet).context(), port))

    def leaves_queue(self, packet: Packet) -> None:
        self._emit_switch_changes(packet)

    def enters(self, packet: Packet, control: ir.Control) -> None:
        trace = self._emit_switch_changes(packet)
        trace.move_to(control.name)
        self._emit(ev.EnterEvent(trace.context()))

    def dropped(self, packet: Packet, reason: str) -> None:
        self._emit_step(packet)
        trace = self._trace(packet)
        trace.move_to(SWITCH)
        self._emit(ev.DropEvent(trace.context(), reason))

    def deparses(self, packet: Packet) -> None:
        self._emit_switch_changes(packet).move_to(DEPARSER)

    def deparsed(self, packet: Packet, frame: bytes) -> None:
        trace = self._trace(packet)
        headers = [header for header in self._program.deparser if packet.valid[header]]
        names = tuple(source_name(self._program.headers[header].name) for header in headers)
        payload = len(packet.frame) - packet.position
        self._emit(ev.DeparseEvent(trace.context(), names, payload, frame.hex()))

    def sent(self, packet: Packet, port: int, frame: bytes) -> None:
        trace = self._trace(packet)
        trace.move_to(SWITCH)
        self._emit(ev.SendEvent(trace.context(), port, frame.hex()))

    # -- the parser

    def reached(self, packet: Packet, state: int) -> None:
        trace, reached = self._emit_switch_changes(packet), self._program.parser[state]
        if not self._continues(trace.state, reached.name):
            trace.move_to(PARSER, source_name(reached.name))
            self._emit(ev.StateEvent(trace.context()))
        trace.has_key = bool(reached.key)

    def _continues(self, state: str, name: str) -> bool:
        """Return whether a state is a part of the one that runs, which the compiler has divided."""
        return name != state == source_name(name)

    def extracted(self, packet: Packet, header: int, start: int) -> None:
        trace, declared = self._trace(packet), self._program.headers[header]
        refs = [ir.FieldRef(header, index) for index in range(len(declared.fields))]
        values = tuple(
            ev.Value(source_name(field_type.name), hex(packet.bits(ref)), field_type.width)
            for field_type, ref in zip(declared.fields, refs, strict=True)
        )
        context, length = trace.context(), packet.position - start
        self._emit(ev.ExtractEvent(context, source_name(declared.name), start, length, values))
        trace.shadow.update_extracted(packet, header)  # so that no assignments are reported for it
        self._emit_step(packet)

    def advanced(self, packet: Packet, start: int) -> None:
        self._emit(ev.AdvanceEvent(self._trace(packet).context(), start, packet.position - start))

    def selected(self, packet: Packet, key: int, state: int | None) -> None:
        name = None if state is None else self._program.parser[state].name
        trace = self._trace(packet)
        if name is not None and self._continues(trace.state, name):
            return
        key_text = hex(key) if trace.has_key else None
        self._emit(ev.SelectEvent(trace.context(), key_text, None if name is None else source_name(name)))

    def parsed(self, packet: Packet, error: int) -> None:
        trace, name = self._trace(packet), self._errors.get(error, str(error))
        if name == CoreError.NO_ERROR.value:  # an error belongs to the state in which it occurred
            trace.move_to(PARSER)
        self._emit(ev.ParsedEvent(trace.context(), name, packet.position))
        trace.move_to(SWITCH)

    # -- controls

    def tested(self, packet: Packet, node: ir.Conditional, value: int) -> None:
        trace = self._emit_switch_changes(packet)
        trace.leave_table()
        if node.text or source_name(node.name):  # else a condition that the compiler has made
            self._emit(ev.ConditionEvent(trace.context(node.location), node.text, bool(value)))

    def looked_up(
        self, packet: Packet, table: ir.Table, key: tuple[int, ...], entry: EntryKey | None
    ) -> None:
        trace = self._emit_switch_changes(packet)
        trace.leave_table()
        trace.table = table
        self._last_lookup, self._chosen_use = (key, entry), None

    def chose(self, packet: Packet, use: UseMember | UseGroup, action_name: str | None) -> None:
        self._chosen_use = use

    def applies(self, packet: Packet, table: ir.Table, invocation: ir.Invocation | None) -> None:
        trace = self._trace(packet)
        values, entry = self._last_lookup
        data: tuple[ev.Value, ...] = ()
        if invocation is not None:
            trace.action = self._program.actions[invocation.action]
            names = trace.action.parameter_names or tuple(map(str, range(len(invocation.args))))
            data = tuple(
                ev.Value(name, hex(arg), width)
                for name, arg, width in zip(names, invocation.args, trace.action.parameters, strict=True)
            )
        event = ev.TableEvent(
            trace.context(),
            key=self._key_parts(table, values, entry),
            hit=entry is not None,
            priority=entry.priority if entry is not None and table.has_priority else None,
            member=self._chosen_use.member if isinstance(self._chosen_use, UseMember) else None,
            group=self._chosen_use.group if isinstance(self._chosen_use, UseGroup) else None,
            data=data,
        )
        if source_name(table.name):
            self._emit(event)
        self._emit_step(packet)

    def _key_parts(
        self, table: ir.Table, values: tuple[int, ...], entry: EntryKey | None
    ) -> tuple[ev.KeyPart, ...]:
        entry_matches = (
            [None] * len(values)
            if entry is None
            else [format_match(part.kind, match) for match, part in zip(entry.key, table.key, strict=True)]
        )
        fields = [
            self._field_name(part.source) if isinstance(part.source, ir.FieldRef) else ""
            for part in table.key
        ]
        return tuple(
            ev.KeyPart(part.name, hex(value), part.kind.value, match, part.width, field)
            for part, value, match, field in zip(table.key, values, entry_matches, fields, strict=True)
        )

    # -- statements

    def executed(self, packet: Packet, statement: ir.Statement, position: int = 0) -> None:
        if (request := _request_fields(packet, statement)) is not None:
            self._pending.append((ev.RequestEvent, request))
        self._emit_step(packet, self._source_location(packet, position))

    def branched(self, packet: Packet, position: int, value: int) -> None:
        trace = self._trace(packet)
        statement = None if trace.action is None else trace.action.body[position]
        text = statement.text if isinstance(statement, ir.JumpIfZero) else ""
        context = trace.context(self._source_location(packet, position))
        self._emit(ev.ConditionEvent(context, text, bool(value)))

    def _source_location(self, packet: Packet, position: int) -> str:
        action = self._trace(packet).action
        return action.locations[position] if action is not None and action.locations else ""

    # -- externs

    def read_register(self, packet: Packet, register: int, index: int, value: int | None) -> None:
        name, content = self._program.registers[register].name, _optional_hex(value)
        self._pending.append((ev.RegisterEvent, ("read", name, index, content, content)))

    def wrote_register(
        self, packet: Packet, register: int, index: int, before: int | None, value: int
    ) -> None:
        after = None if before is None else hex(value)
        name = self._program.registers[register].name
        self._pending.append((ev.RegisterEvent, ("write", name, index, _optional_hex(before), after)))

    def counted(self, packet: Packet, name: str, index: int | None, cell: list[int] | None) -> None:
        self._pending.append((ev.CounterEvent, (name, index, *(cell or (None, None)))))

    def metered(self, packet: Packet, name: str, index: int | None, colour: Colour | None) -> None:
        colour_name = None if colour is None else colour.name.lower()
        self._pending.append((ev.MeterEvent, (name, index, colour_name)))

    def calculated(self, packet: Packet, calculation: ir.Calculation, data: bytes, value: int) -> None:
        values = (source_name(calculation.name), calculation.algorithm, data.hex(), hex(value))
        self._pending.append((ev.HashEvent, values))

    def drew(self, packet: Packet, low: int, high: int, value: int | None) -> None:
        self._pending.append((ev.RandomEvent, (low, high, value)))

    def notified(self, packet: Packet, notice: Notice) -> None:
        """Emit a digest, which is sent after ingress, or a log message, which belongs to a statement."""
        if isinstance(notice, DigestMessage):
            trace = self._emit_switch_changes(packet)
            trace.move_to(SWITCH)
            name = self._program.digests[notice.digest].name
            self._emit(ev.DigestEvent(trace.context(), name, tuple(map(hex, notice.values))))
        else:
            self._pending.append((ev.LogEvent, (notice.text, notice.failed)))

    def verified(self, packet: Packet, checksum: ir.Checksum, expected: int) -> None:
        self._record_checksum(packet, checksum, VERIFY, expected)

    def updated(self, packet: Packet, checksum: ir.Checksum) -> None:
        self._record_checksum(packet, checksum, UPDATE, packet.bits(checksum.target))

    def _record_checksum(self, packet: Packet, checksum: ir.Checksum, part: str, expected: int) -> None:
        value, trace = packet.bits(checksum.target), self._trace(packet)
        if part == VERIFY:  # an update's change belongs to its step, not to the switch
            self._emit_switch_changes(packet)
        trace.move_to(part)
        values = (part, self._field_name(checksum.target), hex(value), hex(expected), value == expected)
        self._pending.append((ev.ChecksumEvent, values))
        self._emit_step(packet, self._program.calculations[checksum.calculation].location)


def _optional_hex(value: int | None) -> str | None:
    return None if value is None else hex(value)


def _request_fields(packet: Packet, statement: ir.Statement) -> tuple[str, int | None] | None:
    match statement:
        case ir.Clone():
            assert packet.clone is not None
            return "clone", packet.clone.session
        case ir.Resubmit(field_list):
            return "resubmit", field_list
        case ir.Recirculate(field_list):
            return "recirculate", field_list
        case ir.Digest(field_list):
            return "digest", field_list
        case ir.Truncate():
            return "truncate", packet.truncated_length
        case ir.Exit():
            return "exit", None
    return None
