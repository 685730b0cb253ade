"""Recursive descent over types and expressions (specification, appendix G)."""

from __future__ import annotations

from softswitch.p4 import tree
from softswitch.p4.diagnostics import Position, SourceError
from softswitch.p4.lexer import TokenKind, parse_integer
from softswitch.p4.token_stream import TokenStream, describe

_BINARY = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, ">": 4, "<=": 4, ">=": 4, "|": 5, "^": 6, "&": 7, "<<": 8,
    ">>": 8, "++": 9, "+": 9, "-": 9, "|+|": 9, "|-|": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_SHIFT = _BINARY[">>"]
BASE_TYPES = ("bool", "int", "bit", "varbit", "error", "string", "void", "match_kind", "tuple", "list", "_")
_CAST_OPERANDS = ("(", "{", "~", "!", "-", "+")
_LITERALS = (TokenKind.NAME, TokenKind.INTEGER, TokenKind.STRING)


class ExpressionParser(TokenStream):
    """Parses types and expressions; the operators are those of the specification's table of precedence."""

    # -- types

    def at_type(self) -> bool:
        """Return whether the token can only begin a type."""
        return self.at(*BASE_TYPES) or self._is_type_name()

    def _is_type_name(self) -> bool:
        token = self.ahead() if self.at(".") else self.token
        return token.kind is TokenKind.NAME and token.text in self.types

    def type(self) -> tree.TypeNode:
        self.enter()
        parsed = self._stacks(self._type_without_stack())
        self.leave()
        return parsed

    def _stacks(self, element: tree.TypeNode) -> tree.TypeNode:
        while self.at("["):
            self.advance()
            element = tree.StackType(element.position, element, self.expression())
            self.expect("]")
        return element

    def _type_without_stack(self) -> tree.TypeNode:
        token = self.token
        position = token.position
        if self.at("bit", "int", "varbit"):
            self.advance()
            if not self.accept("<"):
                if token.text == "bit":
                    return tree.SizedType(position, "bit", tree.Integer(position, 1, None, False))
                if token.text == "varbit":
                    raise self.unexpected("`<` and the maximum width of a varbit")
                return tree.BaseType(position, "int")
            if self.accept("("):
                width = self.expression()
                self.expect(")")
            else:
                width = self._width()
            self.expect(">")
            return tree.SizedType(position, token.text, width)
        if self.at("bool", "error", "string", "void", "match_kind"):
            self.advance()
            return tree.BaseType(position, token.text)
        if self.at("tuple", "list"):
            self.advance()
            self.expect("<")
            arguments = self.type_arguments()
            return tree.SpecializedType(position, tree.NamedType(position, token.text), arguments)
        is_global = self.accept(".")
        name = self.name("a type")
        named = tree.NamedType(position, name.text, is_global)
        if self.accept("<"):
            return tree.SpecializedType(position, named, self.type_arguments())
        return named

    def _width(self) -> tree.Expression:
        """Parse a width, which is an integer or an expression without `>` outside of parentheses."""
        return self._binary(_SHIFT + 1)

    def type_arguments(self) -> list[tree.TypeNode]:
        """Parse the arguments after `<`, and `>`."""
        return self.listed(">", self._type_argument)

    def _type_argument(self) -> tree.TypeNode:
        position = self.position
        return tree.BaseType(position, "_") if self.accept("_") else self.type()

    # -- expressions

    def expression(self) -> tree.Expression:
        self.enter()
        condition = self._binary(1)
        if self.accept("?"):
            left = self.expression()
            self.expect(":")
            condition = tree.Ternary(condition.position, condition, left, self.expression())
        self.leave()
        return condition

    def _operator(self) -> str:
        """Return the operator at the token; the lexer keeps the two parts of `>>` apart."""
        token = self.token
        if token.text == ">" and self.ahead().text == ">" and not self.ahead().follows_space:
            return ">>"
        if token.text == ">" and self.ahead().text == ">=" and not self.ahead().follows_space:
            return ""  # of the assignment `>>=`
        return token.text if token.kind is TokenKind.SYMBOL else ""

    def _binary(self, precedence: int) -> tree.Expression:
        left = self._unary()
        while (found := _BINARY.get(operator := self._operator(), 0)) >= precedence:
            self.index += 2 if operator == ">>" else 1
            left = tree.Binary(left.position, operator, left, self._binary(found + 1))
        return left

    def _unary(self) -> tree.Expression:
        token = self.token
        if token.kind is TokenKind.SYMBOL and token.text in ("!", "~", "-", "+"):
            self.enter()
            self.advance()
            operand = self._unary()
            self.leave()
            return tree.Unary(token.position, token.text, operand)
        if self.at("(") and self._at_cast():
            self.enter()
            self.advance()
            cast_type = self.type()
            self.expect(")")
            operand = self._unary()
            self.leave()
            return tree.Cast(token.position, cast_type, operand)
        return self._postfix(self._primary())

    def _at_cast(self) -> bool:
        """Return whether the parenthesis encloses a type: a known one, followed by an operand."""
        first = self.ahead()
        if first.text in BASE_TYPES and first.kind is TokenKind.NAME:
            return not (first.text == "error" and self.ahead(2).text == ".") and first.text != "_"
        is_dotted = first.text == "."
        name = self.ahead(2) if is_dotted else first
        if name.kind is not TokenKind.NAME or name.text not in self.types:
            return False
        start = self.index
        try:
            self.advance()
            self.type()
            if not self.accept(")"):
                return False
            return self.text in _CAST_OPERANDS or self.token.kind in _LITERALS
        except SourceError:
            return False
        finally:
            self.index = start

    def _primary(self) -> tree.Expression:
        token = self.token
        position = token.position
        if token.kind is TokenKind.INTEGER:
            self.advance()
            value, width, is_signed = parse_integer(token.text)
            return tree.Integer(position, value, width, is_signed, token.text)
        if token.kind is TokenKind.STRING:
            self.advance()
            return tree.String(position, tree.unquote(token.text))
        if self.at("true", "false"):
            self.advance()
            return tree.Boolean(position, token.text == "true")
        if self.accept("this"):
            return tree.Name(position, "this")
        if self.accept("..."):
            return tree.Default(position, "...")
        if self.accept("("):
            inner = self.expression()
            if self.at(","):
                raise self.unexpected("`)`; a list of values is written in braces")
            self.expect(")")
            return inner
        if self.accept("{"):
            return self._list(position)
        if self.at("error", "bool", "bit", "int", "varbit", "string", "tuple", "list"):
            return tree.TypeReference(position, self.type())
        if self.accept("."):
            return tree.Name(position, self.name().text, is_global=True)
        if self._is_type_name() and self.ahead().text in ("<", "[") and (found := self._type_reference()):
            return found
        if self.at_name():
            return tree.Name(position, self.advance().text)
        raise self.unexpected("an expression")

    def _type_reference(self) -> tree.TypeReference | None:
        """Parse a type such as `Header<T>` before a dot, or nothing if the tokens are not one."""
        start = self.index
        try:
            parsed = self.type()
        except SourceError:
            self.index = start
            return None
        if self.at("."):
            return tree.TypeReference(parsed.position, parsed)
        self.index = start
        return None

    def braced(self, position: Position) -> tree.Expression:
        """Parse what follows a brace, up to the one that closes it."""
        return self._list(position)

    def _list(self, position: Position) -> tree.Expression:
        """Parse a list or a struct after `{`."""
        if self.at("#"):
            if self.token.follows_space or self.ahead().follows_space:
                raise SourceError(position, "expected `{#}` without spaces")
            self.advance()
            self.expect("}")
            return tree.InvalidHeader(position)
        if self.at_name() and self.ahead().text == "=":
            return self._struct(position)
        elements: list[tree.Expression] = []
        while not self.accept("}"):
            if self.at("...") and self.ahead().text in ("}", ","):
                self.advance()
                self.accept(",")
                self.expect("}", "after `...`")
                return tree.ListExpression(position, elements, has_rest=True)
            elements.append(self.expression())
            if not self.at("}"):
                self.expect(",", "or `}`")
        return tree.ListExpression(position, elements)

    def _struct(self, position: Position) -> tree.Expression:
        fields: list[tree.NamedValue] = []
        while not self.accept("}"):
            if self.accept("..."):
                self.accept(",")
                self.expect("}", "after `...`")
                return tree.StructExpression(position, fields, has_rest=True)
            name = self.name("the name of a field")
            self.expect("=")
            fields.append(tree.NamedValue(name.position, name.text, self.expression()))
            if not self.at("}"):
                self.expect(",", "or `}`")
        return tree.StructExpression(position, fields)

    def _postfix(self, base: tree.Expression) -> tree.Expression:
        while True:
            position = base.position
            if self.accept("."):
                token = self.advance()
                if token.kind is not TokenKind.NAME:
                    raise SourceError(token, f"expected the name of a member, got {describe(token)}")
                base = tree.Member(position, base, token.text)
            elif self.at("["):
                self.advance()
                base = self._subscript(base)
            elif self.at("("):
                base = tree.Call(position, base, [], self.arguments())
            elif self.at("<") and isinstance(base, tree.Name | tree.Member):
                start = self.index
                type_arguments = self._call_type_arguments()
                if type_arguments is None:
                    self.index = start
                    return base
                base = tree.Call(position, base, type_arguments, self.arguments())
            else:
                return base

    def _call_type_arguments(self) -> list[tree.TypeNode] | None:
        """Parse `<types>` before a parenthesis, or return None if the tokens are something else."""
        self.advance()
        try:
            arguments = self.type_arguments()
        except SourceError:
            return None
        return arguments if self.at("(") else None

    def _subscript(self, base: tree.Expression) -> tree.Expression:
        first = self.expression()
        if self.accept(":"):
            low = self.expression()
            self.expect("]")
            return tree.Slice(base.position, base, first, low)
        if self.accept("+:"):
            width = self.expression()
            self.expect("]")
            return tree.Slice(base.position, base, None, first, width)
        self.expect("]")
        return tree.Index(base.position, base, first)

    def arguments(self) -> list[tree.Argument]:
        """Parse arguments in parentheses."""
        self.expect("(")
        return self.listed(")", self._argument)

    def _argument(self) -> tree.Argument:
        position, name = self.position, None
        if self.at_name() and self.ahead().text == "=":
            name = self.advance().text
            self.advance()
        if self.at("_") and self.ahead().text in (",", ")"):
            self.advance()
            return tree.Argument(position, name, None)
        return tree.Argument(position, name, self.expression())

    # -- sets

    def key_set(self) -> list[tree.Expression]:
        """Parse the set of a `select` case or an entry: one for each value of the key."""
        if self.at("(") and self._is_tuple_set():
            self.advance()
            sets = [self.simple_set()]
            while self.accept(","):
                if self.at(")"):
                    break
                sets.append(self.simple_set())
            self.expect(")")
            return sets
        return [self.simple_set()]

    def _is_tuple_set(self) -> bool:
        """Return whether the parenthesis encloses all of the set: a colon or a priority's end follows it."""
        depth, i = 0, self.index
        while i < len(self.tokens) - 1:
            text = self.tokens[i].text
            depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
            i += 1
            if depth == 0:
                return self.tokens[i].text == ":"
        return False

    def simple_set(self) -> tree.Expression:
        position = self.position
        if self.at("default", "_", "..."):
            return tree.Default(position, self.advance().text)
        value = self.expression()
        if self.accept("&&&"):
            return tree.Mask(position, value, self.expression())
        if self.accept(".."):
            return tree.Range(position, value, self.expression())
        return value
