"""Walks through syntax trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from softswitch.p4 import tree

_WITHOUT_NODES = ("position", "name", "annotations")
_ATTRIBUTES: dict[type[tree.Node], tuple[str, ...]] = {}
"""Names of the attributes of each kind of node that may have nodes."""


def parts(node: tree.Node) -> Iterator[tree.Node]:
    """Yield the nodes directly within a node."""
    kind = type(node)
    if kind not in _ATTRIBUTES:
        _ATTRIBUTES[kind] = tuple(each.name for each in fields(kind) if each.name not in _WITHOUT_NODES)
    for name in _ATTRIBUTES[kind]:
        value = getattr(node, name)
        if isinstance(value, tree.Node):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, tree.Node))


def walk(nodes: Iterable[tree.Node]) -> Iterator[tree.Node]:
    """Yield nodes and all nodes within them, the last ones first."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        stack.extend(parts(node))
