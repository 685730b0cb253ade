"""Emit ingress and egress: each table and each conditional is a basic block of the control's graph."""

from __future__ import annotations

from llvmlite import ir as llvm

from softswitch import ir
from softswitch.codegen.prefetch import emit_prefetches
from softswitch.codegen.prefetch_plan import plan_prefetches
from softswitch.codegen.profiles import emit_member
from softswitch.codegen.statements import ActionEmitter
from softswitch.codegen.tables import emit_lookup
from softswitch.errors import add_location
from softswitch.llvmir import I64, integer, is_null, resize, word
from softswitch.memory.layout import TableLayout
from softswitch.memory.words import WORD
from softswitch.target import target_of


def emit_control(actions: ActionEmitter, control: ir.Control) -> None:
    b = actions.b
    end_block = b.append_basic_block(f"{control.name}_done")
    blocks = {name: b.append_basic_block(name) for name in control.nodes}
    emitter = _ControlEmitter(actions, blocks, end_block)
    if actions.packet.in_struct:
        actions.packet.clear_local_fields()
    b.branch(emitter.block(control.start))
    has_prefetch = target_of(b.module).has_prefetch
    prefetches = plan_prefetches(actions.packet.program, control) if has_prefetch else {}
    for name, node in control.nodes.items():
        b.position_at_end(blocks[name])
        if name in prefetches:
            emit_prefetches(actions.packet, actions.state, actions.layout, prefetches[name])
        if isinstance(node, ir.Conditional):
            with add_location(node.location):
                condition = actions.packet.arithmetic.truth(node.condition)
            b.cbranch(condition, emitter.block(node.if_true), emitter.block(node.if_false))
        else:
            emitter.emit_table(actions.layout.tables[name])
    b.position_at_end(end_block)


class _ControlEmitter:
    def __init__(self, actions: ActionEmitter, blocks: dict[str, llvm.Block], end_block: llvm.Block) -> None:
        self.actions = actions
        self.packet, self.b, self.state = actions.packet, actions.b, actions.state
        self.blocks, self.end_block = blocks, end_block

    def block(self, name: str | None) -> llvm.Block:
        return self.end_block if name is None else self.blocks[name]

    def emit_table(self, layout: TableLayout) -> None:
        table = layout.table
        if not table.key and table.default_is_const and table.default is not None:
            self._emit_constant_action(table, table.default)
            return
        b = self.b
        record, is_hit = self._find_record(layout)
        if table.profile is None:
            action_offset, parameter_offset = layout.action, layout.parameters
        else:
            record = emit_member(self.actions, layout, record)
            profile = self.actions.layout.profiles[table.profile]
            action_offset, parameter_offset = profile.action, profile.parameters
        action = b.load(word(b, record, action_offset), typ=I64)
        no_action = b.append_basic_block(f"{table.name}_nothing")
        switch = b.switch(action, no_action)
        for index in dict.fromkeys(table.actions):  # each once, in order
            block = b.append_basic_block()
            switch.add_case(integer(WORD, self._action_number(table, index)), block)
            b.position_at_end(block)
            self._emit_action(layout, index, word(b, record, parameter_offset), is_hit)
        b.position_at_end(no_action)
        self._emit_no_action(table, is_hit)

    def _action_number(self, table: ir.Table, action: int) -> int:
        """Return an action's number in records; all tables of a profile share the profile's numbers."""
        program = self.packet.program
        if table.profile is None:
            return action
        return program.profile_actions[table.profile][program.actions[action].name]

    def _emit_constant_action(self, table: ir.Table, default: ir.Invocation) -> None:
        """Emit only the action of a table without key and with a constant default (p4c's `tbl_...`)."""
        action = self.packet.program.actions[default.action]
        widths = zip(default.args, action.parameters, strict=True)
        exits = self.actions.emit(action, [integer(width, value) for value, width in widths])
        next_node = table.next_on_miss if table.branches_on_hit else table.next_nodes[default.action]
        self.b.cbranch(exits, self.end_block, self.block(next_node))

    def _find_record(self, layout: TableLayout) -> tuple[llvm.Value, llvm.Value]:
        """Return the record to execute, and an `i1`: whether it is an entry (a hit)."""
        b, table = self.b, layout.table
        entry = emit_lookup(self.packet, self.state, layout)
        if not table.key:
            return entry, integer(1, 0)  # the default record, a miss
        is_hit = b.not_(is_null(b, entry))
        if table.has_counter or table.meter or table.has_idle_timeout:
            with b.if_then(is_hit):
                self._update_entry(layout, entry)
        default = word(b, self.state, layout.default)
        return b.select(is_hit, entry, default), is_hit

    def _update_entry(self, layout: TableLayout, record: llvm.Value) -> None:
        table, externs = layout.table, self.actions.externs
        if table.has_counter:
            externs.count_at(word(self.b, record, layout.counter))
        if table.meter:
            colour = externs.execute_meter_at(word(self.b, record, layout.meter), table.meter.counts_bytes)
            self.packet.store(table.meter.target, colour)
        if table.has_idle_timeout:
            self.b.store(self.actions.now, word(self.b, record, layout.last_hit))

    def _emit_action(self, layout: TableLayout, index: int, data: llvm.Value, is_hit: llvm.Value) -> None:
        b, table = self.b, layout.table
        action = self.packet.program.actions[index]
        parameters: list[llvm.Value] = []
        offset = 0
        for width, words in zip(action.parameters, layout.parameter_words[index], strict=True):
            value = b.load(word(b, data, offset), typ=llvm.IntType(words * WORD), align=8)
            parameters.append(resize(b, value, width))
            offset += words
        exits = self.actions.emit(action, parameters)
        not_exited = b.append_basic_block()
        b.cbranch(exits, self.end_block, not_exited)
        b.position_at_end(not_exited)
        if table.branches_on_hit:
            b.cbranch(is_hit, self.block(table.next_on_hit), self.block(table.next_on_miss))
        else:
            b.branch(self.block(table.next_nodes[index]))

    def _emit_no_action(self, table: ir.Table, is_hit: llvm.Value) -> None:
        """Branch to the next node after a miss without a default action, or a hit of an empty group."""
        next_block = self.block(table.next_without_action)
        on_hit = self.block(table.next_on_hit) if table.branches_on_hit else next_block
        self.b.cbranch(is_hit, on_hit, next_block)
