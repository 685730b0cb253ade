"""Recursive descent over statements, and the declarations that may stand among them."""

from __future__ import annotations

from softswitch.p4 import tree
from softswitch.p4.diagnostics import Position, SourceError
from softswitch.p4.expression_parser import ExpressionParser
from softswitch.p4.lexer import TokenKind

_ASSIGNMENTS = (
    "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", "|+|=", "|-|=", "++=",
)  # fmt: skip

_JUMPS: dict[str, type[tree.Exit] | type[tree.Break] | type[tree.Continue]] = {
    "exit": tree.Exit,
    "break": tree.Break,
    "continue": tree.Continue,
}


class StatementParser(ExpressionParser):
    def block(self, annotations: tree.Annotations | None = None) -> tree.Block:
        annotations = [*(annotations or []), *self.annotations()]
        position = self.expect("{").position
        statements: list[tree.Statement] = []
        while not self.accept("}"):
            if self.token.kind is TokenKind.END:
                raise SourceError(position, "expected `}` at the end of this block, there is none")
            statements.append(self.statement())
        return tree.Block(position, statements, annotations)

    def statement(self) -> tree.Statement:
        self.enter()
        parsed = self._statement()
        self.leave()
        return parsed

    def _statement(self) -> tree.Statement:
        annotations = self.annotations()
        position = self.position
        match self.text if self.token.kind is not TokenKind.STRING else "":
            case ";":
                self.advance()
                return tree.Empty(position)
            case "{":
                return self.block(annotations)
            case "if":
                return self._if()
            case "switch" if self.ahead().text == "(":
                return self._switch()
            case "for":
                return self._for(annotations)
            case "return":
                self.advance()
                value = None if self.at(";") else self.expression()
                self.expect(";")
                return tree.Return(position, value)
            case "exit" | "break" | "continue" as keyword:
                self.advance()
                self.expect(";")
                return _JUMPS[keyword](position)
            case "const":
                return self.constant(annotations)
        if self._at_declaration():
            return self.variable_or_instance(annotations)
        statement = self._assignment_or_call()
        self.expect(";")
        return statement

    def _if(self) -> tree.Conditional:
        position = self.advance().position
        self.expect("(", "after `if`")
        condition = self.expression()
        self.expect(")")
        then = self.statement()
        otherwise = self.statement() if self.accept("else") else None
        return tree.Conditional(position, condition, then, otherwise)

    def _switch(self) -> tree.Switch:
        position = self.advance().position
        self.expect("(")
        value = self.expression()
        self.expect(")")
        self.expect("{")
        cases: list[tree.SwitchCase] = []
        while not self.accept("}"):
            label_position = self.position
            label: tree.Expression
            if self.at("default", "_"):
                label = tree.Default(label_position, self.advance().text)
            else:
                label = self.expression()
            self.expect(":")
            body = self.block() if self.at("{", "@") else None
            cases.append(tree.SwitchCase(label_position, label, body))
        return tree.Switch(position, value, cases)

    def _for(self, annotations: tree.Annotations) -> tree.For | tree.ForIn:
        position = self.advance().position
        self.expect("(", "after `for`")
        if (loop := self._for_in(position, annotations)) is not None:
            return loop
        initial = self.listed(";", self._start_of_loop)
        condition: tree.Expression = tree.Boolean(self.position, True) if self.at(";") else self.expression()
        self.expect(";")
        updates: list[tree.Statement] = [*self.listed(")", self._assignment_or_call)]
        return tree.For(position, initial, condition, updates, self.statement(), annotations)

    def _start_of_loop(self) -> tree.Statement:
        if not self._at_declaration():
            return self._assignment_or_call()
        annotations = self.annotations()
        position = self.position
        variable_type = self.type()
        name = self.name("the name of a variable")
        initial = self.expression() if self.accept("=") else None
        return tree.Variable(position, name.text, annotations, variable_type, initial)

    def _for_in(self, position: Position, annotations: tree.Annotations) -> tree.ForIn | None:
        """Parse the head `type name in collection)` and the body, or nothing if it is another loop."""
        start = self.index
        loop_type = None
        self.annotations()
        if self.at_name() and self.ahead().text == "in":
            text = f"expected the type of `{self.text}` in `for (type {self.text} in ...)`, there is none"
            raise SourceError(self, text)
        try:
            loop_type = self.type()
            name = self.name()
            if not self.accept("in"):
                raise self.unexpected("`in`")
        except SourceError:
            self.index = start
            return None
        collection = self.expression()
        if self.accept(".."):
            collection = tree.Range(collection.position, collection, self.expression())
        self.expect(")")
        return tree.ForIn(position, loop_type, name.text, collection, self.statement(), annotations)

    def _assignment_or_call(self) -> tree.Assignment | tree.CallStatement:
        position = self.position
        target = self._postfix(self._primary())
        if isinstance(target, tree.Call) and not self.at(*_ASSIGNMENTS, ">"):
            return tree.CallStatement(position, target)
        operator = self._assignment_operator()
        return tree.Assignment(position, target, operator, self.expression())

    def _assignment_operator(self) -> str:
        """Return what stands before `=`; `>>=` is two tokens."""
        if self.at(">") and self.ahead().text == ">=" and not self.ahead().follows_space:
            self.index += 2
            return ">>"
        if not self.at(*_ASSIGNMENTS):
            raise self.unexpected("`=`, or `(` of a call")
        return self.advance().text[:-1]

    # -- declarations

    def _at_declaration(self) -> bool:
        """Return whether a type and a name follow, or an instance: `T x`, `T<U> x`, `T(1) x`."""
        if self.at("bool", "int", "bit", "varbit", "string", "tuple", "list", "void"):
            return True
        if self.at("error"):
            return self.ahead().text != "."
        if not (self.at_name() or self.at(".")):
            return False
        offset = 1 if self.at(".") else 0
        following = self.ahead(offset + 1)
        if following.kind is TokenKind.NAME:
            return following.text not in ("in",)
        if following.text not in ("<", "(", "["):
            return False
        return self._is_type_and_name()

    def _is_type_and_name(self) -> bool:
        start = self.index
        try:
            self._stacks(self._type_without_stack())
            if self.at("("):
                self.arguments()
                return self.token.kind is TokenKind.NAME or self.at("@")
            return self.at_name()
        except SourceError:
            return False
        finally:
            self.index = start

    def constant(self, annotations: tree.Annotations) -> tree.Constant:
        self.expect("const")
        constant_type = self.type()
        name = self.name("the name of a constant")
        self.expect("=", "and the value of the constant")
        value = self.expression()
        self.expect(";")
        return tree.Constant(name.position, name.text, annotations, constant_type, value)

    def variable_or_instance(self, annotations: tree.Annotations) -> tree.Declaration:
        declared_type = self.type()
        if self.at("("):
            return self._instance(declared_type, annotations)
        name = self.name("the name of a variable")
        if self.at("("):
            raise self.unexpected("`=` or `;`; functions are declared at the top of the program")
        initial = self.expression() if self.accept("=") else None
        self.expect(";")
        return tree.Variable(name.position, name.text, annotations, declared_type, initial)

    def _instance(self, declared_type: tree.TypeNode, annotations: tree.Annotations) -> tree.Instance:
        arguments = self.arguments()
        annotations = [*annotations, *self.annotations()]
        name = self.name("the name of the instance")
        body: list[tree.Declaration] = []
        if has_body := self.accept("="):
            self.expect("{")
            while not self.accept("}"):
                body.append(self._instance_member())
        self.expect(";")
        return tree.Instance(name.position, name.text, annotations, declared_type, arguments, body, has_body)

    def _instance_member(self) -> tree.Declaration:
        annotations = self.annotations()
        self.accept("abstract")
        if self._at_declaration() and self.ahead().text in ("(", "<") and self._is_type_and_name():
            start = self.index
            member_type = self.type()
            if self.at("("):
                return self._instance(member_type, annotations)
            self.index = start
        function = self._prototype(annotations)
        function.body = self.block()
        return function

    def _prototype(self, annotations: tree.Annotations) -> tree.Function:
        return_type = self.type()
        name = self.name("the name of a function")
        type_parameters = self._type_parameters()
        parameters = self._parameters()
        return tree.Function(
            name.position, name.text, annotations, type_parameters, return_type, parameters, None
        )

    def _type_parameters(self) -> list[str]:
        if not self.accept("<"):
            return []
        names = self.listed(">", lambda: self.name("the name of a type parameter").text)
        self.types.update(names)
        return names

    def _parameters(self) -> list[tree.Parameter]:
        self.expect("(")
        return self.listed(")", self._parameter)

    def _parameter(self) -> tree.Parameter:
        annotations = self.annotations()
        direction: tree.Direction = next((each for each in tree.DIRECTIONS if self.accept(each)), "")
        parameter_type = self.type()
        name = self.name("the name of a parameter")
        default = self.expression() if self.accept("=") else None
        return tree.Parameter(name.position, name.text, annotations, direction, parameter_type, default)
