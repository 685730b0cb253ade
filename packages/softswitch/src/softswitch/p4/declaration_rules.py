"""Rules for the types of parameters, fields and new types (specification, §6.8, §7.2 and §7.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from softswitch.p4 import tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import Facts
from softswitch.p4.unify import fields_of

Owner = Literal[
    "parser", "control", "declared type", "constructor", "control constructor", "parser constructor",
    "package", "action", "function", "extern",
]  # fmt: skip
"""Owner of parameters; a `declared type` is that of a parser or a control, without a body."""
MAX_FIELDS = 100_000
"""Fields of a struct with those of the structs and stacks in it."""
_HAS_OPTIONAL = ("parser", "control", "declared type", "constructor", "package", "extern")
Struct = types.Struct | types.Tuple | types.List | types.Stack


def check_distinct(names: Sequence[str], node: tree.Node, what: str) -> None:
    """Raise `SourceError` if a name is among the names twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise SourceError(node, f"expected different names of {what}, got `{name}` twice")
        seen.add(name)


def check_parameter(parameter: tree.Parameter, found: types.Type, owner: Owner) -> None:
    name, position = f"`{parameter.name}`", parameter.position
    if parameter.direction and found in (types.INT, types.STRING):
        raise SourceError(position, f"expected no direction of {name}, which has the type {found}")
    if parameter.direction in ("out", "inout") and parameter.default is not None:
        raise SourceError(
            position, f"expected no default value of {name}, got one of an {parameter.direction} parameter"
        )
    if parameter.annotation("optional") is not None:
        if parameter.default is not None:
            raise SourceError(position, f"expected `@optional` or a default value of {name}, got both")
        if owner not in _HAS_OPTIONAL:
            raise SourceError(
                position, f"expected an extern or a package with `@optional`, got the {owner} of {name}"
            )
    if owner == "action" and found == types.INT:
        raise SourceError(
            position, f"expected a type with a width of {name}, a parameter of an action, got int"
        )
    if found == types.VOID:
        raise SourceError(position, f"expected a type of values of {name}, got void")
    _check_object(parameter, found, owner)


def _check_object(parameter: tree.Parameter, found: types.Type, owner: Owner) -> None:
    if not isinstance(found, types.Object):
        return
    name, position = f"`{parameter.name}`", parameter.position
    if parameter.direction:
        raise SourceError(position, f"expected no direction of {name}, which has the type {found}")
    if owner == "package" or (
        isinstance(found.declaration, tree.Control | tree.Parser)
        and found.declaration.is_type
        and owner == f"{type(found.declaration).__name__.lower()} constructor"
    ):
        return
    if not isinstance(found.declaration, tree.Extern):
        raise SourceError(position, f"expected a type of values or an extern of {name}, got {found}")
    if owner == "action":
        raise SourceError(
            position, f"expected a type of values of {name}, a parameter of an action, got {found}"
        )
    if found.arguments and types.UNKNOWN in found.arguments and isinstance(parameter.type, tree.NamedType):
        count = len(found.declaration.type_parameters)
        raise SourceError(position, f"expected {count} type arguments of `{found.declaration.name}`, got 0")


def field_is_allowed(kind: str, found: types.Type, facts: Facts) -> bool:
    """Return whether a struct, a header or a header union may have a field of a type."""
    base = types.base_of(found)
    if isinstance(base, types.Variable):
        return True
    if kind == "header_union":
        return types.is_header(base)
    if isinstance(base, types.Bits | types.Varbit | types.Enum) or base == types.BOOL:
        return kind == "struct" or not isinstance(base, types.Enum) or base.underlying is not None
    if kind == "header":
        fields = fields_of(base, facts).values()
        return types.is_struct(base) and all(field_is_allowed(kind, each, facts) for each in fields)
    return isinstance(base, types.Struct | types.Stack | types.Tuple | types.List) or base in (
        types.ERROR,
        types.UNKNOWN,
    )


def check_type_arguments(given: types.Type, node: tree.Node, facts: Facts) -> None:
    """Raise `SourceError` if a generic type has arguments with which its parts are not allowed."""
    match given:
        case types.Struct(declaration, arguments) if arguments:
            for argument in arguments:
                if isinstance(argument, types.Object) or argument == types.VOID:
                    raise SourceError(node, f"expected a type of values in {given}, got {argument}")
                _check_not_within(declaration, given, (argument,), node)
            for field, found in zip(declaration.fields, fields_of(given, facts).values(), strict=False):
                if not types.has_variables(found) and not field_is_allowed(declaration.kind, found, facts):
                    text = f"a {declaration.kind} may not contain {found} as the field `{field.name}`"
                    raise SourceError(node, f"expected other type arguments of {given}: {text}")
        case types.Object(declaration, arguments) if arguments:
            _check_not_within(declaration, given, arguments, node)
        case types.Tuple(elements):
            for element in elements:
                if isinstance(element, types.Object) or element == types.VOID:
                    raise SourceError(node, f"expected a type of values in a tuple, got {element}")


def _check_not_within(
    declaration: tree.Declaration, given: types.Type, arguments: Iterable[types.Type], node: tree.Node
) -> None:
    for argument in arguments:
        if isinstance(argument, types.Struct | types.Object):
            if argument.declaration is declaration:
                raise SourceError(node, f"expected other type arguments of {given} than the type itself")
            _check_not_within(declaration, given, argument.arguments, node)


def check_new_type(declaration: tree.Typedef, base: types.Type) -> None:
    found = types.base_of(base)
    if not (isinstance(found, types.Bits) or found in (types.BOOL, types.UNKNOWN)):
        raise SourceError(
            declaration, f"expected bit<>, int<>, bool or another new type after `type`, got {base}"
        )


def check_top_instance(declaration: tree.Instance, found: types.Type) -> None:
    """Raise `SourceError` unless an instance may be outside of parsers and controls."""
    if not isinstance(found, types.Object):
        return
    if isinstance(found.declaration, tree.Control | tree.Parser):
        text = (
            f"expected the instance `{declaration.name}` of {found} within a control or a parser, or as an "
            "argument"
        )
        raise SourceError(declaration, text)
    if declaration.name == "main" and not isinstance(found.declaration, tree.Package):
        raise SourceError(declaration, f"expected an instance of a package as `main`, got one of {found}")


def check_field_count(given: types.Type, node: tree.Node, facts: Facts) -> None:
    if (count := count_fields(given, facts)) > MAX_FIELDS:
        raise SourceError(node, f"expected at most {MAX_FIELDS} fields in {given}, got {count}")


def count_fields(given: types.Type, facts: Facts) -> int:
    """Return the number of values in one value of a type."""
    match types.base_of(given):
        case types.Struct() as struct:
            if struct not in facts.field_counts:
                facts.field_counts[struct] = 1  # of a type within itself, which is refused
                found = fields_of(struct, facts).values()
                facts.field_counts[struct] = sum(count_fields(each, facts) for each in found)
            return facts.field_counts[struct]
        case types.Stack(element, size):
            return size * count_fields(element, facts)
        case types.Tuple(elements):
            return sum(count_fields(each, facts) for each in elements)
    return 1
