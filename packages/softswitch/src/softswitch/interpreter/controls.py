"""Run ingress and egress: conditionals, tables, and their actions."""

from __future__ import annotations

from softswitch import ir
from softswitch.interpreter.calculations import calculate
from softswitch.interpreter.expressions import evaluate
from softswitch.interpreter.externs import Externs
from softswitch.interpreter.packet import Packet
from softswitch.interpreter.profiles import ProfileState
from softswitch.interpreter.statements import count, run
from softswitch.interpreter.tables import Entry, ResolvedAction, TableState


class Controls:
    def __init__(self, program: ir.Program, externs: Externs) -> None:
        self._program = program
        self._externs = externs
        self.profiles = [ProfileState(program, number) for number in range(len(program.profiles))]
        self.tables = {
            name: TableState(program, table, None if table.profile is None else self.profiles[table.profile])
            for name, table in program.tables.items()
        }

    def run(self, packet: Packet, control: ir.Control) -> None:
        """Run the control's nodes; `exit` leaves the control at the end of the action."""
        name = control.start
        packet.observer.enters(packet, control)
        packet.has_exited = False
        while name is not None and not packet.has_exited:
            node = control.nodes[name]
            if isinstance(node, ir.Conditional):
                value = evaluate(packet, node.condition)
                packet.observer.tested(packet, node, value)
                name = node.if_true if value else node.if_false
            else:
                name = self._apply_table(packet, node)

    def _apply_table(self, packet: Packet, table: ir.Table) -> str | None:
        state = self.tables[table.name]
        entry = state.look_up(packet)
        if entry is not None:
            self._record_hit(packet, table, entry)
        invocation = self._choose_invocation(packet, table, entry.resolved_action if entry else state.default)
        packet.observer.applies(packet, table, invocation)
        if invocation is not None:
            packet.args = invocation.args
            run(self._externs, packet, self._program.actions[invocation.action].body)
        if table.branches_on_hit:
            return table.next_on_hit if entry else table.next_on_miss
        return table.next_nodes[invocation.action] if invocation else table.next_without_action

    def _record_hit(self, packet: Packet, table: ir.Table, entry: Entry) -> None:
        """Update an entry's counter, last hit and meter, whose colour is stored before the action runs."""
        count(entry.count, packet)
        if table.has_counter:
            packet.observer.counted(packet, table.name, None, entry.count)
        if table.has_idle_timeout:
            entry.last_hit = self._externs.now
        if table.meter is not None:
            amount = packet.ingress_length if table.meter.counts_bytes else 1
            colour = entry.meter.execute(amount, self._externs.now)
            packet.set(table.meter.target, colour)
            packet.observer.metered(packet, table.name, None, colour)

    def _choose_invocation(
        self, packet: Packet, table: ir.Table, resolved_action: ResolvedAction | None
    ) -> ir.Invocation | None:
        if resolved_action is None or isinstance(resolved_action, ir.Invocation):
            return resolved_action
        assert table.profile is not None
        selector = self._program.profiles[table.profile].selector
        hash_value = 0 if selector is None else calculate(packet, self._program.calculations[selector])
        action = self.profiles[table.profile].choose(resolved_action, hash_value)
        packet.observer.chose(packet, resolved_action, None if action is None else action.name)
        return None if action is None else self._program.invocation(table, action.name, action.args)
