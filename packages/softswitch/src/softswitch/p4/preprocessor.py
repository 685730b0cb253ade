"""The preprocessor: includes, macros and conditions, as the C preprocessor has them, on tokens of P4.

Each token keeps the position where it is written; a token of a macro has the position of the macro's use.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from softswitch.errors import SwitchError
from softswitch.p4.conditions import Branch, evaluate_condition
from softswitch.p4.diagnostics import NOWHERE, Position, SourceError, SourceFiles
from softswitch.p4.lexer import Token, TokenKind, split_lines
from softswitch.p4.string_lines import select_lines

INCLUDE_FOLDER = Path(__file__).with_name("include")
MAX_INCLUDE_DEPTH = 100
MAX_EXPANDED_TOKENS = 400_000
"""Tokens that macros make in all, also such as are expanded again."""
MAX_TOKEN_LENGTH = 1 << 14
"""Characters of a token that `#` or `##` makes."""
MAX_NESTED_CONDITIONS = 200
MAX_EXPANSION_DEPTH = 200
PREDEFINED = {"__p4c__": "1", "__TARGET_BMV2__": "1", "__P4_16__": "1"}
_INCLUDE = re.compile(r'\s*#\s*include\s*(?:<(?P<system>[^>]+)>|"(?P<local>[^"]+)")')


@dataclass(frozen=True, slots=True)
class Macro:
    """A macro; `parameters` is None for one without parentheses."""

    name: str
    body: tuple[Token, ...]
    parameters: tuple[str, ...] | None = None
    is_variadic: bool = False


class Preprocessor:
    """Reads a file and all that it includes, and returns the tokens of the program."""

    def __init__(
        self,
        sources: SourceFiles,
        folders: Sequence[Path] = (),
        definitions: Iterable[tuple[str, str]] = (),
        base: Path | None = None,
    ) -> None:
        self._sources = sources
        self._folders = [*folders, INCLUDE_FOLDER]
        self._base = base
        self._macros: dict[str, Macro] = {}
        self._output: list[Token] = []
        self._depth = 0
        self._expanded_tokens = 0
        for name, value in [*PREDEFINED.items(), *definitions]:
            self._macros[name] = Macro(name, tuple(split_lines(value, "<command line>")[0]))

    def run(self, file: Path) -> list[Token]:
        self._read(file, NOWHERE)
        return self._output

    # -- files and directives

    def _read(self, file: Path, position: Position) -> None:
        if self._depth >= MAX_INCLUDE_DEPTH:
            raise SourceError(
                position, f"expected at most {MAX_INCLUDE_DEPTH} nested includes, {file} is one more"
            )
        try:
            data = file.read_bytes()
            text = data.decode()
        except OSError as error:
            raise SourceError(position, f"expected a file to read, got {file}: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise SourceError(position, f"expected text in UTF-8, got {file}: {error.reason}") from None
        name = str(file)
        if self._base is not None and file.is_relative_to(self._base):
            name = str(file.relative_to(self._base))
        elif file.parent == INCLUDE_FOLDER:
            name = file.name  # the same on every machine
        self._sources.lines[name] = text.split("\n")
        self._sources.digests[str(file.absolute())] = hashlib.sha256(data).hexdigest()
        self._depth += 1
        self._process(split_lines(text, name), file)
        self._depth -= 1

    def _process(self, lines: list[list[Token]], file: Path) -> None:
        conditions: list[Branch] = []
        pending: list[Token] = []  # lines since the last directive: a macro's arguments may span several
        shift: tuple[int, str] | None = None  # of `#line`
        for tokens in lines:
            if not tokens or tokens[0].text != "#":
                if tokens and all(branch.is_active for branch in conditions):
                    tokens = [select_lines(each, self._is_condition) for each in tokens]
                    pending += tokens if shift is None else _moved(tokens, *shift)
                continue
            self._output += self._expand(pending)
            pending = []
            if len(tokens) == 1:
                continue
            directive, rest, position = tokens[1].text, tokens[2:], tokens[0].position
            if self._is_condition(conditions, directive, rest, position):
                continue
            if not all(branch.is_active for branch in conditions):
                continue
            if directive == "line" and rest:
                if rest[0].kind is not TokenKind.INTEGER or not rest[0].text.isdecimal():
                    raise SourceError(
                        position, f"expected a number of a line after `#line`, got `{rest[0].text}`"
                    )
                shift = (
                    int(rest[0].text) - position.line - 1,
                    rest[1].text[1:-1] if rest[1:] else position.file,
                )
            else:
                self._direct(directive, rest, position, file)
        if conditions:
            raise SourceError(conditions[-1].position, "expected `#endif`, there is none")
        self._output += self._expand(pending)

    def _is_condition(
        self, conditions: list[Branch], directive: str, rest: list[Token], position: Position
    ) -> bool:
        """Return whether a directive is conditional, and follow it."""
        if directive in ("if", "ifdef", "ifndef"):
            is_reached = all(branch.is_active for branch in conditions)
            holds = is_reached and self._holds(directive, rest, position)
            if len(conditions) >= MAX_NESTED_CONDITIONS:
                raise SourceError(
                    position, f"expected at most {MAX_NESTED_CONDITIONS} nested conditions, got one more"
                )
            conditions.append(Branch(position, holds, holds or not is_reached))
        elif directive in ("elif", "else", "endif"):
            if not conditions:
                raise SourceError(position, f"expected `#if` before `#{directive}`, there is none")
            branch = conditions[-1]
            if directive == "endif":
                conditions.pop()
            elif branch.was_active:
                branch.is_active = False
            else:
                branch.is_active = directive == "else" or self._holds("if", rest, position)
                branch.was_active = branch.is_active
        else:
            return False
        return True

    def _holds(self, directive: str, rest: list[Token], position: Position) -> bool:
        if directive != "if":
            if not rest:
                raise SourceError(position, f"expected a name after `#{directive}`, there is none")
            return (rest[0].text in self._macros) == (directive == "ifdef")
        resolved = self._resolve_defined(rest)
        return evaluate_condition(self._expand(resolved), position) != 0

    def _resolve_defined(self, tokens: list[Token]) -> list[Token]:
        """Replace `defined NAME` and `defined(NAME)` by 1 or 0."""
        resolved: list[Token] = []
        i = 0
        while i < len(tokens):
            token = tokens[i]
            if token.text != "defined":
                resolved.append(token)
                i += 1
                continue
            has_parentheses = tokens[i + 1 : i + 2] and tokens[i + 1].text == "("
            name = tokens[i + 1 + bool(has_parentheses) :][:1]
            if not name:
                raise SourceError(token, "expected a name after `defined`, there is none")
            is_defined = "1" if name[0].text in self._macros else "0"
            resolved.append(replace(token, kind=TokenKind.INTEGER, text=is_defined))
            i += 4 if has_parentheses else 2
        return resolved

    def _direct(self, directive: str, rest: list[Token], position: Position, file: Path) -> None:
        match directive:
            case "include":
                self._include(rest, position, file)
            case "define":
                self._define(rest, position)
            case "undef":
                if rest:
                    self._macros.pop(rest[0].text, None)
            case "error":
                raise SourceError(position, self._rest_of_line(position, "error"))
            case "warning":
                self._sources.warn(position, self._rest_of_line(position, "warning"))
            case "pragma" | "ident" | "line":
                pass
            case _:
                raise SourceError(position, f"expected a directive of the preprocessor, got `#{directive}`")

    def _rest_of_line(self, position: Position, directive: str) -> str:
        line = self._sources.lines[position.file][position.line - 1]
        return line.partition(directive)[2].strip() or f"#{directive}"

    def _include(self, rest: list[Token], position: Position, file: Path) -> None:
        line = self._sources.lines[position.file][position.line - 1]
        match = _INCLUDE.match(line)
        if match is None:
            text = "#include " + "".join(token.text for token in self._expand(rest))
            match = _INCLUDE.match(text)
        if match is None:
            raise SourceError(position, 'expected <file> or "file" after `#include`')
        name = match["local"] or match["system"]
        folders = [file.parent, *self._folders] if match["local"] else [*self._folders, file.parent]
        for folder in folders:
            if _is_file(found := folder / name):
                self._read(Path(os.path.normpath(found)), position)
                return
            self._sources.absent.add(str(found.absolute()))
        places = ", ".join(str(folder) or "." for folder in dict.fromkeys(folders))
        raise SourceError(position, f"expected a file to include, got {name}, which is in none of {places}")

    def _define(self, rest: list[Token], position: Position) -> None:
        if not rest or rest[0].kind is not TokenKind.NAME:
            raise SourceError(position, "expected a name after `#define`")
        name, body = rest[0].text, rest[1:]
        if not body or body[0].text != "(" or body[0].follows_space:
            self._macros[name] = Macro(name, tuple(body))
            return
        parameters: list[str] = []
        i = 1
        while i < len(body) and body[i].text != ")":
            if body[i].text != ",":
                parameters.append(body[i].text)
            i += 1
        if i == len(body):
            raise SourceError(position, f"expected `)` after the parameters of `{name}`")
        is_variadic = bool(parameters) and parameters[-1] == "..."
        if is_variadic:
            parameters[-1] = "__VA_ARGS__"
        self._macros[name] = Macro(name, tuple(body[i + 1 :]), tuple(parameters), is_variadic)

    # -- expansion

    def _expand(self, tokens: Sequence[Token], depth: int = 0) -> list[Token]:
        macros = self._macros
        if not any(token.text in macros for token in tokens if token.kind is TokenKind.NAME):
            return self._builtin(tokens)
        if depth > MAX_EXPANSION_DEPTH:
            raise SourceError(tokens[0], f"expected at most {MAX_EXPANSION_DEPTH} nested macros")
        output: list[Token] = []
        stack = list(reversed(tokens))  # what remains, the next token last
        while stack:
            token = stack.pop()
            macro = macros.get(token.text) if token.kind is TokenKind.NAME else None
            if macro is None or macro.name in token.hidden:
                output.append(token)
                continue
            if macro.parameters is None:
                expansion = self._substitute(macro, [], token, depth)
            elif stack and stack[-1].text == "(":
                expansion = self._substitute(macro, self._arguments(macro, stack, token), token, depth)
            else:
                output.append(token)
                continue
            stack.extend(reversed(expansion))
        return self._builtin(output)

    def _builtin(self, tokens: Sequence[Token]) -> list[Token]:
        output = list(tokens)
        for i, token in enumerate(output):
            if token.text == "__LINE__":
                output[i] = replace(token, kind=TokenKind.INTEGER, text=str(token.position.line))
            elif token.text == "__FILE__":
                output[i] = replace(token, kind=TokenKind.STRING, text=f'"{token.position.file}"')
        return output

    def _arguments(self, macro: Macro, stack: list[Token], use: Token) -> list[list[Token]]:
        """Take the arguments of a use from the stack, up to the closing parenthesis."""
        assert macro.parameters is not None
        stack.pop()
        arguments: list[list[Token]] = [[]]
        nesting = 0
        while stack:
            token = stack.pop()
            is_rest = macro.is_variadic and len(arguments) == len(macro.parameters)
            if token.text == ")" and nesting == 0:
                if len(arguments) == 1 and not arguments[0] and len(macro.parameters) != 1:
                    arguments = []
                if macro.is_variadic and len(arguments) == len(macro.parameters) - 1:
                    arguments.append([])
                if len(arguments) != len(macro.parameters):
                    expected = f"expected {len(macro.parameters)} arguments of the macro `{macro.name}`"
                    raise SourceError(use, f"{expected}, got {len(arguments)}")
                return arguments
            if token.text == "," and nesting == 0 and not is_rest:
                arguments.append([])
                continue
            nesting += (token.text in "([{") - (token.text in ")]}") if len(token.text) == 1 else 0
            arguments[-1].append(token)
        raise SourceError(use, f"expected `)` after the arguments of the macro `{macro.name}`")

    def _substitute(self, macro: Macro, arguments: list[list[Token]], use: Token, depth: int) -> list[Token]:
        """Return the body of a macro with its arguments, at the position of its use."""
        position_of = {name: i for i, name in enumerate(macro.parameters or ())}
        expanded: dict[int, list[Token]] = {}
        output: list[Token] = []
        body = macro.body
        i = 0
        while i < len(body):
            token = body[i]
            parameter = position_of.get(token.text) if token.kind is TokenKind.NAME else None
            is_joined = i + 1 < len(body) and body[i + 1].text == "##"
            if token.text == "#" and i + 1 < len(body) and body[i + 1].text in position_of:
                given = arguments[position_of[body[i + 1].text]]
                _check_length(sum(len(t.text) for t in given), use)
                text = "".join(" " * t.follows_space + t.text for t in given).strip()
                output.append(Token(TokenKind.STRING, '"' + text.replace('"', '\\"') + '"', use.position))
                i += 2
                continue
            if token.text == "##" and output and i + 1 < len(body):
                right = body[i + 1]
                parameter = position_of.get(right.text)
                tokens = list(arguments[parameter]) if parameter is not None else [right]
                if tokens:
                    _check_length(len(output[-1].text) + len(tokens[0].text), use)
                    output[-1:] = _joined(output[-1], tokens[0])
                    output += tokens[1:]
                i += 2
                continue
            if parameter is None:
                output.append(token)
            elif is_joined:
                output += _spaced(arguments[parameter], token) or [Token(TokenKind.NAME, "", use.position)]
            else:
                if parameter not in expanded:
                    expanded[parameter] = self._expand(arguments[parameter], depth + 1)
                output += _spaced(expanded[parameter], token)
            i += 1
        self._expanded_tokens += len(output) + 1
        if self._expanded_tokens > MAX_EXPANDED_TOKENS:
            text = f"expected macros to make at most {MAX_EXPANDED_TOKENS} tokens, `{macro.name}` makes more"
            raise SourceError(use, text)
        hidden = use.hidden | {macro.name}
        known: dict[frozenset[str], frozenset[str]] = {}
        for t in output:
            if t.hidden not in known:
                known[t.hidden] = t.hidden | hidden
        made = [
            Token(t.kind, t.text, use.position, t.follows_space, known[t.hidden]) for t in output if t.text
        ]
        if made:
            made[0].follows_space = use.follows_space
        return made


def _moved(tokens: list[Token], lines: int, file: str) -> list[Token]:
    return [replace(t, position=Position(file, t.position.line + lines, t.position.column)) for t in tokens]


def _spaced(tokens: list[Token], place: Token) -> list[Token]:
    """Return an argument with the white space before it that is before its parameter."""
    if not tokens or tokens[0].follows_space == place.follows_space:
        return tokens
    return [replace(tokens[0], follows_space=place.follows_space), *tokens[1:]]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # the name is too long, or has a zero byte
        return False


def _check_length(length: int, use: Token) -> None:
    if length > MAX_TOKEN_LENGTH:
        text = f"expected at most {MAX_TOKEN_LENGTH} characters in a token that a macro makes, got {length}"
        raise SourceError(use, text)


def _joined(left: Token, right: Token) -> list[Token]:
    """Return the tokens that `left ## right` makes."""
    [tokens] = split_lines(left.text + right.text, left.position.file)
    return [replace(t, position=left.position) for t in tokens]


def parse_definition(text: str) -> tuple[str, str]:
    """Return a macro of the command line, `NAME` or `NAME=VALUE`, and its value."""
    name, _, value = text.partition("=")
    if not name.isidentifier():
        raise SwitchError(f"-D {text}: expected NAME or NAME=VALUE")
    return name, value if "=" in text else "1"
