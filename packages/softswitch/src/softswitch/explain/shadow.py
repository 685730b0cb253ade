"""Values of a packet as its trace last reported them, to find the changes that are not reported yet."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch import ir
from softswitch.explain.events import AssignEvent, Context, CursorEvent, Event, ValidityEvent
from softswitch.interpreter.packet import Packet
from softswitch.ir.names import source_field_name, source_name


class Shadow:
    def __init__(self, packet: Packet) -> None:
        self._program = packet.program
        # A packet as it begins: a trace reports all values that differ from it.
        self._copy_from(Packet(packet.program, port=0, frame=b"", ingress_length=0, length=0))

    def _copy_from(self, packet: Packet) -> None:
        self.fields = [list(values) for values in packet.fields]
        self.valid = list(packet.valid)
        self.varbits = list(packet.varbits)
        self.cursors = list(packet.cursors)

    def copy(self) -> Shadow:
        copy = object.__new__(Shadow)  # __init__ needs a packet
        copy._program = self._program
        copy.fields = [list(values) for values in self.fields]
        copy.valid, copy.varbits, copy.cursors = list(self.valid), list(self.varbits), list(self.cursors)
        return copy

    def update_extracted(self, packet: Packet, header: int) -> None:
        self.fields[header] = list(packet.fields[header])
        self.valid[header], self.varbits[header] = packet.valid[header], packet.varbits[header]
        for stack in self._program.stacks:
            if header in stack.headers:
                self.cursors[stack.cursor] = packet.cursors[stack.cursor]

    def take_changes(self, packet: Packet, context: Context) -> Iterator[Event]:
        # Each change counts as reported once its event is yielded.
        if self.cursors != packet.cursors:
            yield from self._cursor_changes(packet, context)
        if self.valid != packet.valid:
            yield from self._validity_changes(packet, context)
        if self.fields != packet.fields or self.varbits != packet.varbits:
            yield from self._field_changes(packet, context)

    def _cursor_changes(self, packet: Packet, context: Context) -> Iterator[Event]:
        for stack in self._program.stacks:
            before, after = self.cursors[stack.cursor], packet.cursors[stack.cursor]
            if before != after:
                self.cursors[stack.cursor] = after
                if name := source_name(stack.name):
                    yield CursorEvent(context, name, before, after)

    def _validity_changes(self, packet: Packet, context: Context) -> Iterator[Event]:
        for header, declared in enumerate(self._program.headers):
            if self.valid[header] != packet.valid[header]:
                self.valid[header] = packet.valid[header]
                if name := source_name(declared.name):
                    yield ValidityEvent(context, name, packet.valid[header])

    def _field_changes(self, packet: Packet, context: Context) -> Iterator[Event]:
        for header, declared in enumerate(self._program.headers):
            old_varbit_width, new_varbit_width = self.varbits[header], packet.varbits[header]
            if self.fields[header] != packet.fields[header] or old_varbit_width != new_varbit_width:
                yield from self._assignments(packet, context, header, declared)
            self.varbits[header] = new_varbit_width

    def _assignments(
        self, packet: Packet, context: Context, header: int, declared: ir.Header
    ) -> Iterator[Event]:
        reported, current = self.fields[header], packet.fields[header]
        varbit_widths = self.varbits[header], packet.varbits[header]
        for index, (before, after) in enumerate(zip(reported, current, strict=True)):
            field = declared.fields[index]
            if before == after and not (field.varbit and varbit_widths[0] != varbit_widths[1]):
                continue
            reported[index] = after
            old_width, new_width = varbit_widths if field.varbit else (field.width, field.width)
            old_bits, new_bits = before & ((1 << old_width) - 1), after & ((1 << new_width) - 1)
            name = source_field_name(declared.name, field.name)
            if name and (old_bits != new_bits or old_width != new_width):
                is_valid = declared.metadata or packet.valid[header]
                yield AssignEvent(context, name, new_width, hex(old_bits), hex(new_bits), is_valid)
