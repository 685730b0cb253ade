"""Checks of statements, and of the declarations among them."""

from __future__ import annotations

from collections.abc import Callable

from softswitch.p4 import tree, types
from softswitch.p4.abstract_methods import check_abstract_methods
from softswitch.p4.check_calls import CallChecker
from softswitch.p4.diagnostics import SourceError
from softswitch.p4.scopes import NameScope
from softswitch.p4.unify import unify

_OPERATORS = {"<<", ">>", "++"}


class StatementChecker:
    """Checks statements one by one, so that all independent errors are found."""

    def __init__(
        self, calls: CallChecker, check_member: Callable[[tree.Declaration, NameScope], None]
    ) -> None:
        self.facts, self.sources, self.evaluator = calls.facts, calls.sources, calls.evaluator
        self._calls, self._expressions, self._resolver = calls, calls.expressions, calls.resolver
        self._check_member = check_member
        self._returned: types.Type | None = None

    def check_body(self, body: tree.Block, scope: NameScope, returned: types.Type) -> None:
        """Check the body of a function, an action or a control, which returns a type."""
        self._returned = returned
        self.check_block(body, scope)
        self._returned = None

    def check_block(self, block: tree.Block, scope: NameScope) -> None:
        inner = NameScope(scope, is_inner=True)
        for statement in block.statements:
            self.check_statement(statement, inner)

    def check_statement(self, statement: tree.Statement, scope: NameScope) -> None:
        try:
            self._check(statement, scope)
        except SourceError as error:
            self.sources.error(error.position, error.message)
            if isinstance(statement, tree.Variable | tree.Constant | tree.Instance):
                self.facts.declared.setdefault(statement, types.UNKNOWN)
                scope.names.setdefault(statement.name, [statement])

    def _check(self, statement: tree.Statement, scope: NameScope) -> None:
        match statement:
            case tree.Variable() | tree.Constant() | tree.Instance():
                self.check_local(statement, scope)
            case tree.Assignment():
                self._assignment(statement, scope)
            case tree.CallStatement(call=call):
                self._calls.check(call, scope)
            case tree.Conditional(condition=condition, then=then, otherwise=otherwise):
                self._condition(condition, scope)
                self.check_statement(then, NameScope(scope, is_inner=True))
                if otherwise is not None:
                    self.check_statement(otherwise, NameScope(scope, is_inner=True))
            case tree.Block():
                self.check_block(statement, scope)
            case tree.Return(value=value):
                self._return(statement, value, scope)
            case tree.Switch():
                self._switch(statement, scope)
            case tree.For():
                inner = NameScope(scope, is_inner=True)
                for each in statement.initial:
                    self.check_statement(each, inner)
                self._condition(statement.condition, inner)
                for each in statement.updates:
                    self.check_statement(each, inner)
                self.check_statement(statement.body, inner)
            case tree.ForIn():
                self._for_in(statement, scope)
            case tree.Exit() | tree.Empty() | tree.Break() | tree.Continue():
                pass
            case _:
                raise SourceError(statement, "expected a statement, got a declaration")

    def _condition(self, condition: tree.Expression, scope: NameScope) -> None:
        found = self._expressions.check(condition, scope, types.BOOL)
        if found != types.BOOL:
            raise SourceError(condition, f"expected a bool as a condition, got {found}")

    def check_local(
        self, declaration: tree.Variable | tree.Constant | tree.Instance, scope: NameScope
    ) -> None:
        if isinstance(declaration, tree.Instance):
            self.check_instance(declaration, scope)
            return
        declared = self._resolver.resolve(declaration.type, scope)
        initial = declaration.initial if isinstance(declaration, tree.Variable) else declaration.value
        if initial is not None:
            self._expressions.expect(initial, declared, scope)
        if declared == types.INT and isinstance(declaration, tree.Variable):
            raise SourceError(declaration, f"expected a type with a width for `{declaration.name}`, got int")
        if declared == types.VOID or isinstance(declared, types.Object):
            raise SourceError(
                declaration, f"expected a type of values for `{declaration.name}`, got {declared}"
            )
        shadowed = scope.find(declaration.name)
        if scope.is_inner and shadowed and isinstance(shadowed[0], tree.Parameter):
            text = f"expected another name than `{declaration.name}`, which is a parameter"
            raise SourceError(declaration, f"{text} ({shadowed[0].position})")
        self.facts.declared[declaration] = declared
        if isinstance(declaration, tree.Constant):
            value = self.evaluator.constant(declaration)
            if value is not None:
                self.facts.constants[declaration] = value
        self._resolver.declare(scope, declaration)

    def check_instance(self, declaration: tree.Instance, scope: NameScope) -> None:
        node = declaration.type
        resolved = self._resolver.resolve(node, scope)
        if not isinstance(resolved, types.Object):
            raise SourceError(declaration, f"expected an extern, a control or a parser, got {resolved}")
        made = self._calls.construct(
            declaration, resolved.declaration, resolved.arguments, declaration.arguments, scope
        )
        self.facts.declared[declaration] = made
        inner = NameScope(scope, {"this": [declaration]})
        for member in declaration.body:
            self._check_member(member, inner)
        check_abstract_methods(declaration, made, self.facts)
        self._resolver.declare(scope, declaration)

    def _assignment(self, statement: tree.Assignment, scope: NameScope) -> None:
        wanted = self._expressions.check(statement.target, scope)
        self._calls.check_assignable(statement.target)
        if isinstance(wanted, types.Named | types.Object):
            raise SourceError(statement, "expected a variable or a field to assign to")
        if not statement.operator:
            self._expressions.expect(statement.value, wanted, scope)
            return
        combined = tree.Binary(statement.position, statement.operator, statement.target, statement.value)
        self.facts.combined[statement] = combined
        found = self._expressions.check(combined, scope, wanted)
        if not unify(wanted, found, {}, self.facts):
            raise SourceError(statement, f"expected a result of type {wanted}, got {found}")

    def _return(self, statement: tree.Return, value: tree.Expression | None, scope: NameScope) -> None:
        wanted = self._returned
        if wanted is None or wanted == types.VOID:
            if value is not None:
                raise SourceError(statement, "expected `return` without a value here")
        elif value is None:
            raise SourceError(statement, f"expected a value of type {wanted} after `return`")
        else:
            self._expressions.expect(value, wanted, scope)

    def _switch(self, statement: tree.Switch, scope: NameScope) -> None:
        found = self._expressions.check(statement.value, scope)
        if isinstance(statement.value, tree.Default) or not _can_switch(found):
            raise SourceError(
                statement.value, f"expected bits, an enum, an error or `action_run` in a switch, got {found}"
            )
        known: set[object] = set()
        for i, case in enumerate(statement.cases):
            try:
                if isinstance(case.label, tree.Default):
                    self._default_label(statement.cases[i + 1 :])
                else:
                    self._label(case.label, found, known, scope)
            except SourceError as error:
                self.sources.error(error.position, error.message)
            if case.body is not None:
                self.check_block(case.body, scope)

    def _default_label(self, following: list[tree.SwitchCase]) -> None:
        if following:
            label = following[0].label
            what = "another one" if isinstance(label, tree.Default) else "a label after it"
            raise SourceError(label, f"expected `default` as the last label of the switch, got {what}")

    def _label(self, label: tree.Expression, found: types.Type, known: set[object], scope: NameScope) -> None:
        value: object
        if isinstance(found, types.ActionRun):
            self._action_label(label, found.table, scope)
            value = self.facts.references[label]
        else:
            self._expressions.expect(label, found, scope)
            value = self.evaluator.convert(self.evaluator.value(label), found)
            if value is None:
                raise SourceError(label, "expected a label that is known when the program is compiled")
        if value in known:
            shown = label.name if isinstance(label, tree.Name | tree.Member) else value
            raise SourceError(label, f"expected different labels in the switch, got `{shown}` twice")
        known.add(value)

    def _action_label(self, label: tree.Expression, table: tree.Table, scope: NameScope) -> None:
        names = [action.name for action in table.actions]
        if not isinstance(label, tree.Name) or label.name not in names:
            raise SourceError(
                label, f"expected an action of the table {table.name} ({', '.join(names)}) as a label"
            )
        declaration = self._resolver.find(label.name, scope, label, label.is_global)[0]
        assert not isinstance(declaration, types.Variable)
        self.facts.references[label] = declaration

    def _for_in(self, statement: tree.ForIn, scope: NameScope) -> None:
        inner = NameScope(scope, is_inner=True)
        if isinstance(statement.collection, tree.Range):
            found = self._expressions.check(statement.collection, scope)
            element = found.element if isinstance(found, types.Set) else found
        elif isinstance(statement.collection, tree.ListExpression) and statement.type is not None:
            element = self._resolver.resolve(statement.type, scope)
            self._expressions.expect(statement.collection, types.List(element), scope)
        else:
            found = self._expressions.check(statement.collection, scope)
            element = found.element if isinstance(found, types.Stack | types.List) else found
        if statement.type is not None:
            declared = self._resolver.resolve(statement.type, scope)
            if not unify(declared, element, {}, self.facts):
                raise SourceError(statement, f"expected elements of type {declared}, got {element}")
            variable = tree.Variable(statement.position, statement.name, [], statement.type, None)
            self.facts.declared[variable] = declared
            self._resolver.declare(inner, variable)
        else:
            outer = self._resolver.find(statement.name, scope, statement)[0]
            if not isinstance(outer, tree.Variable):
                raise SourceError(statement, f"expected a variable, got `{statement.name}`")
            variable = outer
        self.facts.references[statement] = variable
        self.check_statement(statement.body, inner)


def _can_switch(found: types.Type) -> bool:
    if isinstance(found, types.ActionRun | types.Variable) or found in (types.BOOL, types.ERROR, types.INT):
        return True
    return isinstance(types.base_of(found), types.Bits | types.Enum)
