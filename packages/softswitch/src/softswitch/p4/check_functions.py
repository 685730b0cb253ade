"""Checks of functions and actions, and of parameters."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.check_calls import CallChecker
from softswitch.p4.check_statements import StatementChecker
from softswitch.p4.declaration_rules import Owner, check_distinct, check_parameter
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import NameScope


class FunctionChecker:
    def __init__(self, calls: CallChecker) -> None:
        self.facts, self.sources, self.evaluator = calls.facts, calls.sources, calls.evaluator
        self._calls, self._expressions, self._resolver = calls, calls.expressions, calls.resolver
        self.statements = StatementChecker(calls, self.check_member)

    def generic_scope(self, declaration: tree.Declaration, names: list[str], scope: NameScope) -> NameScope:
        inner = NameScope(scope)
        check_distinct(names, declaration, f"type parameters of `{declaration.name}`")
        for name in names:
            inner.names[name] = [types.Variable(name, declaration)]
        return inner

    def check_parameters(self, parameters: list[tree.Parameter], scope: NameScope, owner: Owner) -> None:
        for parameter in parameters:
            self.facts.declared[parameter] = types.UNKNOWN  # until it is known, or if it is refused
            try:
                self._parameter(parameter, scope, owner)
            except SourceError as error:
                self.sources.error(error.position, error.message)
            self._resolver.declare(scope, parameter)

    def _parameter(self, parameter: tree.Parameter, scope: NameScope, owner: Owner) -> None:
        found = self._resolver.resolve(parameter.type, scope)
        self.facts.declared[parameter] = found
        check_parameter(parameter, found, owner)
        if parameter.default is not None:
            if types.has_variables(found):
                self._expressions.check(parameter.default, scope)
            else:
                self._expressions.expect(parameter.default, found, scope)
            self._resolver.check_compile_time(parameter.default)

    def check_function(self, declaration: tree.Function, scope: NameScope) -> None:
        inner = self.generic_scope(declaration, declaration.type_parameters, scope)
        if declaration.return_type is not None:
            self.facts.returns[declaration] = self._resolver.resolve(declaration.return_type, inner)
        owner: Owner = "extern" if declaration.body is None else "function"
        is_constructor = declaration.return_type is None
        self.check_parameters(declaration.parameters, inner, "constructor" if is_constructor else owner)
        self.facts.scopes[declaration] = inner
        if declaration.body is None:
            return
        self.statements.check_body(declaration.body, inner, self.facts.returns[declaration])
        if self.facts.returns[declaration] != types.VOID and not _always_returns(declaration.body):
            self.sources.error(
                declaration.position, f"expected `return` at the end of all ways through `{declaration.name}`"
            )

    def check_member(self, member: tree.Declaration, scope: NameScope) -> None:
        if isinstance(member, tree.Function):
            self.check_function(member, scope)
        elif isinstance(member, tree.Instance):
            self.statements.check_instance(member, scope)

    def check_action(self, declaration: tree.Action, scope: NameScope) -> None:
        inner = NameScope(scope)
        self.check_parameters(declaration.parameters, inner, "action")
        self._check_order(declaration.parameters)
        self.statements.check_body(declaration.body, inner, types.VOID)
        self._resolver.declare(scope, declaration)

    def _check_order(self, parameters: list[tree.Parameter]) -> None:
        """Check that parameters without a direction, which the control plane gives, come last."""
        has_data = False
        for parameter in parameters:
            if parameter.direction and has_data:
                raise SourceError(
                    parameter,
                    f"expected parameters without a direction after the others, `{parameter.name}` has one",
                )
            has_data = has_data or not parameter.direction


def _always_returns(statement: tree.Statement) -> bool:
    match statement:
        case tree.Return() | tree.Exit():
            return True
        case tree.Block(statements=statements):
            return any(map(_always_returns, statements))
        case tree.Conditional(then=then, otherwise=otherwise):
            return otherwise is not None and _always_returns(then) and _always_returns(otherwise)
        case tree.Switch(cases=cases):
            has_default = any(isinstance(case.label, tree.Default) for case in cases)
            return has_default and all(_always_returns(case.body) for case in cases if case.body is not None)
    return False
