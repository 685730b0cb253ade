"""Instances of controls, parsers and externs, which a program makes when it is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from softswitch.p4 import tree, types
from softswitch.p4.constants import Evaluator, MemberValue, Value
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import CallTarget, Facts

MAX_OBJECTS = 100_000


@dataclass(slots=True, eq=False)
class ExternObject:
    """An instance of an extern; `path` is its name to the control plane."""

    declaration: tree.Extern
    path: str
    type: types.Object
    arguments: dict[str, Value | Object]
    node: tree.Node
    annotations: tree.Annotations

    @property
    def kind(self) -> str:
        return self.declaration.name

    @property
    def counts_bytes(self) -> bool:
        """Whether a meter counts bytes and not packets."""
        kind = self.arguments.get("type")
        return isinstance(kind, MemberValue) and kind.name == "bytes"

    def integer(self, name: str) -> int:
        value = self.arguments.get(name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise SourceError(self.node, f"expected an integer as the argument `{name}` of {self.kind}")
        return value


@dataclass(slots=True, eq=False)
class CallableObject:
    """An instance of a control or a parser, with what is declared in it."""

    declaration: tree.Control | tree.Parser
    path: str
    substitution: dict[types.Variable, types.Type]
    bindings: dict[tree.Declaration, Value | Object]
    """Values of constructor parameters, and local instances."""
    node: tree.Node


@dataclass(slots=True, eq=False)
class PackageObject:
    declaration: tree.Package
    arguments: dict[str, Value | Object]
    node: tree.Node


Object = ExternObject | CallableObject | PackageObject


def control_plane_name(declaration: tree.Declaration, path: str) -> str:
    """Return the name of something in the instance at `path`; `@name(".x")` is outside of all."""
    annotation = declaration.annotation("name")
    name = annotation.text if annotation is not None else declaration.name
    if name.startswith("."):
        return name[1:]
    return f"{path}.{name}" if path else name


class Elaborator:
    """Makes the objects of a checked program, and keeps all of them in order."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self.objects: list[Object] = []
        self.globals: dict[tree.Declaration, Value | Object] = {}

    def make_globals(self, program: tree.Program) -> None:
        for declaration in program.declarations:
            if isinstance(declaration, tree.Instance):
                self.globals[declaration] = self.instance(declaration, "", {}, {})

    def instance(
        self, node: tree.Instance, path: str, bindings: dict[tree.Declaration, Value | Object],
        substitution: types.Substitution,
    ) -> Object:  # fmt: skip
        name = control_plane_name(node, path)
        return self._construct(
            node, self._facts.calls[node], name, path, bindings, substitution, node.annotations
        )

    def _construct(
        self, node: tree.Node, target: CallTarget, path: str, outer_path: str,
        bindings: dict[tree.Declaration, Value | Object], substitution: types.Substitution,
        annotations: tree.Annotations,
    ) -> Object:  # fmt: skip
        if len(self.objects) >= MAX_OBJECTS:
            raise SourceError(node, f"expected at most {MAX_OBJECTS} instances")
        evaluator = Evaluator(self._facts, bindings, substitution)
        arguments: dict[str, Value | Object] = {}
        by_parameter: dict[tree.Declaration, Value | Object] = {}
        for parameter, argument in zip(target.parameters, target.arguments, strict=True):
            expression = argument.value if argument is not None else parameter.default
            if expression is None:
                continue
            wanted = types.substitute(
                self._facts.declared[parameter], {**substitution, **target.substitution}
            )
            value = self._argument(expression, evaluator, outer_path, bindings, substitution, wanted)
            arguments[parameter.name] = by_parameter[parameter] = value
        declaration = target.declaration
        made = types.substitute(target.type, substitution) if target.type is not None else types.UNKNOWN
        match declaration:
            case tree.Extern():
                assert isinstance(made, types.Object)
                found = ExternObject(declaration, path, made, arguments, node, annotations)
                self.objects.append(found)
                return found
            case tree.Package():
                return PackageObject(declaration, arguments, node)
            case tree.Control() | tree.Parser():
                known = {
                    variable: types.substitute(value, substitution)
                    for variable, value in target.substitution.items()
                }
                return self.callable(declaration, path, known, by_parameter, node)
        raise SourceError(node, "expected an instance of an extern, a control or a parser")

    def callable(
        self, declaration: tree.Control | tree.Parser, path: str,
        substitution: dict[types.Variable, types.Type],
        bindings: dict[tree.Declaration, Value | Object], node: tree.Node,
    ) -> CallableObject:  # fmt: skip
        made = CallableObject(declaration, path, substitution, {**self.globals, **bindings}, node)
        self.objects.append(made)
        for local in declaration.locals:
            if isinstance(local, tree.Instance):
                made.bindings[local] = self.instance(local, path, made.bindings, substitution)
        return made

    def _argument(
        self, expression: tree.Expression, evaluator: Evaluator, path: str,
        bindings: dict[tree.Declaration, Value | Object], substitution: types.Substitution,
        wanted: types.Type,
    ) -> Value | Object:  # fmt: skip
        """Return the value of a constructor's argument: a constant, or an object."""
        if isinstance(expression, tree.Name):
            declaration = self._facts.references.get(expression)
            bound = (
                bindings.get(declaration, self.globals.get(declaration)) if declaration is not None else None
            )
            if isinstance(bound, Object):
                return bound
        target = self._facts.calls.get(expression)
        if target is not None and target.kind == "constructor" and target.declaration is not None:
            name = target.declaration.name
            inner = f"{path}.{name}" if path else name
            return self._construct(expression, target, inner, path, bindings, substitution, [])
        value = evaluator.convert(evaluator.value(expression), wanted)
        if value is None:
            raise SourceError(expression, "expected a value that is known when compiling, or an instance")
        return value

    def construct_expression(self, expression: tree.Call, path: str, owner: CallableObject) -> Object:
        """Return the object that a call of a constructor makes, such as `action_profile(32)` in a table."""
        target = self._facts.calls[expression]
        return self._construct(expression, target, path, owner.path, owner.bindings, owner.substitution, [])

    def externs(self, kind: str) -> Iterator[ExternObject]:
        for each in self.objects:
            if isinstance(each, ExternObject) and each.kind == kind:
                yield each
