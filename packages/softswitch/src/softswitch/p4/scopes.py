"""Scopes of names, and the tables of what the checker finds out about each node of the tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from softswitch.p4 import tree, types
from softswitch.p4.types import UNKNOWN, Type

Entity = tree.Declaration | types.Variable
"""A meaning of a name."""
TargetKind = Literal[
    "function", "method", "builtin", "action", "table", "apply", "constructor", "direct", "size", "none"
]


@dataclass(slots=True)
class NameScope:
    """Names of one block, within those of its parent; functions of one name may differ in parameters."""

    parent: NameScope | None = None
    names: dict[str, list[Entity]] = field(default_factory=dict)
    is_inner: bool = False
    """Whether the scope is within a body, so that assignments may need its variables."""

    def find(self, name: str, is_global: bool = False) -> list[Entity]:
        scope: NameScope | None = self.root if is_global else self
        while scope is not None:
            if found := scope.names.get(name):
                return found
            scope = scope.parent
        return []

    @property
    def root(self) -> NameScope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def all_names(self) -> Iterator[str]:
        scope: NameScope | None = self
        while scope is not None:
            yield from scope.names
            scope = scope.parent


@dataclass(slots=True)
class CallTarget:
    """The target of a call. `arguments` has one for each of the parameters, None where a default applies."""

    kind: TargetKind
    declaration: tree.Declaration | None = None
    receiver: tree.Expression | None = None
    name: str = ""
    parameters: list[tree.Parameter] = field(default_factory=list)
    arguments: list[tree.Argument | None] = field(default_factory=list)
    substitution: dict[types.Variable, types.Type] = field(default_factory=dict)
    type: types.Type | None = None
    """The type whose size a builtin function returns, or that a constructor makes."""


@dataclass(slots=True)
class Facts:
    """Facts that the checker finds out about a program. All keys are nodes of the tree."""

    types: dict[tree.Node, Type] = field(default_factory=dict)
    """Types of expressions, as far as they do not depend on what is expected of them."""
    references: dict[tree.Node, tree.Declaration] = field(default_factory=dict)
    """Declarations that names mean."""
    calls: dict[tree.Node, CallTarget] = field(default_factory=dict)
    """Targets of calls, and constructors of instances."""
    returns: dict[tree.Declaration, Type] = field(default_factory=dict)
    """Types that functions and methods return."""
    combined: dict[tree.Assignment, tree.Binary] = field(default_factory=dict)
    """The operation of each assignment such as `a += b`."""
    declared: dict[tree.Node, Type] = field(default_factory=dict)
    """Types of variables, parameters, constants, fields and instances, and of casts."""
    scopes: dict[tree.Declaration, NameScope] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    """Members of `error`, in order."""
    match_kinds: list[str] = field(default_factory=list)
    field_counts: dict[Type, int] = field(default_factory=dict)
    """Fields of structs, with those of the structs in them."""
    sizes: dict[tuple[Type, bool], int] = field(default_factory=dict)
    """Bits of structs, at least or at most."""
    constants: dict[tree.Declaration, object] = field(default_factory=dict)
    globals: NameScope = field(default_factory=NameScope)

    def declared_type(self, node: tree.Node) -> Type:
        """Return the type of a variable, a parameter and the like; `_` if its declaration is refused."""
        return self.declared.get(node, UNKNOWN)
