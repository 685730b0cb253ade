"""Statements of actions, one by one; counters, registers, meters and hashes are in `externs`."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.expressions import integer, resize
from softswitch.codegen.externs import Externs
from softswitch.codegen.output import Output
from softswitch.codegen.packet import Packet
from softswitch.errors import located
from softswitch.memory.layout import Layout


class ActionEmitter:
    """Emits statements of one program into the function that handles `packet`.

    `abandoned` is where a packet goes that is given up at once.
    """

    def __init__(
        self,
        packet: Packet,
        state: llvm.Value,
        layout: Layout,
        output: Output,
        now: llvm.Value,
        abandoned: llvm.Block,
    ) -> None:
        self.packet, self.b = packet, packet.b
        self.state = state
        self.layout = layout
        self.output = output
        self.now = now
        self.abandoned = abandoned
        self.externs = Externs(packet, state, layout, now)

    def emit(self, action: ir.Action, parameters: list[llvm.Value]) -> bool:
        """Emit one action's body; True if it leaves the control (`exit`)."""
        self.packet.parameters = parameters
        for statement, place in zip(action.body, action.places or [""] * len(action.body), strict=True):
            with located(place):
                self.statement(statement)
        return any(isinstance(statement, ir.Exit) for statement in action.body)

    def statement(self, statement: ir.Statement) -> None:
        """Emit one statement."""
        packet, arithmetic, externs = self.packet, self.packet.arithmetic, self.externs
        match statement:
            case ir.Assign(target, value):
                packet.assign(target, value)
            case ir.AssignVarbit(to, source):
                packet.copy_varbit(to, source)
            case ir.AssignHeader(to, source):
                with packet.at(to) as place, packet.at(source) as origin:
                    packet.copy(place, origin)
            case ir.CopyCursor(to, source):
                packet.set_next_index(to, packet.next_index(source))
            case ir.SetValid(header):
                with packet.at(header) as place:
                    packet.set_valid(place)
            case ir.SetInvalid(header):
                with packet.at(header) as place:
                    packet.set_invalid(place)
            case ir.Shift():
                packet.shift(statement)
            case ir.Count(counter, index):
                externs.count(counter, index)
            case ir.ExecuteMeter():
                externs.execute_meter(statement)
            case ir.RegisterRead():
                externs.read_register(statement)
            case ir.RegisterWrite():
                externs.write_register(statement)
            case ir.Hash():
                externs.hash(statement)
            case ir.Random():
                externs.random(statement)
            case ir.If(condition, then, otherwise):
                with self.b.if_else(arithmetic.truth(condition)) as (yes, no):
                    with yes:
                        self.statement(then)
                    with no:
                        self.statement(otherwise)
            case ir.Exit():
                pass
            case fate:
                self._fate(fate)

    def _fate(self, statement: ir.Statement) -> None:
        """Statements about what happens to the packet, and messages."""
        packet, arithmetic, b = self.packet, self.packet.arithmetic, self.b
        match statement:
            case ir.MarkToDrop():
                packet.store_standard("egress_spec", integer(9, ir.DROP_PORT))
                packet.store_standard("mcast_grp", integer(16, 0))
            case ir.Clone(session, fields):
                number = b.and_(arithmetic.modulo(session, 32), integer(32, 0x7FFF))
                packet.set("clone_session", b.add(number, integer(32, 1)))
                packet.set("clone_list", integer(32, fields))
            case ir.Resubmit(fields):
                packet.set("resubmit_list", integer(32, fields + 1))
            case ir.Recirculate(fields):
                packet.set("recirculate_list", integer(32, fields + 1))
            case ir.Digest(fields):
                packet.set("digest", integer(32, fields + 1))
            case ir.Truncate(length):
                self._truncate(length)
            case ir.LogMessage(message, values):
                self.output.log(message, values)
            case ir.Assert(condition, message):
                with b.if_then(b.not_(arithmetic.truth(condition)), likely=False):
                    self.output.log(message, ())
                    b.branch(self.abandoned)
            case other:
                raise AssertionError(f"no code for {other}")

    def _truncate(self, length: ir.Expression) -> None:
        value, _ = self.packet.arithmetic.exact(length)
        width = max(value.type.width, 32)
        cut = resize(self.b, self.packet.get("cut"), width)
        value = resize(self.b, value, width)
        smaller = self.b.select(self.b.icmp_unsigned("<", value, cut), value, cut)
        self.packet.set("cut", resize(self.b, smaller, 32))
