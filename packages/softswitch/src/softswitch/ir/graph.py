"""Order of the nodes of a control's graph."""

from __future__ import annotations

from collections.abc import Iterator

from softswitch.ir.tables import Conditional, Control, Table

Node = Table | Conditional


def successors(node: Node) -> list[str]:
    if isinstance(node, Conditional):
        names = [node.if_true, node.if_false]
    else:
        names = [*node.next_nodes.values(), node.next_on_hit, node.next_on_miss, node.next_without_action]
    return [name for name in dict.fromkeys(names) if name is not None]


def topological_order(control: Control) -> list[str]:
    """Return the names of the nodes that can be reached, each before its successors."""
    return list(reversed(list(_postorder(control))))


def _postorder(control: Control) -> Iterator[str]:
    visited: set[str] = set()
    stack = [(control.start, False)] if control.start is not None else []
    while stack:
        name, is_expanded = stack.pop()
        if is_expanded:
            yield name
        elif name not in visited:
            visited.add(name)
            stack.append((name, True))
            stack += [(successor, False) for successor in successors(control.nodes[name])]
