"""Emit statements of actions; `externs` has counters, registers, meters and hashes."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.externs import Externs
from softswitch.codegen.loops import OpaqueVariable, Variable
from softswitch.codegen.output import OutputWriter
from softswitch.codegen.packet import Packet
from softswitch.errors import add_location
from softswitch.limits import MAX_BACKWARD_JUMPS
from softswitch.llvmir import integer, resize
from softswitch.memory.layout import Layout
from softswitch.target import target_of
from softswitch.v1model import CLONE_SESSIONS, DROP_PORT, PORT_BITS


class ActionEmitter:
    def __init__(
        self,
        packet: Packet,
        state: llvm.Value,
        layout: Layout,
        output: OutputWriter,
        now: llvm.Value,
        next_packet_block: llvm.Block,
    ) -> None:
        self.packet, self.b = packet, packet.b
        self.state = state
        self.layout = layout
        self.output = output
        self.now = now
        self.next_packet_block = next_packet_block
        self.externs = Externs(packet, state, layout, now)

    def emit(self, action: ir.Action, parameters: list[llvm.Value]) -> llvm.Value:
        """Emit an action's body; return an `i1`: whether it leaves the control (`exit`)."""
        self.packet.parameters = parameters
        self._has_exited = Variable(self.b, llvm.IntType(1))
        if any(isinstance(statement, ir.CountLoop) for statement in action.body):
            self._loop_count = OpaqueVariable(self.b, llvm.IntType(32))
        blocks = _append_jump_blocks(self.b, action.body)
        locations = action.locations or [""] * len(action.body)
        for position, (statement, location) in enumerate(zip(action.body, locations, strict=True)):
            self._enter_block(blocks.get(position))
            with add_location(location):
                match statement:
                    case ir.Jump(target):
                        self.b.branch(blocks[target])
                    case ir.JumpIfZero(condition, target):
                        is_true = self.packet.arithmetic.truth(condition)
                        self.b.cbranch(is_true, blocks[position + 1], blocks[target])
                    case ir.CountLoop(message):
                        self._count_iteration(message)
                        self._hide_assigned(_loop_body(action.body, position))
                    case _:
                        self.emit_statement(statement)
        self._enter_block(blocks.get(len(action.body)))
        return self._has_exited.get()

    def _enter_block(self, block: llvm.Block | None) -> None:
        if block is not None:
            if not self.b.block.is_terminated:
                self.b.branch(block)
            self.b.position_at_end(block)

    def _count_iteration(self, message: int) -> None:
        target_of(self.b.module).loop_guard(self.b)
        self._loop_count.set(self.b.add(self._loop_count.get(), integer(32, 1)))
        is_at_limit = self.b.icmp_unsigned("==", self._loop_count.get(), integer(32, MAX_BACKWARD_JUMPS))
        self._fail_if(is_at_limit, message)

    def _hide_assigned(self, body: Sequence[ir.Statement]) -> None:
        """Hide the values that a loop assigns from the kernel's verifier.

        Otherwise it explores the values of the loop's variable one by one, in nested loops all pairs.
        """
        packet, target = self.packet, target_of(self.b.module)
        for ref in dict.fromkeys(field for statement in body for field in ir.target_fields(statement)):
            declared = packet.type_of(ref)
            if declared.width and not declared.varbit:
                packet.store(ref, target.black_box(self.b, packet.load_stored(ref)))

    def emit_statement(self, statement: ir.Statement) -> None:
        packet, arithmetic, externs = self.packet, self.packet.arithmetic, self.externs
        match statement:
            case ir.Assign(target, value):
                packet.assign(target, value)
            case ir.AssignVarbit(destination, source):
                packet.copy_varbit(destination, source)
            case ir.AssignHeader(destination, source):
                with packet.instance_at(destination) as copy, packet.instance_at(source) as original:
                    packet.copy(copy, original)
            case ir.CopyCursor(destination, source):
                packet.set_next_index(destination, packet.next_index(source))
            case ir.SetValid(header):
                with packet.instance_at(header) as instance:
                    packet.set_valid(instance)
            case ir.SetInvalid(header):
                with packet.instance_at(header) as instance:
                    packet.set_invalid(instance)
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
                with self.b.if_else(arithmetic.truth(condition)) as (if_true, if_false):
                    with if_true:
                        self.emit_statement(then)
                    with if_false:
                        self.emit_statement(otherwise)
            case ir.Exit():
                self._has_exited.set(integer(1, 1))
            case other:
                self._emit_forwarding_statement(other)

    def _emit_forwarding_statement(self, statement: ir.Statement) -> None:
        packet, arithmetic, b = self.packet, self.packet.arithmetic, self.b
        match statement:
            case ir.MarkToDrop(egress_spec, mcast_grp):
                packet.store(egress_spec, integer(PORT_BITS, DROP_PORT))
                if mcast_grp is not None:
                    packet.store(mcast_grp, integer(packet.program.width(mcast_grp), 0))
            case ir.Clone(session, fields):
                number = b.and_(arithmetic.modulo(session, 32), integer(32, CLONE_SESSIONS - 1))
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
                self.output.write_log(message, values)
            case ir.Assert(condition, message):
                self._fail_if(b.not_(arithmetic.truth(condition)), message)
            case other:
                raise AssertionError(f"no code for {other}")

    def _fail_if(self, condition: llvm.Value, message: int) -> None:
        with self.b.if_then(condition, likely=False):
            self.output.write_log(message, ())
            self.b.branch(self.next_packet_block)

    def _truncate(self, length: ir.Expression) -> None:
        value = self.packet.arithmetic.exact_modulo(length, 64)
        width = max(value.type.width, 32)
        limit = resize(self.b, self.packet.get("truncated_length"), width)
        value = resize(self.b, value, width)
        smaller = self.b.select(self.b.icmp_unsigned("<", value, limit), value, limit)
        self.packet.set("truncated_length", resize(self.b, smaller, 32))


def _loop_body(body: Sequence[ir.Statement], position: int) -> Sequence[ir.Statement]:
    """Return the statements that the backward jump behind `position` repeats."""
    jump = body[position + 1]
    assert isinstance(jump, ir.Jump | ir.JumpIfZero)
    return body[jump.target_position : position]


def _append_jump_blocks(b: llvm.IRBuilder, body: Sequence[ir.Statement]) -> dict[int, llvm.Block]:
    jumps = {
        position: s.target_position
        for position, s in enumerate(body)
        if isinstance(s, ir.Jump | ir.JumpIfZero)
    }
    return {
        position: b.append_basic_block() for position in sorted({*jumps.values(), *(p + 1 for p in jumps)})
    }
