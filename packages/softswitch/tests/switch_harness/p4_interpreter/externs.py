"""Instances, and the externs of v1model: registers, counters, and functions."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.scopes import CallTarget, Facts
from switch_harness.p4_interpreter import values
from switch_harness.p4_interpreter.calls import Calls
from switch_harness.p4_interpreter.instances import Activation, Bound, ExternInstance, Instance, ParserReject
from switch_harness.p4_interpreter.values import Fill, Place, Value

DROP_PORT = 511


class Externs(Calls):
    def __init__(self, facts: Facts, fill: Fill) -> None:
        super().__init__(facts, fill)
        self.externs: list[ExternInstance] = []

    # -- instances

    def instance(
        self, declaration: tree.Control | tree.Parser, bindings: dict[tree.Declaration, Bound],
        substitution: types.Substitution,
    ) -> Instance:  # fmt: skip
        made = Instance(declaration, dict(bindings), substitution)
        for local in declaration.locals:
            if isinstance(local, tree.Instance):
                made.bindings[local] = self.construct(local, self.facts.calls[local], made)
        return made

    def construct(self, node: tree.Node, target: CallTarget, owner: Instance) -> Bound:
        """Make what an instantiation makes; its arguments are evaluated in the instance around it."""
        outer = Activation(owner, owner.substitution)
        known = self.resolved(target, outer)
        bindings: dict[tree.Declaration, Bound] = {}
        for parameter, argument in zip(target.parameters, target.arguments, strict=True):
            expression = argument.value if argument is not None else parameter.default
            assert expression is not None
            given = types.substitute(self.facts.declared[parameter], known)
            if isinstance(given, types.Object):
                bindings[parameter] = self._instance_argument(expression, outer)
            else:
                bindings[parameter] = self.evaluate(expression, outer, given)
        if isinstance(target.declaration, tree.Control | tree.Parser):
            return self.instance(target.declaration, bindings, known)
        assert isinstance(target.declaration, tree.Extern)
        return self._extern(node, target, bindings, known)

    def _instance_argument(self, expression: tree.Expression, outer: Activation) -> Bound:
        if isinstance(expression, tree.Call):
            assert outer.instance is not None
            return self.construct(expression, self.facts.calls[expression], outer.instance)
        return self.bound(expression, outer)

    def _extern(
        self, node: tree.Node, target: CallTarget, bindings: dict[tree.Declaration, Bound],
        known: dict[types.Variable, types.Type],
    ) -> ExternInstance:  # fmt: skip
        declaration = target.declaration
        assert isinstance(declaration, tree.Extern)
        size = next((v for p, v in bindings.items() if p.name == "size" and isinstance(v, int)), 0)
        element: types.Type = types.UNKNOWN
        if isinstance(target.type, types.Object) and target.type.arguments:
            element = types.substitute(target.type.arguments[0], known)
        name = node.name if isinstance(node, tree.Instance) else declaration.name
        made = ExternInstance(declaration.name, name, size, element)
        self.externs.append(made)
        return made

    # -- externs

    def extern_function(self, target: CallTarget, activation: Activation) -> Value:
        arguments = [a.value for a in target.arguments if a is not None and a.value is not None]
        match target.name:
            case "mark_to_drop":
                place = self.place(arguments[0], activation)
                assert isinstance(place, values.Struct)
                values.store(place.parts["egress_spec"], DROP_PORT)
                values.store(place.parts["mcast_grp"], 0)
            case "verify":
                check = self.holds(arguments[0], activation)
                error = self.scalar(arguments[1], activation)
                if not check:
                    assert isinstance(error, str)
                    raise ParserReject(error)
            case "static_assert":
                return True
            case _:
                raise AssertionError(f"expected a known extern function, got {target.name}")
        return None

    def extern_method(self, found: ExternInstance, target: CallTarget, activation: Activation) -> None:
        by_name = {p.name: a.value for p, a in zip(target.parameters, target.arguments, strict=True) if a}
        place: Place | None = None
        numbers: dict[str, int] = {}
        for name, expression in by_name.items():
            assert expression is not None
            if name == "result":
                place = self.place(expression, activation)
            else:
                given = found.element if name == "value" else types.Bits(32)
                numbers[name] = int(self.scalar(expression, activation, given))
        index = numbers.get("index", 0)
        match found.kind, target.name:
            case "register", "read":
                assert place is not None
                values.store(place, self.as_element(found.cells.get(index, 0), found.element))
            case "register", "write":
                if index < found.size:
                    found.cells[index] = numbers["value"]
            case "counter", "count":
                if index < found.size:
                    found.cells[index] = found.cells.get(index, 0) + 1
            case _:
                raise AssertionError(f"expected a known extern, got {found.kind}.{target.name}")

    def as_element(self, number: int, given: types.Type) -> Value:
        return bool(number) if types.base_of(given) == types.BOOL else number
