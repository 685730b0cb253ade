"""Decide which look-ups to prefetch at which node of a control, so that their cache misses overlap.

A look-up's key is often known long before the look-up, since p4c only copies it from the packet. Where the
keys of several look-ups are known at one node, and only the validity of headers decides whether they run,
their buckets are prefetched there (`prefetch`). A prefetch cannot change a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from softswitch import ir
from softswitch.ir.graph import successors, topological_order

_MIN_LOOKUPS = 2


@dataclass(frozen=True)
class KnownLookup:
    """A look-up, with its key expressed in the fields from which it is known at a node."""

    table: ir.Table
    key: tuple[ir.KeyField, ...]

    @cached_property
    def key_fields(self) -> set[ir.FieldRef]:
        """Fields that must not change before the look-up."""
        return {part.source for part in self.key if isinstance(part.source, ir.FieldRef)}


def plan_prefetches(program: ir.Program, control: ir.Control) -> dict[str, list[KnownLookup]]:
    """Return the look-ups to prefetch, by the node before which to prefetch them."""
    graph = _Graph(program, control)
    groups: list[list[dict[str, KnownLookup]]] = [[]]
    last_name = ""
    for name in graph.order:
        lookups = graph.lookup_by_node(name)
        if lookups:
            # A group ends where no node knows all keys, or where the next look-up is on another branch.
            if not _common_node(lookups, groups[-1]) or not graph.leads_to(last_name, name):
                groups.append([])
            groups[-1].append(lookups)
            last_name = name
    plan: dict[str, list[KnownLookup]] = {}
    for group in groups:
        node = _common_node(group[-1], group) if len(group) >= _MIN_LOOKUPS else None
        if node is not None:
            plan.setdefault(node, []).extend(lookups[node] for lookups in group)
    return plan


def _common_node(
    lookups: Mapping[str, KnownLookup], group: Sequence[Mapping[str, KnownLookup]]
) -> str | None:
    return next((node for node in lookups if all(node in others for others in group)), None)


class _Graph:
    def __init__(self, program: ir.Program, control: ir.Control) -> None:
        self._program, self._nodes = program, control.nodes
        self.order = topological_order(control)
        rank = {name: position for position, name in enumerate(self.order)}
        self._predecessors: dict[str, list[str]] = {name: [] for name in self.order}
        for name in self.order:
            for successor in successors(self._nodes[name]):
                self._predecessors[successor].append(name)
        self._dominator: dict[str, str] = {}
        for name in self.order[1:]:
            dominator, *candidates = self._predecessors[name]
            for candidate in candidates:
                # Climb to the nearest common dominator (Cooper, Harvey and Kennedy, 2001).
                while dominator != candidate:
                    if rank[dominator] > rank[candidate]:
                        dominator = self._dominator[dominator]
                    else:
                        candidate = self._dominator[candidate]
            self._dominator[name] = dominator

    def lookup_by_node(self, name: str) -> dict[str, KnownLookup]:
        """Return an exact table's look-up by the nodes at which its key is known, the nearest first."""
        table = self._nodes[name]
        if not isinstance(table, ir.Table) or not table.key or not table.is_exact:
            return {}
        lookup: KnownLookup | None = KnownLookup(table, table.key)
        lookups: dict[str, KnownLookup] = {}
        while lookup is not None:
            lookups[name] = lookup
            if name not in self._dominator:
                break
            lookup = self._lookup_at_dominator(name, lookup)
            name = self._dominator[name]
        return lookups

    def leads_to(self, name: str, target: str) -> bool:
        stack, visited = [target], set[str]()
        while stack:
            node = stack.pop()
            if node not in visited:
                visited.add(node)
                stack += self._predecessors[node]
        return name in visited

    def _lookup_at_dominator(self, name: str, lookup: KnownLookup) -> KnownLookup | None:
        dominator = self._dominator[name]
        nodes_between = self._nodes_between(name)
        if any(self._written_fields(node) & lookup.key_fields for node in nodes_between):
            return None
        successors_on_path = {
            node for node in successors(self._nodes[dominator]) if node in nodes_between or node == name
        }
        node = self._nodes[dominator]
        if isinstance(node, ir.Conditional):
            is_always_reached = {node.if_true, node.if_false} <= successors_on_path
            return lookup if is_always_reached or isinstance(node.condition, ir.IsValid) else None
        if not node.key and node.default_is_const and node.default is not None:
            return _lookup_before_action(self._program.actions[node.default.action], lookup)
        is_always_reached = successors_on_path == set(successors(node))
        changes_key = bool(self._written_fields(dominator) & lookup.key_fields)
        return lookup if is_always_reached and not changes_key else None

    def _nodes_between(self, name: str) -> set[str]:
        nodes: set[str] = set()
        stack = list(self._predecessors[name])
        while stack:
            node = stack.pop()
            if node != self._dominator[name] and node not in nodes:
                nodes.add(node)
                stack += self._predecessors[node]
        return nodes

    def _written_fields(self, name: str) -> set[ir.FieldRef]:
        node = self._nodes[name]
        if isinstance(node, ir.Conditional):
            return set()
        actions = (self._program.actions[index] for index in node.actions)
        return {
            field for action in actions for statement in action.body for field in ir.target_fields(statement)
        }


def _lookup_before_action(action: ir.Action, lookup: KnownLookup) -> KnownLookup | None:
    for statement in reversed(action.body):
        match statement:
            case ir.Assign(ir.FieldRef() as target, ir.FieldRef() as value):
                key = tuple(replace(p, source=value) if p.source == target else p for p in lookup.key)
                lookup = replace(lookup, key=key)
            case ir.Assign(ir.FieldRef() as target, _) if target not in lookup.key_fields:
                pass
            case _:
                return None
    return lookup
