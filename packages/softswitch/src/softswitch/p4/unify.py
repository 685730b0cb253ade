"""Inference of type arguments: what the parameters of a generic declaration must be (§8.26)."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.constants import struct_substitution
from softswitch.p4.scopes import Facts

Known = dict[types.Variable, types.Type]
RIGID: Known = {}
"""Given as `known` where type parameters are those of the body around, which are equal to themselves only."""


def unify(wanted: types.Type, given: types.Type, known: Known, facts: Facts) -> bool:
    """Make two types equal by values of type parameters, which are added to `known`; return whether they are.

    `given` may also be convertible to `wanted`: an integer without a width, a list, a serializable enum.
    """
    wanted, given = types.substitute(wanted, known), types.substitute(given, known)
    if wanted == given or types.UNKNOWN in (wanted, given):
        return True
    if known is RIGID and isinstance(wanted, types.Variable):
        return False
    if isinstance(wanted, types.Variable):
        known[wanted] = given
        return True
    if known is RIGID and isinstance(given, types.Variable):
        return isinstance(wanted, types.Set) and wanted.element == given
    if isinstance(given, types.Variable):
        if wanted != types.INT:
            known[given] = wanted
        return True
    match wanted, given:
        case types.Set(left), types.Set(right):
            if isinstance(left, types.Enum) and right in (types.INT, left.underlying):
                return True
            return unify(left, right, known, facts)
        case types.Set(left), types.Tuple((element,)):
            return unify(left, element, known, facts)
        case types.Set(left), _:
            return unify(left, given, known, facts)
        case (types.Bits() | types.New(), types.INT):
            return isinstance(types.representation(wanted), types.Bits)
        case types.Enum(underlying=types.Bits()), types.INT:
            return False
        case types.INT, types.Bits():
            return True
        case types.Bits(), types.Enum(underlying=underlying):
            return underlying == wanted
        case types.Struct(declaration, left_arguments), types.Struct(other, right_arguments):
            if declaration is not other:
                return False
            pairs = zip(left_arguments, right_arguments, strict=True)
            return all([unify(left, right, known, facts) for left, right in pairs])
        case (types.Object() as left_object, types.Object() as right_object):
            return _unify_objects(left_object, right_object, known, facts)
        case types.Tuple(lefts), types.Tuple(rights):
            return _unify_all(lefts, rights, known, facts)
        case types.Struct(), types.Tuple(rights):
            return _unify_all(tuple(fields_of(wanted, facts).values()), rights, known, facts)
        case types.Struct(), types.StructValue(names, rights):
            fields = fields_of(wanted, facts)
            return set(names) <= fields.keys() and _unify_all(
                tuple(fields[name] for name in names), rights, known, facts
            )
        case types.StructValue(names, lefts), types.StructValue(others, rights):
            return names == others and _unify_all(lefts, rights, known, facts)
        case types.List(element), types.Tuple(rights):
            return all([unify(element, right, known, facts) for right in rights])
        case types.List(left), types.List(right):
            return unify(left, right, known, facts)
        case types.Stack(element, size), types.Tuple(rights):
            return len(rights) == size and all([unify(element, right, known, facts) for right in rights])
        case types.Stack(left, size), types.Stack(right, other_size):
            return size == other_size and unify(left, right, known, facts)
    return False


def _unify_all(
    lefts: tuple[types.Type, ...], rights: tuple[types.Type, ...], known: Known, facts: Facts
) -> bool:
    if len(lefts) != len(rights):
        return False
    return all([unify(left, right, known, facts) for left, right in zip(lefts, rights, strict=True)])


def _unify_objects(left: types.Object, right: types.Object, known: Known, facts: Facts) -> bool:
    if left.declaration is right.declaration:
        return _unify_all(left.arguments, right.arguments, known, facts)
    # A control or parser has the type of another one if their parameters have the same types.
    callables = tree.Control | tree.Parser
    if not isinstance(left.declaration, callables) or not isinstance(right.declaration, callables):
        return False
    lefts, rights = left.declaration.parameters, right.declaration.parameters
    if type(left.declaration) is not type(right.declaration) or len(lefts) != len(rights):
        return False
    left_values = struct_substitution(left.declaration, left.arguments)
    right_values = struct_substitution(right.declaration, right.arguments)
    for one, other in zip(lefts, rights, strict=True):
        if one.direction != other.direction:
            return False
        wanted = types.substitute(facts.declared_type(one), left_values)
        given = types.substitute(facts.declared_type(other), right_values)
        if not unify(wanted, given, known, facts):
            return False
    return True


def fields_of(given: types.Type, facts: Facts) -> dict[str, types.Type]:
    """Return the types of the fields of a struct, header or union, by name."""
    if isinstance(given, types.StructValue):
        return dict(zip(given.names, given.elements, strict=True))
    if not isinstance(given, types.Struct):
        return {}
    parameters = struct_substitution(given.declaration, given.arguments)
    return {
        field.name: types.substitute(facts.declared_type(field), parameters)
        for field in given.declaration.fields
        if field in facts.declared
    }
