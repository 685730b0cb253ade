"""Ingress and egress: each table and each conditional is a basic block of the control's graph."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.actions import ActionEmitter, count_packet
from softswitch.codegen.layout import WORD, Layout, TableLayout
from softswitch.codegen.lookup import emit_lookup
from softswitch.codegen.packet import Packet
from softswitch.codegen.tables import is_null, word
from softswitch.codegen.values import integer, resize

I64 = llvm.IntType(WORD)


def emit_control(packet: Packet, control: ir.Control, state: llvm.Value, layout: Layout) -> None:
    """Run the control; leaves the builder where it ends."""
    b = packet.b
    done = b.append_basic_block(f"{control.name}_done")
    blocks = {name: b.append_basic_block(name) for name in control.nodes}
    emitter = _ControlEmitter(packet, state, layout, blocks, done)
    b.branch(emitter.block(control.start))
    for name, node in control.nodes.items():
        b.position_at_end(blocks[name])
        if isinstance(node, ir.Conditional):
            condition = packet.arithmetic.truth(node.condition)
            b.cbranch(condition, emitter.block(node.if_true), emitter.block(node.if_false))
        else:
            emitter.table(layout.tables[name])
    b.position_at_end(done)


class _ControlEmitter:
    def __init__(
        self,
        packet: Packet,
        state: llvm.Value,
        layout: Layout,
        blocks: dict[str, llvm.Block],
        done: llvm.Block,
    ) -> None:
        self.packet, self.b, self.state = packet, packet.b, state
        self.actions = ActionEmitter(packet, state, layout)
        self.blocks, self.done = blocks, done

    def block(self, name: str | None) -> llvm.Block:
        """The block of a node; None ends the control."""
        return self.done if name is None else self.blocks[name]

    def table(self, layout: TableLayout) -> None:
        """Look up, count, run the chosen action, go on to the node that follows."""
        table = layout.table
        if not table.key and table.default_is_const:
            self._constant_action(table)
            return
        b = self.b
        record, is_hit = self._find(layout)
        action = b.load(word(b, record, layout.action), typ=I64)
        unreachable = b.append_basic_block()
        choice = b.switch(action, unreachable)
        for index in dict.fromkeys(table.actions):
            block = b.append_basic_block()
            choice.add_case(integer(WORD, index), block)
            b.position_at_end(block)
            self._action(layout, index, record, is_hit)
        b.position_at_end(unreachable)
        b.unreachable()

    def _constant_action(self, table: ir.Table) -> None:
        """A table without key and with a constant default is just its action (p4c's `tbl_...`)."""
        action = self.packet.program.actions[table.default.action]
        widths = zip(table.default.args, action.parameters, strict=True)
        leaves = self.actions.emit(action, [integer(width, value) for value, width in widths])
        following = table.next_on_miss if table.branches_on_hit else table.next_nodes[table.default.action]
        self.b.branch(self.done if leaves else self.block(following))

    def _find(self, layout: TableLayout) -> tuple[llvm.Value, llvm.Value]:
        """The record to execute, and an `i1`: is it an entry?"""
        b = self.b
        found = emit_lookup(self.packet, self.state, layout)
        if not layout.table.key:
            return found, integer(1, 0)
        is_hit = b.not_(is_null(b, found))
        if layout.table.has_counter:
            with b.if_then(is_hit):
                count_packet(self.packet, word(b, found, layout.counter))
        default = word(b, self.state, layout.default)
        return b.select(is_hit, found, default), is_hit

    def _action(self, layout: TableLayout, index: int, record: llvm.Value, is_hit: llvm.Value) -> None:
        b, table = self.b, layout.table
        action = self.packet.program.actions[index]
        parameters: list[llvm.Value] = []
        offset = layout.parameters
        for width, words in zip(action.parameters, layout.parameter_words[index], strict=True):
            value = b.load(word(b, record, offset), typ=llvm.IntType(words * WORD), align=8)
            parameters.append(resize(b, value, width))
            offset += words
        leaves = self.actions.emit(action, parameters)
        if leaves:
            b.branch(self.done)
        elif table.branches_on_hit:
            b.cbranch(is_hit, self.block(table.next_on_hit), self.block(table.next_on_miss))
        else:
            b.branch(self.block(table.next_nodes[index]))
