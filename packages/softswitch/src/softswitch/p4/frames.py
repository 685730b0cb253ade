"""The context in which a body is lowered: what its names are bound to, and where its statements go."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias, cast

from softswitch import ir
from softswitch.p4 import operands, tree, types
from softswitch.p4.constants import Evaluator
from softswitch.p4.diagnostics import Position
from softswitch.p4.flow import Apply, Item, Label, Part, Step, Unit
from softswitch.p4.lowering_state import LoweringState
from softswitch.p4.objects import CallableObject, ExternObject
from softswitch.p4.scopes import CallTarget, Facts
from softswitch.p4.storage import VariableStorage

Body = Literal["control", "action", "parser", "deparser", "checksum"]
Bindings: TypeAlias = "ChainMap[tree.Declaration, object]"


@dataclass(frozen=True, slots=True)
class NestedLowering:
    """Functions for what is nested in a statement or an expression, which modules below theirs call."""

    statement: Callable[[tree.Statement, Frame], None]
    call: Callable[[tree.Call, Frame, types.Type | None], operands.Operand | None]
    table: Callable[[tree.Call, Frame], Apply]


@dataclass(slots=True, eq=False)
class Frame:
    """`bindings` has operands of variables, constants of parameters, and objects of instances."""

    state: LoweringState
    nested: NestedLowering
    body: Body
    owner: CallableObject
    bindings: Bindings
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
    outer: Bindings | None = None
    """The bindings of the control around, whose variables its actions see; None in a control itself."""
    direct_meters: dict[ExternObject, ir.FieldRef] = field(default_factory=dict)
    """Field of the colour of the direct meter of the table that runs this action."""

    @property
    def facts(self) -> Facts:
        return self.state.facts

    @property
    def storage(self) -> VariableStorage:
        return self.state.storage

    @property
    def control_bindings(self) -> Bindings:
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
        return replace(self, items=items)

    def called(
        self, part: Part, bindings: Bindings, outer: Bindings | None, owner: CallableObject | None = None,
        substitution: dict[types.Variable, types.Type] | None = None,
    ) -> Frame:  # fmt: skip
        """Return the frame of a body that this one calls, which emits to a part of it."""
        return replace(
            self, bindings=bindings, outer=outer, owner=owner or self.owner, items=part.items,
            substitution=self.substitution if substitution is None else substitution,
            return_label=part.label, result=None, loops=[], copies_out=list(self.copies_out),
            depth=self.depth + 1,
        )  # fmt: skip

    def unit(self, position: Position) -> Frame:
        """Return a frame of what becomes one action of the switch; in an action, that is the frame itself."""
        if self.body != "control":
            return self
        unit = Unit(position)
        self.items.append(unit)
        return replace(self, items=unit.items, body="action")

    def resolved(self, target: CallTarget) -> dict[types.Variable, types.Type]:
        """Return the type arguments of a call."""
        return {v: types.substitute(t, self.substitution) for v, t in target.substitution.items()}


def frame_bindings(found: CallableObject, own: dict[tree.Declaration, object] | None = None) -> Bindings:
    """Return the bindings with which the body of an instance begins: its own before those of the instance."""
    return ChainMap({} if own is None else own, cast("dict[tree.Declaration, object]", found.bindings))
