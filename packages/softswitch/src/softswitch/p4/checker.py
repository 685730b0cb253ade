"""Names and types of a whole program: each declaration in order, as a name is known after its declaration."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.annotation_rules import check_annotations
from softswitch.p4.check_calls import CallChecker
from softswitch.p4.check_functions import FunctionChecker
from softswitch.p4.check_tables import TableChecker
from softswitch.p4.constants import wrap
from softswitch.p4.control_plane_names import check_control_plane_names
from softswitch.p4.declaration_rules import (
    Owner,
    check_field_count,
    check_new_type,
    check_top_instance,
    field_is_allowed,
)  # fmt: skip
from softswitch.p4.diagnostics import SourceError, SourceFiles
from softswitch.p4.placement import check_placement
from softswitch.p4.scopes import Facts, NameScope
from softswitch.p4.table_rules import can_end, can_select
from softswitch.p4.usage import warn_of_usage


def check_program(program: tree.Program, sources: SourceFiles) -> Facts:
    """Return what is known of the program's nodes; errors are reported to `sources`."""
    checker = Checker(Facts(), sources)
    for declaration in program.declarations:
        checker.check_top(declaration)
    check_placement(program, checker.facts, sources)
    check_annotations(program, checker.facts, sources)
    check_control_plane_names(program, sources)
    if not sources.error_count:
        warn_of_usage(program, checker.facts, sources)
    return checker.facts


class Checker:
    """Checks the declarations of a program, by a checker for each kind of what is in them."""

    def __init__(self, facts: Facts, sources: SourceFiles) -> None:
        self.facts, self.sources = facts, sources
        calls = CallChecker(facts, sources)
        self.evaluator = calls.evaluator
        self._calls, self._expressions, self._resolver = calls, calls.expressions, calls.resolver
        self._conversions = calls.expressions.conversions
        self._functions, self._tables = FunctionChecker(calls), TableChecker(calls)
        self._statements = self._functions.statements

    def check_top(self, declaration: tree.Declaration) -> None:
        scope = self.facts.globals
        try:
            self._check_declaration(declaration, scope)
        except SourceError as error:
            self.sources.error(error.position, error.message)
            if not isinstance(declaration, tree.Names):
                scope.names.setdefault(declaration.name, [declaration])
                if isinstance(declaration, tree.Typedef | tree.Constant | tree.Instance):
                    self.facts.declared.setdefault(declaration, types.UNKNOWN)

    def _check_declaration(self, declaration: tree.Declaration, scope: NameScope) -> None:
        match declaration:
            case tree.Constant() | tree.Variable() | tree.Instance():
                self._statements.check_local(declaration, scope)
                if isinstance(declaration, tree.Constant) and declaration not in self.facts.constants:
                    self._resolver.check_compile_time(declaration.value)
                if isinstance(declaration, tree.Instance):
                    check_top_instance(declaration, self.facts.declared_type(declaration))
            case tree.Typedef(type=node):
                base = self._resolver.resolve(node, scope)
                if declaration.is_new:
                    check_new_type(declaration, base)
                self.facts.declared[declaration] = base
                self._resolver.declare(scope, declaration)
            case tree.Struct():
                self._struct_type(declaration, scope)
            case tree.Enum():
                self._enum_type(declaration, scope)
            case tree.Names():
                self._names(declaration, scope)
            case tree.Extern():
                self._extern(declaration, scope)
            case tree.Function():
                self._functions.check_function(declaration, scope)
                self._resolver.declare(scope, declaration)
            case tree.Action():
                self._functions.check_action(declaration, scope)
            case tree.Parser() | tree.Control():
                self._callable(declaration, scope)
            case tree.Package():
                inner = self._functions.generic_scope(declaration, declaration.type_parameters, scope)
                self._functions.check_parameters(declaration.parameters, inner, "package")
                self._resolver.declare(scope, declaration)

    # -- types

    def _struct_type(self, declaration: tree.Struct, scope: NameScope) -> None:
        inner = self._functions.generic_scope(declaration, declaration.type_parameters, scope)
        seen: dict[str, tree.Field] = {}
        for field in declaration.fields:
            if field.name in seen:
                raise SourceError(field, f"expected one field `{field.name}` of `{declaration.name}`")
            seen[field.name] = field
            found = self._resolver.resolve(field.type, inner)
            self._check_field(declaration, field, found)
            self.facts.declared[field] = found
        if not declaration.type_parameters:
            check_field_count(types.Struct(declaration), declaration, self.facts)
        self._resolver.declare(scope, declaration)

    def _check_field(self, declaration: tree.Struct, field: tree.Field, found: types.Type) -> None:
        if not field_is_allowed(declaration.kind, found, self.facts):
            kind = declaration.kind.replace("_", " ")
            is_union = declaration.kind == "header_union"
            allowed = "headers in a header union" if is_union else f"a type that a {kind} may contain"
            self.sources.error(field.position, f"expected {allowed} as `{field.name}`, got {found}")

    def _enum_type(self, declaration: tree.Enum, scope: NameScope) -> None:
        if declaration.underlying is not None:
            underlying = self._resolver.resolve(declaration.underlying, scope)
            if not isinstance(underlying, types.Bits):
                raise SourceError(
                    declaration.underlying, f"expected bits as the type of an enum, got {underlying}"
                )
            for member in declaration.members:
                if member.value is None:
                    raise SourceError(member, f"expected a value of `{member.name}`")
                self._enum_value(member, member.value, underlying, scope)
        seen: set[str] = set()
        for member in declaration.members:
            if member.name in seen:
                raise SourceError(member, f"expected one member `{member.name}`, got two")
            seen.add(member.name)
        self._resolver.declare(scope, declaration)

    def _enum_value(
        self, member: tree.EnumMember, value: tree.Expression, underlying: types.Type, scope: NameScope
    ) -> None:
        self._expressions.check(value, scope, underlying)
        found = self.evaluator.value(value)
        if isinstance(found, bool) or not isinstance(found, int):
            raise SourceError(value, "expected a value that is known when compiling")
        if wrap(found, underlying) != found:
            raise SourceError(member, f"expected a value of {underlying} for `{member.name}`, got {found}")
        self._conversions.check(value, self.facts.types[value], underlying)

    def _names(self, declaration: tree.Names, scope: NameScope) -> None:
        known = self.facts.errors if declaration.name == "error" else self.facts.match_kinds
        scope.names.setdefault(declaration.name, []).append(declaration)
        seen = set(known)
        for member in declaration.members:
            if member.name in seen:
                raise SourceError(member, f"expected one {declaration.name} `{member.name}`")
            seen.add(member.name)
            known.append(member.name)

    # -- externs

    def _extern(self, declaration: tree.Extern, scope: NameScope) -> None:
        if declaration.name == "main":
            raise SourceError(declaration, "expected an instance of a package as `main`, got an extern")
        inner = self._functions.generic_scope(declaration, declaration.type_parameters, scope)
        self._resolver.declare(scope, declaration)
        for method in declaration.methods:
            self._check_method(method, declaration)
            self._functions.check_function(method, inner)
            if self.facts.returns.get(method) == types.INT and method.is_abstract:
                raise SourceError(method, f"expected a result of `{method.name}` with a width, got int")
            for parameter in method.parameters:
                found = self.facts.declared_type(parameter)
                if isinstance(found, types.Object) and found.declaration is declaration:
                    raise SourceError(
                        method, f"expected another type of `{parameter.name}` than {found} itself"
                    )

    def _check_method(self, method: tree.Function, extern: tree.Extern) -> None:
        if method.return_type is None and method.name != extern.name:
            raise SourceError(method, f"expected the constructor of `{extern.name}`")
        if method.return_type is not None and method.name == extern.name:
            raise SourceError(method, f"expected the constructor `{extern.name}` without a type of a result")
        names = [parameter.name for parameter in method.parameters]
        for other in extern.methods[: extern.methods.index(method)]:
            if other.name == method.name and [parameter.name for parameter in other.parameters] == names:
                given = ", ".join(names)
                raise SourceError(
                    method, f"expected one method `{method.name}({given})`, another is at {other.position}"
                )

    # -- parsers and controls

    def _callable(self, declaration: tree.Parser | tree.Control, scope: NameScope) -> None:
        inner = self._functions.generic_scope(declaration, declaration.type_parameters, scope)
        self.facts.scopes[declaration] = inner
        is_parser = isinstance(declaration, tree.Parser)
        kind: Owner = "parser" if is_parser else "control"
        constructor: Owner = "parser constructor" if is_parser else "control constructor"
        self._functions.check_parameters(
            declaration.parameters, inner, "declared type" if declaration.is_type else kind
        )
        self._functions.check_parameters(declaration.constructor_parameters, inner, constructor)
        if declaration.is_type:
            self._resolver.declare(scope, declaration)
            return
        inner = NameScope(inner)
        for each in declaration.locals:
            try:
                self._check_local_declaration(each, inner)
            except SourceError as error:
                self.sources.error(error.position, error.message)
                self.facts.declared.setdefault(each, types.UNKNOWN)
                inner.names.setdefault(each.name, [each])
        if isinstance(declaration, tree.Parser):
            self._states(declaration, inner)
        else:
            self._statements.check_body(declaration.body, inner, types.VOID)
        self._resolver.declare(scope, declaration)

    def _check_local_declaration(self, declaration: tree.Declaration, scope: NameScope) -> None:
        match declaration:
            case tree.Variable() | tree.Constant() | tree.Instance():
                self._statements.check_local(declaration, scope)
            case tree.Action():
                self._functions.check_action(declaration, scope)
            case tree.Table():
                self._tables.check_table(declaration, scope)
                self._resolver.declare(scope, declaration)
            case tree.ValueSet(type=node, size=size):
                element = self._resolver.resolve(node, scope)
                if element == types.INT or types.is_header(element) or isinstance(element, types.Object):
                    raise SourceError(
                        declaration, f"expected bits, a tuple or a struct of them, got {element}"
                    )
                self._expressions.check(size, scope)
                self._resolver.check_compile_time(size)
                self.facts.declared[declaration] = types.Set(element)
                self._resolver.declare(scope, declaration)

    def _states(self, declaration: tree.Parser, scope: NameScope) -> None:
        names = [state.name for state in declaration.states]
        if "start" not in names:
            self.sources.error(
                declaration.position, f"expected a state `start` of the parser `{declaration.name}`"
            )
        known = {"accept", "reject", *names}
        seen = {"accept", "reject"}
        for state in declaration.states:
            if state.name in seen:
                self.sources.error(state.position, f"expected one state `{state.name}`, got two")
            seen.add(state.name)
            inner = NameScope(scope, is_inner=True)
            for statement in state.statements:
                self._statements.check_statement(statement, inner)
            try:
                self._transition(state, known, inner)
            except SourceError as error:
                self.sources.error(error.position, error.message)
        if not can_end(declaration):
            self.sources.error(
                declaration.position,
                f"expected a way of the parser `{declaration.name}` to accept or reject, there is none",
            )

    def _transition(self, state: tree.State, known: set[str], scope: NameScope) -> None:
        if isinstance(state.next, str):
            if state.next not in known:
                raise SourceError(state, f"expected a state of this parser, got `{state.next}`")
            return
        if state.next is None:
            return
        found = [self._expressions.check(value, scope) for value in state.next.values]
        for value, each in zip(state.next.values, found, strict=True):
            if isinstance(value, tree.Default) or not can_select(each):
                raise SourceError(
                    state.next, f"expected bits, a bool, an enum or an error in `select`, got {each}"
                )
        for case in state.next.cases:
            if case.state not in known:
                raise SourceError(case, f"expected a state of this parser, got `{case.state}`")
            self._tables.check_keys(case.keys, found, case, scope)
