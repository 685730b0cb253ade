"""Recursive descent over declarations: the parser of a whole program."""

from __future__ import annotations

from collections.abc import Sequence

from softswitch.p4 import tree
from softswitch.p4.diagnostics import SourceError, SourceFiles
from softswitch.p4.lexer import Token, TokenKind
from softswitch.p4.statement_parser import StatementParser

_DECLARATIONS = (
    "action", "const", "control", "enum", "error", "extern", "header", "header_union", "match_kind",
    "package", "parser", "struct", "type", "typedef",
)  # fmt: skip


def parse_program(tokens: Sequence[Token], sources: SourceFiles) -> tree.Program:
    """Return the tree; each declaration with an error is reported to `sources`, and skipped."""
    parser = DeclarationParser(tokens)
    declarations: list[tree.Declaration] = []
    while parser.token.kind is not TokenKind.END:
        if parser.accept(";"):
            continue
        start = parser.index
        try:
            declared = parser.declaration()
            declarations += [*parser.inner_types, declared]
        except SourceError as error:
            sources.error(error.position, error.message)
            parser.skip_declaration(start)
        parser.inner_types.clear()
    return tree.Program(declarations)


class DeclarationParser(StatementParser):
    def skip_declaration(self, start: int) -> None:
        """Go on at the declaration that follows the one at `start`, by its braces and keywords."""
        self.nesting = 0
        depth, self.index = 0, start
        has_body = False
        while self.token.kind is not TokenKind.END:
            token = self.advance()
            if token.kind is not TokenKind.SYMBOL:
                continue
            depth += (token.text == "{") - (token.text == "}")
            has_body = has_body or token.text == "{"
            if depth <= 0 and (token.text == ";" or (has_body and token.text == "}" and self._at_start())):
                return

    def _at_start(self) -> bool:
        return self.at("@", *_DECLARATIONS) or self.token.kind is TokenKind.END

    def declaration(self) -> tree.Declaration:
        annotations = self.annotations()
        match self.text:
            case "const":
                return self.constant(annotations)
            case "extern":
                return self._extern(annotations)
            case "action":
                return self._action(annotations)
            case "parser" if self.ahead().kind is TokenKind.NAME:
                return self._parser(annotations)
            case "control" if self.ahead().kind is TokenKind.NAME:
                return self._control(annotations)
            case "package":
                return self._package(annotations)
            case "typedef" | "type":
                return self._typedef(annotations)
            case "struct" | "header" | "header_union":
                return self._struct_type(annotations)
            case "enum":
                return self._enum(annotations)
            case "error" | "match_kind" if self.ahead().text == "{":
                name = self.advance()
                return tree.Names(name.position, name.text, annotations, self._members())
        return self._function_or_instance(annotations)

    # -- what may stand at the top only

    def _function_or_instance(self, annotations: tree.Annotations) -> tree.Declaration:
        if not (self.at_type() or self.at_name() or self.at(".")):
            raise self.unexpected("a declaration")
        declared_type = self.type()
        if self.at("("):
            return self._instance(declared_type, annotations)
        name = self.name("the name of a function or a variable")
        if not self.at("(", "<"):
            if self.at("=", ";"):
                raise SourceError(name, "expected a constant (`const`), a variable cannot be at the top")
            raise self.unexpected("`(`")
        type_parameters = self._type_parameters()
        parameters = self._parameters()
        body = self.block()
        return tree.Function(
            name.position, name.text, annotations, type_parameters, declared_type, parameters, body
        )

    def _type_name(self, what: str) -> Token:
        name = self.name(what)
        self.types.add(name.text)
        return name

    def _constructor_parameters(self) -> list[tree.Parameter]:
        return self._parameters() if self.at("(") else []

    def _extern(self, annotations: tree.Annotations) -> tree.Declaration:
        self.expect("extern")
        if self.at_name() and self.ahead().text in ("{", "<") and not self._is_generic_result():
            name = self.advance()
            self.types.add(name.text)
            type_parameters = self._type_parameters()
            self.expect("{")
            methods: list[tree.Function] = []
            while not self.accept("}"):
                methods.append(self._method(name.text))
            return tree.Extern(name.position, name.text, annotations, type_parameters, methods)
        function = self._prototype(annotations)
        self.expect(";")
        return function

    def _is_generic_result(self) -> bool:
        """Return whether `extern Name<...` is a function whose result is a generic type."""
        if self.ahead().text != "<":
            return False
        start = self.index
        try:
            self.type()
            return not self.at("{")
        except SourceError:
            return False
        finally:
            self.index = start

    def _method(self, extern: str) -> tree.Function:
        annotations = self.annotations()
        is_abstract = self.accept("abstract")
        if self.at_name() and self.text == extern and self.ahead().text == "(":
            name = self.advance()
            parameters = self._parameters()
            self.expect(";")
            return tree.Function(name.position, name.text, annotations, [], None, parameters, None)
        method = self._prototype(annotations)
        method.is_abstract = is_abstract
        self.expect(";")
        return method

    def _typedef(self, annotations: tree.Annotations) -> tree.Typedef:
        is_new = self.advance().text == "type"
        if not is_new and self.at(*tree.STRUCT_KINDS, "enum"):
            inner = self._enum([]) if self.at("enum") else self._struct_type([])
            self.inner_types.append(inner)
            base: tree.TypeNode = tree.NamedType(inner.position, inner.name)
        else:
            base = self.type()
        name = self._type_name("the name of a type")
        self.expect(";")
        return tree.Typedef(name.position, name.text, annotations, base, is_new)

    def _struct_type(self, annotations: tree.Annotations) -> tree.Struct:
        kind = next(each for each in tree.STRUCT_KINDS if self.accept(each))
        name = self._type_name(f"the name of a {kind}")
        type_parameters = self._type_parameters()
        self.expect("{")
        fields: list[tree.Field] = []
        while not self.accept("}"):
            field_annotations = self.annotations()
            field_type = self.type()
            field_name = self.name("the name of a field")
            self.expect(";")
            fields.append(tree.Field(field_name.position, field_name.text, field_annotations, field_type))
        return tree.Struct(name.position, name.text, annotations, kind, type_parameters, fields)

    def _enum(self, annotations: tree.Annotations) -> tree.Enum:
        self.expect("enum")
        underlying = None if self.at_name() and self.ahead().text == "{" else self.type()
        name = self._type_name("the name of an enum")
        return tree.Enum(name.position, name.text, annotations, underlying, self._members())

    def _members(self) -> list[tree.EnumMember]:
        self.expect("{")
        return self.listed("}", self._member)

    def _member(self) -> tree.EnumMember:
        annotations = self.annotations()
        name = self.name("the name of a member")
        value = self.expression() if self.accept("=") else None
        return tree.EnumMember(name.position, name.text, annotations, value)

    def _package(self, annotations: tree.Annotations) -> tree.Package:
        self.expect("package")
        name = self._type_name("the name of a package")
        type_parameters = self._type_parameters()
        parameters = self._parameters()
        self.expect(";")
        return tree.Package(name.position, name.text, annotations, type_parameters, parameters)

    # -- parsers

    def _parser(self, annotations: tree.Annotations) -> tree.Parser:
        self.expect("parser")
        name = self._type_name("the name of a parser")
        type_parameters = self._type_parameters()
        parameters = self._parameters()
        if self.accept(";"):
            return tree.Parser(
                name.position, name.text, annotations, type_parameters, parameters, [], [], [], is_type=True
            )
        constructor_parameters = self._constructor_parameters()
        self.expect("{")
        local_declarations: list[tree.Declaration] = []
        states: list[tree.State] = []
        while not self.accept("}"):
            member_annotations = self.annotations()
            if self.at("state"):
                states.append(self._state(member_annotations))
            elif self.at("value_set"):
                local_declarations.append(self._value_set(member_annotations))
            elif self.at("const"):
                local_declarations.append(self.constant(member_annotations))
            else:
                local_declarations.append(self.variable_or_instance(member_annotations))
        return tree.Parser(
            name.position, name.text, annotations, type_parameters, parameters, constructor_parameters,
            local_declarations, states,
        )  # fmt: skip

    def _value_set(self, annotations: tree.Annotations) -> tree.ValueSet:
        self.expect("value_set")
        self.expect("<")
        element = self.type()
        self.expect(">")
        self.expect("(")
        size = self.expression()
        self.expect(")")
        annotations = [*annotations, *self.annotations()]
        name = self.name("the name of the value set")
        self.expect(";")
        return tree.ValueSet(name.position, name.text, annotations, element, size)

    def _state(self, annotations: tree.Annotations) -> tree.State:
        self.expect("state")
        name = self.name("the name of a state")
        self.expect("{")
        statements: list[tree.Statement] = []
        following: str | tree.Select | None = None
        while not self.accept("}"):
            if self.accept("transition"):
                following = self._transition()
                self.expect("}", "after the transition")
                break
            statements.append(self.statement())
        return tree.State(name.position, name.text, annotations, statements, following)

    def _transition(self) -> str | tree.Select:
        if not (self.at("select") and self.ahead().text == "("):
            name = self.name("the name of a state").text
            self.expect(";")
            return name
        position = self.advance().position
        self.expect("(")
        values = self.listed(")", self.expression)
        self.expect("{")
        cases: list[tree.SelectCase] = []
        while not self.accept("}"):
            case_position = self.position
            keys = self.key_set()
            self.expect(":")
            cases.append(tree.SelectCase(case_position, keys, self.name("the name of a state").text))
            self.expect(";")
        return tree.Select(position, values, cases)

    # -- controls

    def _control(self, annotations: tree.Annotations) -> tree.Control:
        self.expect("control")
        name = self._type_name("the name of a control")
        type_parameters = self._type_parameters()
        parameters = self._parameters()
        if self.accept(";"):
            return tree.Control(
                name.position, name.text, annotations, type_parameters, parameters, [], [],
                tree.Block(name.position, []), is_type=True,
            )  # fmt: skip
        constructor_parameters = self._constructor_parameters()
        self.expect("{")
        local_declarations: list[tree.Declaration] = []
        while not self.at("apply"):
            member_annotations = self.annotations()
            if self.at("apply"):
                break
            if self.at("action"):
                local_declarations.append(self._action(member_annotations))
            elif self.at("table"):
                local_declarations.append(self._table(member_annotations))
            elif self.at("const"):
                local_declarations.append(self.constant(member_annotations))
            elif self.at("}"):
                raise self.unexpected("`apply` and the body of the control")
            else:
                local_declarations.append(self.variable_or_instance(member_annotations))
        self.expect("apply")
        body = self.block()
        self.expect("}")
        return tree.Control(
            name.position, name.text, annotations, type_parameters, parameters, constructor_parameters,
            local_declarations, body,
        )  # fmt: skip

    def _action(self, annotations: tree.Annotations) -> tree.Action:
        self.expect("action")
        name = self.name("the name of an action")
        parameters = self._parameters()
        return tree.Action(name.position, name.text, annotations, parameters, self.block())

    # -- tables

    def _table(self, annotations: tree.Annotations) -> tree.Table:
        self.expect("table")
        name = self.name("the name of a table")
        table = tree.Table(name.position, name.text, annotations, [], [], [], False, {})
        self.expect("{")
        seen: set[str] = set()
        while not self.accept("}"):
            self._property(table, seen)
        if "actions" not in seen:
            raise SourceError(name, f"expected `actions` of the table `{name.text}`, there are none")
        return table

    def _property(self, table: tree.Table, seen: set[str]) -> None:
        annotations = self.annotations()
        is_const = self.accept("const")
        name = self.advance()
        if name.kind is not TokenKind.NAME:
            raise SourceError(name, f"expected a property of the table, got `{name.text}`")
        if name.text in seen:
            raise SourceError(name, f"expected each property once, `{name.text}` is there twice")
        if name.text == "key" and "entries" in seen:
            raise SourceError(name, "expected the key before the entries, got it after them")
        if name.text == "default_action" and "actions" not in seen:
            raise SourceError(name, "expected `actions` before the default action, got none there")
        seen.add(name.text)
        self.expect("=", f"after `{name.text}`")
        if name.text == "key":
            self._key(table)
        elif name.text == "actions":
            self._actions(table)
        elif name.text == "entries":
            table.entries_are_const = is_const
            self._entries(table)
        else:
            value = self.expression()
            self.expect(";")
            table.properties[name.text] = tree.Property(
                name.position, name.text, annotations, is_const, value
            )

    def _key(self, table: tree.Table) -> None:
        self.expect("{")
        while not self.accept("}"):
            expression = self.expression()
            self.expect(":", "and the kind of the match")
            kind = self.name("the kind of a match").text
            annotations = self.annotations()
            self.expect(";")
            table.key.append(tree.KeyElement(expression.position, expression, kind, annotations))
        self.accept(";")

    def _actions(self, table: tree.Table) -> None:
        self.expect("{")
        while not self.accept("}"):
            annotations = self.annotations()
            position = self.position
            is_global = self.accept(".")
            name = self.name("the name of an action").text
            arguments = self.arguments() if self.at("(") else []
            table.actions.append(tree.ActionReference(position, name, is_global, arguments, annotations))
            self.expect(";")
        self.accept(";")

    def _entries(self, table: tree.Table) -> None:
        self.expect("{")
        while not self.accept("}"):
            position = self.position
            is_const = self.accept("const")
            priority: tree.Expression | None = None
            if self.accept("priority"):
                self.expect("=")
                priority = self.expression()
                self.expect(":")
            keys = self.key_set()
            self.expect(":")
            action = self.expression()
            if not isinstance(action, tree.Call | tree.Name):
                raise SourceError(action, "expected an action, with its arguments if it has parameters")
            annotations = self.annotations()
            self.expect(";")
            table.entries.append(tree.Entry(position, keys, action, priority, is_const, annotations))
        self.accept(";")
