"""Action bodies, statement by statement."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.layout import WORD, Layout
from softswitch.codegen.packet import Packet
from softswitch.codegen.tables import word
from softswitch.codegen.values import integer, resize
from softswitch.codegen.wire import byte_offset


class ActionEmitter:
    """Emits actions of one program into the function that handles `packet`."""

    def __init__(self, packet: Packet, state: llvm.Value, layout: Layout) -> None:
        self.packet = packet
        self.b = packet.b
        self.state = state
        self.layout = layout

    def emit(self, action: ir.Action, parameters: list[llvm.Value]) -> bool:
        """Emit one action's body; True if it leaves the control (`exit`)."""
        self.packet.parameters = parameters
        for statement in action.body:
            self._statement(statement)
        return any(isinstance(statement, ir.Exit) for statement in action.body)

    def _statement(self, statement: ir.Statement) -> None:
        packet, arithmetic = self.packet, self.packet.arithmetic
        match statement:
            case ir.Assign(target, value):
                packet.store(target, arithmetic.modulo(value, packet.width(target)))
            case ir.SetValid(header):
                packet.set_valid(header)
            case ir.SetInvalid(header):
                packet.set_invalid(header)
            case ir.Shift(stack, count):
                packet.shift(stack, count)
            case ir.Count(counter, index):
                self._count(counter, index)
            case ir.RegisterRead(target, register, index):
                declared = packet.program.registers[register]
                with self._in_range(index, declared.size) as cell:
                    address, width = self._register_cell(register, cell)
                    value = self.b.load(address, typ=llvm.IntType(width))
                    packet.store(target, resize(self.b, value, declared.width))
            case ir.RegisterWrite(register, index, value):
                declared = packet.program.registers[register]
                written = arithmetic.modulo(value, declared.width)
                with self._in_range(index, declared.size) as cell:
                    address, width = self._register_cell(register, cell)
                    self.b.store(resize(self.b, written, width), address)
            case ir.MarkToDrop():
                packet.store_standard("egress_spec", integer(9, ir.DROP_PORT))
                packet.store_standard("mcast_grp", integer(16, 0))
            case ir.Exit():
                pass

    def _count(self, counter: int, index: ir.Expression) -> None:
        with self._in_range(index, self.packet.program.counters[counter].size) as cell:
            first = self.b.add(
                self.b.shl(cell, integer(WORD, 1)), integer(WORD, self.layout.counters[counter])
            )
            count_packet(self.packet, word(self.b, self.state, first))

    def _register_cell(self, register: int, cell: llvm.Value) -> tuple[llvm.Value, int]:
        size = self.layout.register_bytes(self.packet.program.registers[register].width)
        base = word(self.b, self.state, self.layout.registers[register])
        return byte_offset(self.b, base, self.b.mul(cell, integer(WORD, size))), size * 8

    def _in_range(self, index: ir.Expression, size: int) -> _InRange:
        return _InRange(self.packet, index, size)


class _InRange:
    """A block that runs only where the index is below `size`; enters with the index as a word."""

    def __init__(self, packet: Packet, index: ir.Expression, size: int) -> None:
        self.b = packet.b
        value, interval = packet.arithmetic.exact(index)
        self.always = interval.high < size
        self.value = value
        self.size = size

    def __enter__(self) -> llvm.Value:
        b = self.b
        if not self.always:
            width = max(self.value.type.width, self.size.bit_length())
            inside = b.icmp_unsigned("<", resize(b, self.value, width), integer(width, self.size))
            self.then = b.append_basic_block()
            self.after = b.append_basic_block()
            b.cbranch(inside, self.then, self.after)
            b.position_at_end(self.then)
        return resize(b, self.value, WORD)

    def __exit__(self, *_: object) -> None:
        if not self.always:
            self.b.branch(self.after)
            self.b.position_at_end(self.after)


def count_packet(packet: Packet, cell: llvm.Value) -> None:
    """Add this packet to the (packets, bytes) words at `cell`; BMv2 counts the length on arrival."""
    b = packet.b
    amounts = (integer(WORD, 1), resize(b, packet.ingress_length, WORD))
    for offset, amount in enumerate(amounts):
        address = word(b, cell, offset)
        b.store(b.add(b.load(address, typ=llvm.IntType(WORD)), amount), address)
