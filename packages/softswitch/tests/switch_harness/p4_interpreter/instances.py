"""Instances of controls, parsers and externs, and the variables of what runs in them."""

from __future__ import annotations

from dataclasses import dataclass, field

from softswitch.p4 import tree, types
from switch_harness.p4_interpreter.values import Storage, Value


@dataclass(slots=True, eq=False)
class ExternInstance:
    """An extern; `cells` are a register's values or a counter's counts by index."""

    kind: str
    name: str
    """The last part of its name to the control plane."""
    size: int = 0
    element: types.Type = types.UNKNOWN
    cells: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Instance:
    """A control or a parser, with the values of its constructor's parameters and its local instances."""

    declaration: tree.Control | tree.Parser
    bindings: dict[tree.Declaration, Bound]
    substitution: types.Substitution
    anonymous: dict[tree.Node, Instance] = field(default_factory=dict)
    """Instances that calls such as `C.apply()` make."""


@dataclass(slots=True, eq=False)
class PacketIn:
    """The frame that a parser reads; `position` counts bits."""

    frame: bytes
    position: int = 0


@dataclass(slots=True, eq=False)
class PacketOut:
    emitted: list[tuple[int, int]] = field(default_factory=list)
    """Values and their widths, in order."""


Bound = Storage | Instance | ExternInstance | PacketIn | PacketOut | Value


@dataclass(slots=True, eq=False)
class Activation:
    """Names in one run of a control, parser, action or function; `outer` has those of the control around."""

    instance: Instance | None
    substitution: types.Substitution
    outer: Activation | None = None
    names: dict[tree.Declaration, Bound] = field(default_factory=dict)

    def find(self, declaration: tree.Declaration) -> Activation | None:
        """Return the activation that has a name."""
        found: Activation | None = self
        while found is not None and declaration not in found.names:
            found = found.outer
        return found

    @property
    def root(self) -> Activation:
        return self if self.outer is None else self.outer.root


class ExitSignal(Exception):
    """`exit`: ends the whole control of the package."""


class ReturnSignal(Exception):
    def __init__(self, value: Value) -> None:
        self.value = value


class BreakSignal(Exception):
    pass


class ContinueSignal(Exception):
    pass


class ParserReject(Exception):
    def __init__(self, error: str) -> None:
        self.error = error
