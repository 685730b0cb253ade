"""Rules for arguments, beyond having the types of their parameters (specification, §8.20 and §13.8)."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import CallTarget, Facts
from softswitch.p4.unify import fields_of


def check_argument(value: tree.Expression, parameter: tree.Parameter, found: types.Type) -> None:
    """Raise `SourceError` for what has no value: a table, an action, a control that a method would need."""
    if isinstance(found, types.Named | types.ApplyResult | types.ActionRun) or found == types.VOID:
        raise SourceError(value, f"expected a value for `{parameter.name}`, got {found}, which has none")
    if isinstance(found, types.Object) and parameter.direction:
        raise SourceError(value, f"expected a value for `{parameter.name}`, got an instance of {found}")


def check_is_value(value: tree.Expression, facts: Facts) -> None:
    """Raise `SourceError` for an instance that only constructors and packages take: no extern."""
    found = facts.types.get(value)
    if isinstance(found, types.Object) and not isinstance(found.declaration, tree.Extern):
        raise SourceError(value, f"expected a value or an extern, got an instance of {found}")


def check_inferred(node: tree.Node, target: CallTarget, facts: Facts) -> None:
    """Raise `SourceError` unless the arguments of a call tell all type arguments.

    The parameter of a constructor may tell those of an object that is its argument.
    """
    declaration, known = target.declaration, target.substitution
    absent = [p for p, a in zip(target.parameters, target.arguments, strict=True) if a is None]
    for name in getattr(declaration, "type_parameters", ()):
        assert declaration is not None
        variable = types.Variable(name, declaration)
        if variable not in known:
            is_inferred_later = target.kind == "constructor" and isinstance(node, tree.Call)
            is_optional = any(mentions(facts.declared_type(parameter), variable) for parameter in absent)
            if is_inferred_later or is_optional:
                continue
            text = f"expected the type `{name}` of `{declaration.name}` in `{declaration.name}<...>`"
            raise SourceError(node, f"{text}, as no argument tells it")
        directed = [p for p in target.parameters if p.direction and facts.declared_type(p) == variable]
        if directed and types.substitute(variable, known) == types.STRING:
            text = f"expected another type than string of `{directed[0].name}`, as it has a direction"
            raise SourceError(node, text)
        if has_open_part(types.substitute(variable, known)):
            text = (
                f"expected an argument of `{declaration.name}` with a width or a cast, as it tells the "
                f"type `{name}`"
            )
            raise SourceError(node, f"{text}, got {known[variable]}")


def mentions(given: types.Type, variable: types.Variable) -> bool:
    match given:
        case types.Variable():
            return given == variable
        case types.Struct(_, parts) | types.Object(_, parts) | types.Tuple(parts):
            return any(mentions(part, variable) for part in parts)
        case types.List(part) | types.Stack(part, _):
            return mentions(part, variable)
    return False


def has_open_part(given: types.Type) -> bool:
    """Return whether a type has no width, or is that of `{a = 1}` without the name of a struct."""
    match given:
        case types.Tuple(elements):
            return any(map(has_open_part, elements))
        case types.StructValue():
            return True
    return given == types.INT


def check_packet_call(call: tree.Call, facts: Facts) -> None:
    """Check what `extract` and `lookahead` of a packet are given."""
    target = facts.calls[call]
    assert isinstance(target.declaration, tree.Function)
    names = target.declaration.type_parameters
    if not names:
        return
    given = types.substitute(types.Variable(names[0], target.declaration), target.substitution)
    if types.has_variables(given):
        return
    if target.name == "lookahead":
        if given == types.VOID or has_varbit(given, facts) or isinstance(given, types.Object):
            raise SourceError(call, f"expected a type of fixed width for `lookahead`, got {given}")
    elif target.name == "extract":
        if not types.is_header(types.base_of(given)):
            raise SourceError(call, f"expected a header for `extract`, got one of type {given}")
        count = sum(
            isinstance(types.base_of(each), types.Varbit)
            for each in fields_of(types.base_of(given), facts).values()
        )
        if count != len(target.parameters) - 1:
            wanted = "no varbit" if len(target.parameters) == 1 else "one varbit"
            raise SourceError(
                call, f"expected a header with {wanted} for this `extract`, {given} has {count}"
            )


def has_varbit(given: types.Type, facts: Facts) -> bool:
    match types.base_of(given):
        case types.Varbit():
            return True
        case types.Struct() as struct:
            return any(has_varbit(each, facts) for each in fields_of(struct, facts).values())
        case types.Stack(element, _):
            return has_varbit(element, facts)
        case types.Tuple(elements):
            return any(has_varbit(each, facts) for each in elements)
    return False
