"""The context in which a body is lowered: what its names are bound to, and where its statements go."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast

from softswitch import ir
from softswitch.p4 import operands, tree, types
from softswitch.p4.constants import Evaluator
from softswitch.p4.diagnostics import Position
from softswitch.p4.flow import Item, Label, Step
from softswitch.p4.objects import CallableObject
from softswitch.p4.scopes import Facts

Body = Literal["control", "action", "parser", "deparser", "checksum"]


@dataclass(slots=True, eq=False)
class Frame:
    """`bindings` has operands of variables, constants of parameters, and objects of instances."""

    facts: Facts
    body: Body
    owner: CallableObject
    bindings: ChainMap[tree.Declaration, object]
    substitution: dict[types.Variable, types.Type]
    items: list[Item]
    return_label: Label
    result: operands.Operand | None = None
    """Storage of the value that a function returns."""
    loops: list[tuple[Label, Label]] = field(default_factory=list)
    """The labels of `break` and `continue` of the loops around."""
    copies_out: list[Callable[[Frame], None]] = field(default_factory=list)
    """Functions that copy results to arguments before an `exit`, the outermost call first."""
    depth: int = 0
    outer: ChainMap[tree.Declaration, object] | None = None
    """The bindings of the control around, whose variables its actions see; None in a control itself."""
    direct_meters: dict[object, ir.FieldRef] = field(default_factory=dict)
    """Field of the colour of the direct meter of the table that runs this action."""

    @property
    def control_bindings(self) -> ChainMap[tree.Declaration, object]:
        return self.bindings if self.outer is None else self.outer

    def emit(self, statement: ir.Statement | ir.Extract | ir.Advance | ir.Verify, position: Position) -> None:
        self.items.append(Step(statement, position))

    @property
    def evaluator(self) -> Evaluator:
        return Evaluator(self.facts, self.bindings, self.substitution)

    def type_of(self, expression: tree.Node) -> types.Type:
        return types.substitute(self.facts.types.get(expression, types.UNKNOWN), self.substitution)

    def declared(self, node: tree.Node) -> types.Type:
        return types.substitute(self.facts.declared.get(node, types.UNKNOWN), self.substitution)

    def within(self, items: list[Item]) -> Frame:
        """Return the same frame that emits to other items, such as a branch."""
        return Frame(
            self.facts, self.body, self.owner, self.bindings, self.substitution, items, self.return_label,
            self.result, self.loops, self.copies_out, self.depth, self.outer, self.direct_meters,
        )  # fmt: skip


def frame_bindings(
    found: CallableObject, own: dict[tree.Declaration, object] | None = None
) -> ChainMap[tree.Declaration, object]:
    """Return the bindings with which the body of an instance begins: its own before those of the instance."""
    return ChainMap({} if own is None else own, cast("dict[tree.Declaration, object]", found.bindings))
