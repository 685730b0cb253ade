"""Shorten the graphs of controls: nodes that do nothing go, and hidden tables in a row become one."""

from __future__ import annotations

from dataclasses import replace

from softswitch import ir
from softswitch.ir.graph import Node, successors, topological_order
from softswitch.p4.action_bodies import is_hidden, joined, without_idle_jumps

_Successors = dict[str | None, str | None]
"""The node that follows instead of another."""


def without_idle_nodes(program: ir.Program) -> ir.Program:
    actions = [without_idle_jumps(each) for each in program.actions]
    ingress, egress = (_shortened(each, actions) for each in (program.ingress, program.egress))
    return _with_used_actions(replace(program, actions=tuple(actions), ingress=ingress, egress=egress))


def _shortened(control: ir.Control, actions: list[ir.Action]) -> ir.Control:
    control = _with_decisions(control)
    instead: _Successors = {None: None}
    nodes: dict[str, Node] = {}
    for name in reversed(topological_order(control)):
        node = _redirected(control.nodes[name], instead)
        is_idle, following = _idle(node, actions)
        instead[name] = following if is_idle else name
        if not is_idle:
            nodes[name] = node
    start = instead[control.start]
    _join_rows(nodes, start, actions)
    return replace(control, start=start, nodes={n: nodes[n] for n in control.nodes if n in nodes})


def _with_decisions(control: ir.Control) -> ir.Control:
    """Decide constant conditions; all tables of the source stay, as the control plane knows them."""
    tables = _source_tables(control)
    for name, node in control.nodes.items():
        if isinstance(node, ir.Conditional) and isinstance(node.condition, ir.Constant):
            following = node.if_true if node.condition.value else node.if_false
            decided = replace(node, if_true=following, if_false=following)
            made = replace(control, nodes={**control.nodes, name: decided})
            if _source_tables(made) == tables:
                control = made
    return control


def _source_tables(control: ir.Control) -> set[str]:
    return {name for name in topological_order(control) if not name.startswith("$")}


def _redirected(node: Node, instead: _Successors) -> Node:
    if all(instead[each] == each for each in successors(node)):
        return node
    if isinstance(node, ir.Conditional):
        return replace(node, if_true=instead[node.if_true], if_false=instead[node.if_false])
    return replace(
        node,
        next_nodes={action: instead[name] for action, name in node.next_nodes.items()},
        next_on_hit=instead[node.next_on_hit],
        next_on_miss=instead[node.next_on_miss],
        next_without_action=instead[node.next_without_action],
    )


def _idle(node: Node, actions: list[ir.Action]) -> tuple[bool, str | None]:
    """Return whether a node does nothing, and what follows it then."""
    if is_hidden(node):
        return not actions[node.actions[0]].body, node.next_without_action
    if isinstance(node, ir.Conditional):
        return node.if_true == node.if_false, node.if_true
    return False, None


def _join_rows(nodes: dict[str, Node], start: str | None, actions: list[ir.Action]) -> None:
    """Let a hidden table run the statements of the next one, which has no other predecessor."""
    predecessors: dict[str, list[str]] = {}
    for name, node in nodes.items():
        for successor in successors(node):
            predecessors.setdefault(successor, []).append(name)
    for name in list(nodes):  # each after those that follow it
        node, before = nodes[name], predecessors.get(name, [])
        if name == start or not is_hidden(node) or len(before) != 1:
            continue
        first = nodes[before[0]]
        if not is_hidden(first) or any(isinstance(each, ir.Exit) for each in actions[first.actions[0]].body):
            continue
        [index], [other] = first.actions, node.actions
        actions[index] = joined(actions[index], actions[other])
        following = node.next_without_action
        nodes[before[0]] = replace(first, next_nodes={index: following}, next_without_action=following)
        del nodes[name]


def _with_used_actions(program: ir.Program) -> ir.Program:
    """Return the program without actions that the compiler has made and no table has."""
    used = {index for table in program.tables.values() for index in table.actions}
    remaining = [i for i, each in enumerate(program.actions) if i in used or not each.name.startswith("$")]
    if len(remaining) == len(program.actions):
        return program
    number = {old: new for new, old in enumerate(remaining)}

    def invocation(given: ir.Invocation) -> ir.Invocation:
        return replace(given, action=number[given.action])

    def renumbered(node: Node) -> Node:
        if isinstance(node, ir.Conditional):
            return node
        return replace(
            node,
            actions=tuple(number[each] for each in node.actions),
            default=node.default and invocation(node.default),
            const_entries=tuple(
                replace(each, invocation=invocation(each.invocation)) for each in node.const_entries
            ),
            next_nodes={number[action]: name for action, name in node.next_nodes.items()},
        )

    ingress, egress = (
        replace(control, nodes={name: renumbered(node) for name, node in control.nodes.items()})
        for control in (program.ingress, program.egress)
    )
    return replace(
        program, actions=tuple(program.actions[i] for i in remaining), ingress=ingress, egress=egress
    )
