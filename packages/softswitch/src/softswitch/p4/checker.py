"""Names and types of a whole program: each declaration in order, as a name is known after its declaration."""

from __future__ import annotations

from softswitch.p4 import tree, types
from softswitch.p4.check_statements import StatementChecker
from softswitch.p4.check_tables import TableChecker
from softswitch.p4.diagnostics import SourceError, Sources
from softswitch.p4.scopes import Facts, Scope


def check_program(program: tree.Program, sources: Sources) -> Facts:
    """Return what is known of the program's nodes; errors are reported to `sources`."""
    checker = Checker(Facts(), sources)
    for declaration in program.declarations:
        checker.check_top(declaration)
    return checker.facts


class Checker(TableChecker, StatementChecker):
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

    def _check_declaration(self, declaration: tree.Declaration, scope: Scope) -> None:
        match declaration:
            case tree.Constant() | tree.Variable() | tree.Instance():
                self.check_local(declaration, scope)
                if isinstance(declaration, tree.Constant) and declaration not in self.facts.constants:
                    raise SourceError(declaration.value.position, "expected a value that is known when compiling")
            case tree.Typedef(type=node):
                self.facts.declared[declaration] = self.resolve(node, scope)
                self.declare(scope, declaration)
            case tree.Struct():
                self._struct_type(declaration, scope)
            case tree.Enum():
                self._enum_type(declaration, scope)
            case tree.Names():
                self._names(declaration, scope)
            case tree.Extern():
                self._extern(declaration, scope)
            case tree.Function():
                self.check_function(declaration, scope)
                self.declare(scope, declaration)
            case tree.Action():
                self.check_action(declaration, scope)
            case tree.Parser() | tree.Control():
                self._callable(declaration, scope)
            case tree.Package():
                inner = self._generic_scope(declaration, declaration.type_parameters, scope)
                self._parameters(declaration.parameters, inner)
                self.declare(scope, declaration)

    # -- types

    def _generic_scope(self, declaration: tree.Declaration, names: list[str], scope: Scope) -> Scope:
        inner = Scope(scope)
        for name in names:
            inner.names[name] = [types.Variable(name, declaration)]
        return inner

    def _struct_type(self, declaration: tree.Struct, scope: Scope) -> None:
        inner = self._generic_scope(declaration, declaration.type_parameters, scope)
        seen: dict[str, tree.Field] = {}
        for field in declaration.fields:
            if field.name in seen:
                raise SourceError(field.position, f"expected one field `{field.name}` of `{declaration.name}`")
            seen[field.name] = field
            found = self.resolve(field.type, inner)
            self._check_field(declaration, field, found)
            self.facts.declared[field] = found
        self.declare(scope, declaration)

    def _check_field(self, declaration: tree.Struct, field: tree.Field, found: types.Type) -> None:
        base = types.representation(found)
        if declaration.kind == "header_union":
            if not types.is_header(base) and not isinstance(base, types.Variable):
                raise SourceError(field.position, f"expected headers in a header union, got {found}")
            return
        is_plain = isinstance(base, types.Bits | types.Varbit | types.Variable) or base == types.BOOL
        is_nested = types.is_struct(base) or isinstance(base, types.Stack | types.Tuple)
        if declaration.kind == "header":
            is_fine = (is_plain or types.is_struct(base)) and base != types.ERROR
            if isinstance(types.base_of(found), types.Enum) and types.base_of(found).underlying is None:  # type: ignore[union-attr]  # it is an enum
                is_fine = False
        else:
            is_fine = is_plain or is_nested or types.is_header(base) or types.is_union(base)
        if not is_fine:
            raise SourceError(field.position, f"expected a type that a {declaration.kind} may contain, got {found}")

    def _enum_type(self, declaration: tree.Enum, scope: Scope) -> None:
        if declaration.underlying is not None:
            underlying = self.resolve(declaration.underlying, scope)
            if not isinstance(types.base_of(underlying), types.Bits):
                raise SourceError(declaration.underlying.position, f"expected bits as the type of an enum, got {underlying}")
            for member in declaration.members:
                if member.value is None:
                    raise SourceError(member.position, f"expected a value of `{member.name}`")
                self.expect(member.value, underlying, scope)
                if self.evaluator.value(member.value) is None:
                    raise SourceError(member.value.position, "expected a value that is known when compiling")
        names = [member.name for member in declaration.members]
        for member in declaration.members:
            if names.count(member.name) > 1:
                raise SourceError(member.position, f"expected one member `{member.name}`")
        self.declare(scope, declaration)

    def _names(self, declaration: tree.Names, scope: Scope) -> None:
        known = self.facts.errors if declaration.name == "error" else self.facts.match_kinds
        scope.names.setdefault(declaration.name, []).append(declaration)
        for member in declaration.members:
            if member.name in known:
                raise SourceError(member.position, f"expected one {declaration.name} `{member.name}`")
            known.append(member.name)

    # -- functions, externs, actions

    def _parameters(self, parameters: list[tree.Parameter], scope: Scope) -> None:
        for parameter in parameters:
            found = self.resolve(parameter.type, scope)
            if isinstance(found, types.Object) and parameter.direction:
                raise SourceError(
                    parameter.position, f"expected no direction of `{parameter.name}`, which has the type {found}"
                )
            self.facts.declared[parameter] = found
            if parameter.default is not None:
                self.expect(parameter.default, found, scope)
            self.declare(scope, parameter)

    def _extern(self, declaration: tree.Extern, scope: Scope) -> None:
        inner = self._generic_scope(declaration, declaration.type_parameters, scope)
        self.declare(scope, declaration)
        for method in declaration.methods:
            if method.return_type is None and method.name != declaration.name:
                raise SourceError(method.position, f"expected the constructor of `{declaration.name}`")
            self.check_function(method, inner)

    def check_function(self, declaration: tree.Function, scope: Scope) -> None:
        inner = self._generic_scope(declaration, declaration.type_parameters, scope)
        if declaration.return_type is not None:
            self.facts.returns[declaration] = self.resolve(declaration.return_type, inner)
        self._parameters(declaration.parameters, inner)
        self.facts.scopes[declaration] = inner
        if declaration.body is None:
            return
        self.returned = self.facts.returns[declaration]
        self.check_block(declaration.body, inner)
        if self.returned != types.VOID and not _always_returns(declaration.body):
            self.sources.error(
                declaration.position, f"expected `return` at the end of all ways through `{declaration.name}`"
            )
        self.returned = None

    def check_member_of_instance(self, member: tree.Declaration, scope: Scope) -> None:
        if isinstance(member, tree.Function):
            self.check_function(member, scope)
        elif isinstance(member, tree.Instance):
            self.check_instance(member, scope)

    def check_action(self, declaration: tree.Action, scope: Scope) -> None:
        inner = Scope(scope)
        self._parameters(declaration.parameters, inner)
        self._check_order(declaration.parameters)
        self.returned = types.VOID
        self.check_block(declaration.body, inner)
        self.returned = None
        self.declare(scope, declaration)

    def _check_order(self, parameters: list[tree.Parameter]) -> None:
        """Check that parameters without a direction, which the control plane gives, come last."""
        has_data = False
        for parameter in parameters:
            if parameter.direction and has_data:
                raise SourceError(
                    parameter.position,
                    f"expected parameters without a direction after the others, `{parameter.name}` has one",
                )
            has_data = has_data or not parameter.direction

    # -- parsers and controls

    def _callable(self, declaration: tree.Parser | tree.Control, scope: Scope) -> None:
        inner = self._generic_scope(declaration, declaration.type_parameters, scope)
        self.facts.scopes[declaration] = inner
        self._parameters(declaration.parameters, inner)
        self._parameters(declaration.constructor_parameters, inner)
        if declaration.is_type:
            self.declare(scope, declaration)
            return
        inner = Scope(inner)
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
            self.returned = types.VOID
            self.check_block(declaration.body, inner)
            self.returned = None
        self.declare(scope, declaration)

    def _check_local_declaration(self, declaration: tree.Declaration, scope: Scope) -> None:
        match declaration:
            case tree.Variable() | tree.Constant() | tree.Instance():
                self.check_local(declaration, scope)
            case tree.Action():
                self.check_action(declaration, scope)
            case tree.Table():
                self.check_table(declaration, scope)
                self.declare(scope, declaration)
            case tree.ValueSet(type=node, size=size):
                element = self.resolve(node, scope)
                self.check_expression(size, scope)
                self.facts.declared[declaration] = types.Set(element)
                self.declare(scope, declaration)

    def _states(self, declaration: tree.Parser, scope: Scope) -> None:
        names = [state.name for state in declaration.states]
        if "start" not in names:
            raise SourceError(declaration.position, f"expected a state `start` of the parser `{declaration.name}`")
        known = {"accept", "reject", *names}
        for state in declaration.states:
            if state.name in ("accept", "reject") or names.count(state.name) > 1:
                self.sources.error(state.position, f"expected one state `{state.name}`")
            inner = Scope(scope, is_inner=True)
            for statement in state.statements:
                self.check_statement(statement, inner)
            try:
                self._transition(state, known, inner)
            except SourceError as error:
                self.sources.error(error.position, error.message)

    def _transition(self, state: tree.State, known: set[str], scope: Scope) -> None:
        if isinstance(state.next, str):
            if state.next not in known:
                raise SourceError(state.position, f"expected a state of this parser, got `{state.next}`")
            return
        if state.next is None:
            return
        found = [self.check_expression(value, scope) for value in state.next.values]
        for case in state.next.cases:
            if case.state not in known:
                raise SourceError(case.position, f"expected a state of this parser, got `{case.state}`")
            self.check_keys(case.keys, found, case, scope)


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
