"""The controls, which apply tables."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.ir.expressions import Expression
from softswitch.ir.tables import Table


@dataclass(frozen=True, slots=True)
class Conditional:
    """An `if` between tables."""

    name: str
    condition: Expression
    if_true: str | None
    if_false: str | None
    location: str = ""
    text: str = ""
    """The condition as the P4 source has it, as far as p4c quotes it."""


@dataclass(frozen=True, slots=True)
class Control:
    """Ingress or egress: a graph of tables and conditionals by name, entered at `start`."""

    name: str
    start: str | None
    nodes: dict[str, Table | Conditional]
