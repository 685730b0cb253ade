"""Instances of externs with abstract methods, whose bodies a program writes (specification, §7.2.9.2)."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.constants import struct_substitution
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import Facts


def check_abstract_methods(instance: tree.Instance, made: types.Type, facts: Facts) -> None:
    """Raise `SourceError` unless an instance has the body of each abstract method, and of no other one."""
    if not isinstance(made, types.Object):
        return
    declaration = made.declaration
    methods = declaration.methods if isinstance(declaration, tree.Extern) else []
    abstract = {method.name: method for method in methods if method.is_abstract}
    functions = [member for member in instance.body if isinstance(member, tree.Function)]
    if not abstract and (functions or instance.has_body):
        text = f"expected an extern with abstract methods before a body, got {made}"
        raise SourceError(instance, text)
    known = struct_substitution(declaration, made.arguments)
    for function in functions:
        method = abstract.get(function.name)
        if method is None:
            names = ", ".join(abstract)
            raise SourceError(
                function, f"expected an abstract method of {made} ({names}), got `{function.name}`"
            )
        given_names = {parameter.name for parameter in function.parameters}
        is_given = [p.name in given_names or p.annotation("optional") is None for p in method.parameters]
        parameters = [p for p, is_required in zip(method.parameters, is_given, strict=True) if is_required]
        wanted = _signature(method, parameters, known, facts)
        given = _signature(function, function.parameters, {}, facts)
        if wanted != given:
            raise SourceError(function, f"expected `{wanted}` as in {made}, got `{given}`")
    needed = [name for name, method in abstract.items() if method.annotation("optional") is None]
    missing = [name for name in needed if name not in {function.name for function in functions}]
    if missing:
        raise SourceError(instance, f"expected the body of the abstract method `{missing[0]}` of {made}")


def _signature(
    function: tree.Function, given: list[tree.Parameter], known: types.Substitution, facts: Facts
) -> str:
    """Return the types of a function as text, by which a body and its abstract method are compared."""
    parameters = ", ".join(
        f"{parameter.direction} {types.substitute(facts.declared_type(parameter), known)}".strip()
        for parameter in given
    )
    result = types.substitute(facts.returns.get(function, types.VOID), known)
    return f"{result} {function.name}({parameters})"


def check_constructor_call(node: tree.Node, declaration: tree.Declaration) -> None:
    """Raise `SourceError` if an extern with abstract methods is constructed where no bodies can be."""
    if isinstance(declaration, tree.Extern) and isinstance(node, tree.Call):
        abstract = [method.name for method in declaration.methods if method.is_abstract]
        if abstract:
            text = f"a declaration of an instance with the body of `{abstract[0]}`"
            raise SourceError(node, f"expected {text}, got `{declaration.name}(...)` as an expression")
