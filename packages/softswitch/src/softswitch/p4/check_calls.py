"""Targets of calls: functions, methods, actions, tables and constructors, with their type arguments."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.p4 import tree, types
from softswitch.p4.abstract_methods import check_constructor_call
from softswitch.p4.argument_rules import (
    check_argument,
    check_inferred,
    check_is_value,
    check_packet_call,
)  # fmt: skip
from softswitch.p4.check_expressions import ExpressionChecker
from softswitch.p4.constants import Evaluator, struct_substitution
from softswitch.p4.diagnostics import SourceError, SourceFiles
from softswitch.p4.scopes import CallTarget, Entity, Facts, NameScope, TargetKind
from softswitch.p4.unify import Known, unify

_SIZES = ("minSizeInBits", "maxSizeInBits", "minSizeInBytes", "maxSizeInBytes")
_HEADER_METHODS = {"isValid": types.BOOL, "setValid": types.VOID, "setInvalid": types.VOID}
_STACK_METHODS = ("push_front", "pop_front")
Called = tree.Function | tree.Action | tree.Control | tree.Parser


class CallChecker:
    def __init__(self, facts: Facts, sources: SourceFiles) -> None:
        self.facts, self.sources, self.evaluator = facts, sources, Evaluator(facts)
        self.expressions = ExpressionChecker(facts, sources, self.check)
        self.resolver = self.expressions.resolver
        self._conversions = self.expressions.conversions

    def check(self, call: tree.Call, scope: NameScope, wanted: types.Type | None = None) -> types.Type:
        callee = call.function
        if isinstance(callee, tree.Name):
            return self._call_of_name(call, callee, scope, wanted)
        if isinstance(callee, tree.Member):
            return self._call_of_member(call, callee, scope, wanted)
        raise SourceError(call, "expected a function, a method or an action before `(`")

    def _call_of_name(
        self, call: tree.Call, callee: tree.Name, scope: NameScope, wanted: types.Type | None
    ) -> types.Type:
        found = self.resolver.find(callee.name, scope, callee, callee.is_global)
        declaration = found[0]
        if isinstance(declaration, tree.Function | tree.Action):
            candidates = [each for each in found if isinstance(each, tree.Function | tree.Action)]
            chosen = self._choose(call, candidates, callee.name)
            self.facts.references[callee] = chosen
            if isinstance(chosen, tree.Action):
                if call.type_arguments:
                    raise SourceError(call, f"expected no type arguments of the action `{callee.name}`")
                return self._bind(call, chosen, "action", {}, scope, None)
            return self._bind(call, chosen, "function", self._explicit(call, chosen, scope), scope, wanted)
        if isinstance(declaration, tree.Extern | tree.Control | tree.Parser | tree.Package):
            arguments = tuple(self.resolver.resolve(each, scope) for each in call.type_arguments)
            self.facts.references[callee] = declaration
            return self.construct(call, declaration, arguments, call.arguments, scope)
        raise SourceError(call, f"expected a function or an action before `(`, got `{callee.name}`")

    def _explicit(self, call: tree.Call, chosen: tree.Function, scope: NameScope) -> Known:
        """Return the type arguments that a call gives."""
        if not call.type_arguments:
            return {}
        if len(call.type_arguments) != len(chosen.type_parameters):
            expected = f"expected {len(chosen.type_parameters)} type arguments of `{chosen.name}`"
            raise SourceError(call, f"{expected}, got {len(call.type_arguments)}")
        resolved = [self.resolver.resolve(each, scope) for each in call.type_arguments]
        pairs = zip(chosen.type_parameters, resolved, strict=True)
        return {types.Variable(n, chosen): r for n, r in pairs if r != types.UNKNOWN}

    # -- members

    def _call_of_member(
        self, call: tree.Call, callee: tree.Member, scope: NameScope, wanted: types.Type | None
    ) -> types.Type:
        name, base = callee.name, callee.base
        if (static := self.expressions.type_before_dot(base, scope)) is not None:
            if name in _SIZES:
                return self._size(call, name, static)
            if isinstance(static, types.Object) and isinstance(
                static.declaration, tree.Control | tree.Parser
            ):
                return self._direct(call, static.declaration, static.arguments, name, scope)
            raise SourceError(call, f"expected a method of the type {static}, got `{name}`")
        if isinstance(base, tree.Name):
            found = self.resolver.find(base.name, scope, base, base.is_global)[0]
            if isinstance(found, tree.Control | tree.Parser):
                return self._direct(call, found, (), name, scope)
        receiver = types.base_of(self.expressions.check(base, scope))
        if receiver == types.UNKNOWN and self.sources.error_count:
            return types.UNKNOWN  # the cause is reported
        if name in _SIZES and not isinstance(receiver, types.Object):
            return self._size(call, name, receiver)
        match receiver:
            case types.Struct(kind=kind) if name in _HEADER_METHODS and kind != "struct":
                if kind == "header_union" and name != "isValid":
                    raise SourceError(call, f"expected `isValid` of a header union, got `{name}`")
                if call.arguments:
                    raise SourceError(call, f"expected no arguments of `{name}`")
                if name != "isValid":
                    self.check_assignable(base)
                self.facts.calls[call] = CallTarget("builtin", receiver=base, name=name)
                return _HEADER_METHODS[name]
            case types.Stack() if name in _STACK_METHODS:
                if len(call.arguments) != 1 or call.arguments[0].value is None:
                    raise SourceError(call, f"expected one argument of `{name}`, the number of elements")
                self.expressions.check(call.arguments[0].value, scope)
                self.resolver.check_compile_time(call.arguments[0].value)
                self.check_assignable(base)
                target = CallTarget("builtin", receiver=base, name=name, arguments=list(call.arguments))
                self.facts.calls[call] = target
                return types.VOID
            case types.Named(declaration=tree.Table() as table) if name == "apply":
                if call.arguments:
                    raise SourceError(call, "expected no arguments of `apply` of a table")
                self.facts.calls[call] = CallTarget("table", table, base, name)
                return types.ApplyResult(table)
            case types.Object(declaration=tree.Control() | tree.Parser() as applied, arguments=arguments):
                if name == "apply":
                    known = struct_substitution(applied, arguments)
                    return self._bind(call, applied, "apply", known, scope, None, receiver=base)
            case types.Object(declaration=tree.Extern() as extern, arguments=arguments):
                return self._method(call, extern, arguments, callee, scope, wanted)
        raise SourceError(call, f"expected a method of {receiver}, got `{name}`")

    def _size(self, call: tree.Call, name: str, given: types.Type) -> types.Type:
        if call.arguments or call.type_arguments:
            raise SourceError(call, f"expected no arguments of `{name}`")
        self.facts.calls[call] = CallTarget("size", name=name, type=given)
        return types.INT

    def _direct(
        self, call: tree.Call, found: tree.Control | tree.Parser, arguments: tuple[types.Type, ...],
        name: str,
        scope: NameScope,
    ) -> types.Type:  # fmt: skip
        """Check `Type.apply(...)`, which makes an instance and applies it."""
        if name != "apply":
            raise SourceError(call, f"expected `apply` of `{found.name}`, got `{name}`")
        if any(parameter.default is None for parameter in found.constructor_parameters):
            raise SourceError(call, f"expected an instance: `{found.name}` has constructor parameters")
        return self._bind(call, found, "direct", struct_substitution(found, arguments), scope, None)

    def _method(
        self, call: tree.Call, extern: tree.Extern, arguments: tuple[types.Type, ...], callee: tree.Member,
        scope: NameScope, wanted: types.Type | None,
    ) -> types.Type:  # fmt: skip
        methods = [
            each for each in extern.methods if each.name == callee.name and each.return_type is not None
        ]
        if not methods:
            names = ", ".join(dict.fromkeys(m.name for m in extern.methods if m.return_type is not None))
            raise SourceError(call, f"expected a method of {extern.name} ({names}), got `{callee.name}`")
        chosen = self._choose(call, methods, callee.name)
        assert isinstance(chosen, tree.Function)
        known = {**struct_substitution(extern, arguments), **self._explicit(call, chosen, scope)}
        known = {variable: value for variable, value in known.items() if value != types.UNKNOWN}
        returned = self._bind(call, chosen, "method", known, scope, wanted, receiver=callee.base)
        if extern.name == "packet_in":
            check_packet_call(call, self.facts)
        return returned

    # -- arguments

    def _choose(
        self, call: tree.Call, candidates: Sequence[tree.Function | tree.Action], name: str
    ) -> tree.Function | tree.Action:
        """Return the candidate whose parameters the arguments fit, by their number and names."""
        fitting = [each for each in candidates if _fits(call.arguments, each.parameters)]
        if len(fitting) > 1 and len({len(each.parameters) for each in fitting}) == 1:
            places = " and ".join(str(each.position) for each in fitting)
            raise SourceError(call, f"expected arguments that one `{name}` takes, got such for {places}")
        if len(fitting) == 1 or (fitting and len(candidates) > 1):
            return fitting[0]
        if len(candidates) == 1:
            return candidates[0]
        counts = " or ".join(str(len(each.parameters)) for each in candidates)
        raise SourceError(call, f"expected {counts} arguments of `{name}`, got {len(call.arguments)}")

    def _bind(
        self, call: tree.Call, chosen: Called, kind: TargetKind, known: Known, scope: NameScope,
        wanted: types.Type | None, receiver: tree.Expression | None = None,
    ) -> types.Type:  # fmt: skip
        arguments = self.match_arguments(call, call.arguments, chosen.parameters, chosen.name)
        self.check_arguments(arguments, chosen.parameters, known, scope)
        returned = self.facts.returns.get(chosen, types.VOID)
        if wanted is not None and types.has_variables(types.substitute(returned, known)):
            unify(returned, wanted, known, self.facts)
        target = CallTarget(kind, chosen, receiver, chosen.name, chosen.parameters, arguments, dict(known))
        for argument in arguments:
            if argument is not None and argument.value is not None:
                check_is_value(argument.value, self.facts)
        if isinstance(chosen, tree.Function):
            check_inferred(call, target, self.facts)
        self.facts.calls[call] = target
        return types.substitute(returned, known)

    def match_arguments(
        self, node: tree.Node, given: list[tree.Argument], parameters: list[tree.Parameter], name: str
    ) -> list[tree.Argument | None]:
        """Return the argument of each parameter, None where it has a default or is optional."""
        matched: list[tree.Argument | None] = [None] * len(parameters)
        position_of = {parameter.name: i for i, parameter in enumerate(parameters)}
        for i, argument in enumerate(given):
            index = i if argument.name is None else position_of.get(argument.name, -1)
            if index == -1 or index >= len(parameters):
                unknown = f"`{argument.name}`" if argument.name else f"{len(given)} arguments"
                names = ", ".join(position_of) or "none"
                raise SourceError(argument, f"expected the parameters of `{name}` ({names}), got {unknown}")
            if matched[index] is not None:
                raise SourceError(argument, f"expected one argument for `{parameters[index].name}`, got two")
            matched[index] = argument
        for parameter, found in zip(parameters, matched, strict=True):
            is_optional = parameter.default is not None or parameter.annotation("optional") is not None
            if found is None and not is_optional:
                raise SourceError(
                    node, f"expected an argument for the parameter `{parameter.name}` of `{name}`"
                )
        return matched

    def check_arguments(
        self,
        arguments: list[tree.Argument | None],
        parameters: list[tree.Parameter],
        known: Known,
        scope: NameScope,
    ) -> None:
        for parameter, argument in zip(parameters, arguments, strict=True):
            if argument is None or argument.value is None:
                if argument is not None and parameter.direction in ("in", "inout"):
                    raise SourceError(argument, f"expected a value for `{parameter.name}`, got `_`")
                continue
            wanted = types.substitute(self.facts.declared_type(parameter), known)
            value = argument.value
            expected = (
                None if types.has_variables(wanted) and not isinstance(wanted, types.Struct) else wanted
            )
            found = self.expressions.check(value, scope, expected)
            check_argument(value, parameter, found)
            if parameter.direction in ("out", "inout"):
                self.check_assignable(value)
                if not unify(wanted, found, known, self.facts) or not unify(found, wanted, known, self.facts):
                    text = f"expected a variable of type {wanted} for `{parameter.name}`, got {found}"
                    raise SourceError(value, text)
            elif types.has_variables(wanted):
                if not unify(wanted, found, known, self.facts):
                    text = (
                        f"expected a value of type {wanted} for `{parameter.name}`, got one of type {found}"
                    )
                    raise SourceError(value, text)
            else:
                self._conversions.check(value, found, wanted)

    def construct(
        self, node: tree.Call | tree.Instance, declaration: tree.Declaration,
        arguments: tuple[types.Type, ...],
        given: list[tree.Argument], scope: NameScope,
    ) -> types.Type:  # fmt: skip
        """Check the arguments of a constructor, and return the type of what it makes."""
        assert isinstance(declaration, tree.Extern | tree.Control | tree.Parser | tree.Package)
        if isinstance(declaration, tree.Control | tree.Parser) and declaration.is_type:
            raise SourceError(
                node, f"expected something to make an instance of, `{declaration.name}` is a type"
            )
        count = len(declaration.type_parameters)
        if arguments and len(arguments) != count:
            raise SourceError(
                node, f"expected {count} type arguments of `{declaration.name}`, got {len(arguments)}"
            )
        known = {
            variable: value
            for variable, value in struct_substitution(declaration, arguments).items()
            if value != types.UNKNOWN
        }
        parameters = self._constructor_parameters(node, declaration, given)
        matched = self.match_arguments(node, given, parameters, declaration.name)
        self.check_arguments(matched, parameters, known, scope)
        for argument in matched:
            if argument is not None and argument.value is not None:
                self.resolver.check_compile_time(argument.value)
        check_constructor_call(node, declaration)
        variables = [types.Variable(name, declaration) for name in declaration.type_parameters]
        resolved = tuple(types.substitute(known.get(v, types.UNKNOWN), known) for v in variables)
        made = types.Object(declaration, resolved)
        target = CallTarget(
            "constructor", declaration, None, declaration.name, parameters, matched, known, made
        )
        if isinstance(node, tree.Call):
            has_types = bool(node.type_arguments)
        else:
            has_types = isinstance(node.type, tree.SpecializedType)
        if not has_types:
            check_inferred(node, target, self.facts)
        self.facts.calls[node] = target
        return made

    def _constructor_parameters(
        self, node: tree.Node, declaration: tree.Declaration, given: list[tree.Argument]
    ) -> list[tree.Parameter]:
        if isinstance(declaration, tree.Control | tree.Parser):
            return declaration.constructor_parameters
        if isinstance(declaration, tree.Package):
            return declaration.parameters
        assert isinstance(declaration, tree.Extern)
        constructors = [each for each in declaration.methods if each.return_type is None]
        if not constructors:
            raise SourceError(node, f"expected an extern with a constructor, `{declaration.name}` has none")
        fitting = [each for each in constructors if _fits(given, each.parameters)]
        return (fitting or constructors)[0].parameters

    # -- what can be assigned to

    def check_assignable(self, expression: tree.Expression) -> None:
        """Raise `SourceError` unless a value can be assigned to an expression."""
        match expression:
            case tree.Name():
                found: Entity | None = self.facts.references.get(expression)
                is_writable = isinstance(found, tree.Variable | tree.ForIn) or (
                    isinstance(found, tree.Parameter) and found.direction in ("out", "inout")
                )
                if is_writable:
                    return
                if isinstance(found, tree.Parameter):
                    text = f"expected a variable to assign to, the parameter `{found.name}` is read-only"
                    raise SourceError(expression, text)
            case tree.Member(base=base) | tree.Index(base=base) | tree.Slice(base=base):
                if not (
                    isinstance(base, tree.Call) or isinstance(self.facts.types.get(expression), types.Named)
                ):
                    self.check_assignable(base)
                    return
        raise SourceError(expression, "expected a variable or a field to assign to")


def _fits(arguments: list[tree.Argument], parameters: list[tree.Parameter]) -> bool:
    if len(arguments) > len(parameters):
        return False
    names = {argument.name for argument in arguments if argument.name is not None}
    if not names <= {parameter.name for parameter in parameters}:
        return False
    unnamed = sum(argument.name is None for argument in arguments)
    return all(
        i < unnamed
        or parameter.name in names
        or parameter.default is not None
        or parameter.annotation("optional")
        for i, parameter in enumerate(parameters)
    )
