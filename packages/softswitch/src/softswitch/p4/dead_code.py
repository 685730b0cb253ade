"""Leave out statements that do nothing but write what nothing reads."""

from __future__ import annotations

from dataclasses import replace

from softswitch import ir
from softswitch.ir.graph import successors, topological_order
from softswitch.p4.action_bodies import Jumping, is_hidden, shortened
from softswitch.p4.storage_bits import StorageBits


class Liveness:
    """Finds the statements that write only what is overwritten, or what ends with the packet's controls."""

    def __init__(self, program: ir.Program, bits: StorageBits, local: int, pinned: int) -> None:
        """`local` storage is not needed after the controls; writes to what is `pinned` are."""
        self._program, self._bits, self._local, self._pinned = program, bits, local, pinned
        self._after_actions: dict[int, int] = {}

    def run(self) -> ir.Program:
        at_end = self._bits.all & ~self._local
        after_ingress = at_end | self._control(self._program.egress, at_end)
        self._control(self._program.ingress, after_ingress)
        actions = list(self._program.actions)
        for index, after in self._after_actions.items():
            body = actions[index].body
            live = self._live(body, after)
            dropped = {i for i, each in enumerate(body) if self._is_dead(each, live[i + 1])}
            actions[index] = shortened(actions[index], dropped)
        return replace(self._program, actions=tuple(actions))

    def _control(self, control: ir.Control, at_end: int) -> int:
        """Return what is needed at the beginning of a control, and note it for the ends of its actions."""
        needed: dict[str, int] = {}
        for name in reversed(topological_order(control)):
            node = control.nodes[name]
            after = at_end if _may_end(node) else 0
            for successor in successors(node):
                after |= needed[successor]
            if isinstance(node, ir.Conditional):
                needed[name] = after | self._bits.read(node.condition)
            else:
                needed[name] = self._table(node, after, at_end)
        return needed[control.start] if control.start is not None else at_end

    def _table(self, table: ir.Table, after: int, at_end: int) -> int:
        needed = 0 if is_hidden(table) else after
        for part in table.key:
            needed |= self._bits.read(part.source)
            if isinstance(part.source, ir.FieldRef):  # which is 0 if the header is invalid
                needed |= self._bits.validity(part.source.header)
        for index in table.actions:
            body = self._program.actions[index].body
            has_exit = any(isinstance(each, ir.Exit) for each in body)
            after_action = after | (at_end if has_exit else 0)
            self._after_actions[index] = self._after_actions.get(index, 0) | after_action
            needed |= self._live(body, after_action)[0]
        return needed

    def _live(self, body: tuple[ir.Statement, ...], after: int) -> list[int]:
        """Return what is needed before each statement of an action, and after the last."""
        live = [0] * len(body) + [after]
        has_loop = any(isinstance(s, Jumping) and s.target_position <= i for i, s in enumerate(body))
        is_settled = False
        while not is_settled:
            is_settled = not has_loop
            before = live[:]
            for i in reversed(range(len(body))):
                live[i] = self._before(body[i], live, i)
            is_settled = is_settled or before == live
        return live

    def _before(self, statement: ir.Statement, live: list[int], position: int) -> int:
        after = live[position + 1]
        if isinstance(statement, ir.Jump):
            return live[statement.target_position]
        if isinstance(statement, ir.JumpIfZero):
            return after | live[statement.target_position] | self._bits.read(statement.condition)
        if self._is_dead(statement, after):
            return after
        effects = self._bits.effects(statement)
        return after & ~effects.replaced | effects.read

    def _is_dead(self, statement: ir.Statement, after: int) -> bool:
        if isinstance(statement, Jumping):
            return False
        effects = self._bits.effects(statement)
        return effects.only_writes and not effects.written & (after | self._pinned)


def _may_end(node: ir.Table | ir.Conditional) -> bool:
    """Return whether a node may be the last of its control."""
    if isinstance(node, ir.Conditional):
        return None in (node.if_true, node.if_false)
    if node.branches_on_hit:
        return None in (node.next_on_hit, node.next_on_miss)
    return None in (*node.next_nodes.values(), node.next_without_action)
