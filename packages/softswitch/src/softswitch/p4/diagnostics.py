"""Errors and warnings of the compiler, each with its place in the source and the line there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from softswitch.errors import ProgramError

MAX_SHOWN_ERRORS = 20
_MAX_SHOWN_CHARACTERS = 160
"""Characters of a line of the source that a message shows, around the place of the error."""
_CONTROL = {code: " " for code in (*range(32), 127)}


class Position(NamedTuple):
    """A place in a source file; lines and columns begin with 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    @property
    def place(self) -> str:
        """The file and the line, as the IR has them."""
        return f"{self.file}:{self.line}"


NOWHERE = Position("", 0, 0)
"""The position of what is in no file, such as a macro of the command line."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error or a warning at a position."""

    position: Position
    message: str
    is_warning: bool = False


class CompileError(ProgramError):
    """P4 source that is not a program; the text has each error with its line and a caret."""

    def __init__(self, diagnostics: Iterable[Diagnostic], sources: SourceFiles) -> None:
        self.diagnostics = list(diagnostics)
        shown = [sources.render(each) for each in self.diagnostics[:MAX_SHOWN_ERRORS]]
        if len(self.diagnostics) > MAX_SHOWN_ERRORS:
            shown.append(f"and {len(self.diagnostics) - MAX_SHOWN_ERRORS} more errors")
        super().__init__("\n".join(shown))


class HasPosition(Protocol):
    @property
    def position(self) -> Position: ...


class SourceError(Exception):
    """One error, raised where the compiler cannot go on, and caught where it can."""

    def __init__(self, place: Position | HasPosition, message: str) -> None:
        super().__init__(message)
        self.position = place if isinstance(place, Position) else place.position
        self.message = message


class SourceFiles:
    """The lines of all files that were read, and the diagnostics about them."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}
        self.digests: dict[str, str] = {}
        """SHA-256 of each file that was read, by its absolute path."""
        self.absent: set[str] = set()
        """Files that would have been read instead of others if they had been there."""
        self.diagnostics: list[Diagnostic] = []
        self.error_count = 0
        self._seen: set[tuple[Position, str]] = set()

    def error(self, position: Position, message: str) -> None:
        self._add(Diagnostic(position, message))

    def warn(self, position: Position, message: str) -> None:
        self._add(Diagnostic(position, message, is_warning=True))

    def _add(self, diagnostic: Diagnostic) -> None:
        if not diagnostic.message.isprintable():  # it repeats the source
            escaped = diagnostic.message.encode("unicode_escape").decode()
            diagnostic = replace(diagnostic, message=escaped)
        key = diagnostic.position, diagnostic.message
        if key not in self._seen:
            self._seen.add(key)
            self.diagnostics.append(diagnostic)
            self.error_count += not diagnostic.is_warning

    @property
    def errors(self) -> list[Diagnostic]:
        return [each for each in self.diagnostics if not each.is_warning]

    @property
    def warnings(self) -> list[Diagnostic]:
        return [each for each in self.diagnostics if each.is_warning]

    def check(self) -> None:
        """Raise `CompileError` if there was an error."""
        if errors := self.errors:
            raise CompileError(sorted(errors, key=lambda each: each.position), self)

    def render(self, diagnostic: Diagnostic) -> str:
        """Return a message in one line, followed by the source line with a caret below the place."""
        position = diagnostic.position
        kind = "warning" if diagnostic.is_warning else "error"
        place = f"{position}: " if position.file else ""
        text = f"{place}{kind}: {diagnostic.message}"
        lines = self.lines.get(position.file, [])
        if not 1 <= position.line <= len(lines):
            return text
        first = max(position.column - _MAX_SHOWN_CHARACTERS // 2, 0)
        line = lines[position.line - 1][first : first + _MAX_SHOWN_CHARACTERS].rstrip().translate(_CONTROL)
        return f"{text}\n    {line}\n    {' ' * (position.column - 1 - first)}^"
