"""An observer that makes events of what the interpreter tells it."""

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
from softswitch.pipeline import DigestMessage, EntryKey, Notice, UseGroup, UseMember
from softswitch.v1model import Colour, CoreError

SWITCH, PARSER, VERIFY, UPDATE, DEPARSER = "switch", "parser", "verify", "update", "deparser"
"""Parts of the switch besides the controls, which have their own names."""
_AS_PARENT = (Origin.REPLICA, Origin.EGRESS_CLONE)
"""Packets that begin with what their parent has."""


@dataclass
class _Family:
    """All that came of one frame."""

    packet: int
    copies: Iterator[int] = field(default_factory=itertools.count)


@dataclass
class _Journey:
    """Where a packet is."""

    family: _Family
    copy: int
    shadow: Shadow
    part: str = SWITCH
    state: str = ""
    table: ir.Table | None = None
    action: ir.Action | None = None

    def context(self, source: str | None = None) -> ev.Context:
        """The context of what happens here; without `source` that of the table."""
        table = "" if self.table is None else self.table.name
        if source is None:
            source = "" if self.table is None else self.table.location
        action = "" if self.action is None else self.action.name
        return ev.Context(self.family.packet, self.copy, self.part, self.state, table, action, source)

    def go(self, part: str, state: str = "") -> None:
        """Be in another part, in no table."""
        self.part, self.state, self.table, self.action = part, state, None, None


class Recorder(Observer[Packet]):
    """Collects events until they are taken."""

    def __init__(self, program: ir.Program, numbers: Iterator[int] | None = None) -> None:
        """`numbers` are those of the frames, from 1 on where they are left out."""
        self._program = program
        self._errors = {code: name for name, code in program.errors.items()}
        self._without_choice = {state.name for state in program.parser if not state.key}
        self._events: list[ev.Event] = []
        self._waiting: list[tuple[type[ev.Event], tuple[Any, ...]]] = []
        """What a statement or table does, until it is known which one it is."""
        self._entry: tuple[tuple[int, ...], EntryKey | None] = ((), None)
        self._use: UseMember | UseGroup | None = None
        self._journeys: dict[int, _Journey] = {}
        self._numbers = itertools.count(1) if numbers is None else numbers

    def take(self) -> list[ev.Event]:
        """What has happened since the last call, in order."""
        taken, self._events = self._events, []
        return taken

    # -- how events are made

    def _of(self, packet: Packet) -> _Journey:
        return self._journeys[id(packet)]

    def _tell(self, event: ev.Event) -> None:
        self._events.append(event)

    def _settle(self, packet: Packet) -> _Journey:
        """Tell what the switch itself has changed in metadata."""
        journey = self._of(packet)
        context = ev.Context(journey.family.packet, journey.copy, SWITCH)
        self._events += journey.shadow.changes(packet, context)
        return journey

    def _happened(self, packet: Packet, source: str | None = None) -> None:
        """Tell what a step has done, and what it has changed in the packet."""
        journey = self._of(packet)
        context = journey.context(source)
        self._events += (kind(context, *rest) for kind, rest in self._waiting)
        self._waiting.clear()
        self._events += journey.shadow.changes(packet, context)

    def _name(self, ref: ir.FieldRef) -> str:
        header = self._program.headers[ref.header]
        return f"{header.name}.{header.fields[ref.field].name}"

    # -- the packet's way

    def begins(self, packet: Packet, origin: Origin, parent: Packet | None) -> None:
        """Give it a number; a copy begins with what has been told of its parent."""
        if parent is None:
            journey = _Journey(_Family(next(self._numbers)), 0, Shadow(packet))
            next(journey.family.copies)
        else:
            before = self._settle(parent)
            shadow = before.shadow.copied() if origin in _AS_PARENT else Shadow(packet)
            journey = _Journey(before.family, next(before.family.copies), shadow)
        self._journeys[id(packet)] = journey
        weakref.finalize(packet, self._journeys.pop, id(packet), None)
        of = None if parent is None else self._of(parent).copy
        self._tell(ev.Begin(journey.context(), origin.value, of, packet.port, packet.frame.hex()))
        self._settle(packet)

    def queued(self, packet: Packet, port: int) -> None:
        """It is on its way to egress."""
        self._settle(packet).go(SWITCH)
        self._tell(ev.Queue(self._of(packet).context(), port))

    def leaves_queue(self, packet: Packet) -> None:
        """What egress reads is set."""
        self._settle(packet)

    def enters(self, packet: Packet, control: ir.Control) -> None:
        """A control begins."""
        journey = self._settle(packet)
        journey.go(control.name)
        self._tell(ev.Enter(journey.context()))

    def dropped(self, packet: Packet, reason: str) -> None:
        """Nothing more happens to it."""
        self._happened(packet)
        journey = self._of(packet)
        journey.go(SWITCH)
        self._tell(ev.Drop(journey.context(), reason))

    def deparses(self, packet: Packet) -> None:
        """The deparser begins."""
        self._settle(packet).go(DEPARSER)

    def deparsed(self, packet: Packet, frame: bytes) -> None:
        """The headers that are valid make a frame."""
        journey = self._of(packet)
        headers = [header for header in self._program.deparser if packet.valid[header]]
        names = tuple(self._program.headers[header].name for header in headers)
        payload = len(packet.frame) - packet.position
        self._tell(ev.Deparse(journey.context(), names, payload, frame.hex()))

    def sent(self, packet: Packet, port: int, frame: bytes) -> None:
        """The frame leaves the switch."""
        journey = self._of(packet)
        journey.go(SWITCH)
        self._tell(ev.Send(journey.context(), port, frame.hex()))

    # -- the parser

    def reached(self, packet: Packet, state: int) -> None:
        """A state begins."""
        journey = self._settle(packet)
        journey.go(PARSER, self._program.parser[state].name)
        self._tell(ev.State(journey.context()))

    def extracted(self, packet: Packet, header: int, start: int) -> None:
        """A header was filled."""
        journey, declared = self._of(packet), self._program.headers[header]
        refs = [ir.FieldRef(header, index) for index in range(len(declared.fields))]
        values = tuple(
            ev.Value(each.name, hex(packet.bits(ref)))
            for each, ref in zip(declared.fields, refs, strict=True)
        )
        context, length = journey.context(), packet.position - start
        self._tell(ev.Extract(context, declared.name, start, length, values))
        journey.shadow.note_extraction(packet, header)
        self._happened(packet)

    def advanced(self, packet: Packet, start: int) -> None:
        """Bytes were skipped."""
        self._tell(ev.Advance(self._of(packet).context(), start, packet.position - start))

    def selected(self, packet: Packet, key: int, state: int | None) -> None:
        """A state has its successor."""
        name = None if state is None else self._program.parser[state].name
        context = self._of(packet).context()
        self._tell(ev.Select(context, None if context.state in self._without_choice else hex(key), name))

    def parsed(self, packet: Packet, error: int) -> None:
        """The parser has ended."""
        journey, name = self._of(packet), self._errors.get(error, str(error))
        if name == CoreError.NO_ERROR.value:
            journey.go(PARSER)
        self._tell(ev.Parsed(journey.context(), name, packet.position))
        journey.go(SWITCH)

    # -- controls

    def tested(self, packet: Packet, node: ir.Conditional, value: int) -> None:
        """An `if` was decided."""
        journey = self._settle(packet)
        journey.go(journey.part)
        self._tell(ev.Condition(journey.context(node.location), node.text, bool(value)))

    def looked_up(
        self, packet: Packet, table: ir.Table, key: tuple[int, ...], entry: EntryKey | None
    ) -> None:
        """The entry is known; what it does will be."""
        journey = self._settle(packet)
        journey.go(journey.part)
        journey.table = table
        self._entry, self._use = (key, entry), None

    def chose(self, packet: Packet, use: UseMember | UseGroup, call: str | None) -> None:
        """A member or group gives the action."""
        self._use = use

    def applies(self, packet: Packet, table: ir.Table, invocation: ir.Invocation | None) -> None:
        """A table's action runs next."""
        journey = self._of(packet)
        values, entry = self._entry
        data: tuple[ev.Value, ...] = ()
        if invocation is not None:
            journey.action = self._program.actions[invocation.action]
            names = journey.action.data or tuple(map(str, range(len(invocation.args))))
            data = tuple(ev.Value(name, hex(arg)) for name, arg in zip(names, invocation.args, strict=True))
        found = ev.Table(
            journey.context(),
            _key(table, values, entry),
            entry is not None,
            entry.priority if entry is not None and table.has_priority else None,
            self._use.member if isinstance(self._use, UseMember) else None,
            self._use.group if isinstance(self._use, UseGroup) else None,
            data,
        )
        self._tell(found)
        self._happened(packet)

    # -- statements

    def executed(self, packet: Packet, statement: ir.Statement, position: int = 0) -> None:
        """A statement has run."""
        if (request := _request(packet, statement)) is not None:
            self._waiting.append((ev.Request, request))
        self._happened(packet, self._source(packet, position))

    def branched(self, packet: Packet, position: int, value: int) -> None:
        """A branch of an action was decided."""
        context = self._of(packet).context(self._source(packet, position))
        self._tell(ev.Condition(context, "", bool(value)))

    def _source(self, packet: Packet, position: int) -> str:
        action = self._of(packet).action
        return action.locations[position] if action is not None and action.locations else ""

    # -- externs

    def read_register(self, packet: Packet, register: int, index: int, value: int | None) -> None:
        """A register was read."""
        name, held = self._program.registers[register].name, _hex(value)
        self._waiting.append((ev.Register, ("read", name, index, held, held)))

    def wrote_register(
        self, packet: Packet, register: int, index: int, before: int | None, value: int
    ) -> None:
        """A register was written."""
        after = None if before is None else hex(value)
        name = self._program.registers[register].name
        self._waiting.append((ev.Register, ("write", name, index, _hex(before), after)))

    def counted(self, packet: Packet, name: str, index: int | None, cell: list[int] | None) -> None:
        """A counter has counted."""
        self._waiting.append((ev.Counter, (name, index, *(cell or (None, None)))))

    def metered(self, packet: Packet, name: str, index: int | None, colour: Colour | None) -> None:
        """A meter has given a colour."""
        shade = None if colour is None else colour.name.lower()
        self._waiting.append((ev.Meter, (name, index, shade)))

    def calculated(self, packet: Packet, calculation: ir.Calculation, data: bytes, value: int) -> None:
        """A hash was computed."""
        what = (calculation.name, calculation.algorithm, data.hex(), hex(value))
        self._waiting.append((ev.Hash, what))

    def drew(self, packet: Packet, low: int, high: int, value: int | None) -> None:
        """A random number was drawn."""
        self._waiting.append((ev.Random, (low, high, value)))

    def notified(self, packet: Packet, notice: Notice) -> None:
        """The program has a digest, which goes out behind ingress, or a text, which a statement logs."""
        if isinstance(notice, DigestMessage):
            journey = self._settle(packet)
            journey.go(SWITCH)
            name = self._program.digests[notice.digest].name
            self._tell(ev.Digest(journey.context(), name, tuple(map(hex, notice.values))))
        else:
            self._waiting.append((ev.Log, (notice.text, notice.failed)))

    def verified(self, packet: Packet, checksum: ir.Checksum, expected: int) -> None:
        """A checksum was compared."""
        self._summed(packet, checksum, VERIFY, expected)

    def updated(self, packet: Packet, checksum: ir.Checksum) -> None:
        """A checksum was stored."""
        self._summed(packet, checksum, UPDATE, packet.bits(checksum.target))

    def _summed(self, packet: Packet, checksum: ir.Checksum, part: str, expected: int) -> None:
        value, journey = packet.bits(checksum.target), self._of(packet)
        if part == VERIFY:
            self._settle(packet)
        journey.go(part)
        what = (part, self._name(checksum.target), hex(value), hex(expected), value == expected)
        self._waiting.append((ev.Checksum, what))
        self._happened(packet, self._program.calculations[checksum.calculation].location)


def _hex(value: int | None) -> str | None:
    return None if value is None else hex(value)


def _key(table: ir.Table, values: tuple[int, ...], entry: EntryKey | None) -> tuple[ev.KeyPart, ...]:
    asked = (
        [None] * len(values)
        if entry is None
        else [_match(match, part) for match, part in zip(entry.key, table.key, strict=True)]
    )
    return tuple(
        ev.KeyPart(part.name, hex(value), part.kind.value, match)
        for part, value, match in zip(table.key, values, asked, strict=True)
    )


def _match(match: ir.Match, part: ir.KeyField) -> str:
    """What an entry asks of a field, as BMv2's CLI writes it."""
    match match:
        case ir.Between(low, high):
            return f"{low:#x}->{high:#x}"
        case ir.Masked(value, mask) if part.kind is ir.MatchKind.LPM:
            return f"{value:#x}/{mask.bit_count()}"
        case ir.Masked(value, mask):
            return f"{value:#x}&&&{mask:#x}"
    return hex(match)


def _request(packet: Packet, statement: ir.Statement) -> tuple[str, int | None] | None:
    """What a statement asks for."""
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
            return "truncate", packet.truncated
        case ir.Exit():
            return "exit", None
    return None
