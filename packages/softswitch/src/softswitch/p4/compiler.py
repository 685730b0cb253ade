"""From P4_16 source to a program of the switch."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from softswitch.p4 import tree
from softswitch.p4.checker import check_program
from softswitch.p4.diagnostics import NOWHERE, Position, SourceError, SourceFiles
from softswitch.p4.lower_program import Lowered, lower_program
from softswitch.p4.parser import parse_program
from softswitch.p4.preprocessor import Preprocessor

_RECURSION_LIMIT = 20_000


def compile_file(
    file: Path,
    folders: Sequence[Path] = (),
    definitions: Iterable[tuple[str, str]] = (),
    sources: SourceFiles | None = None,
    base: Path | None = None,
) -> Lowered:
    """Return a compiled program; raise `CompileError` with all errors of the first stage that has some.

    `folders` are searched for included files before the switch's own, and `definitions` are macros with
    their values. Warnings are left in `sources`. Files below `base` are named relative to it in positions.
    """
    sources = sources if sources is not None else SourceFiles()
    with errors_collected(sources), deep_recursion():
        tokens = Preprocessor(sources, folders, definitions, base).run(file)
        tree = parse_program(tokens, sources)
        sources.check()
        facts = check_program(tree, sources)
        sources.check()
        return lower_program(tree, facts, sources)


def preprocess_file(
    file: Path, folders: Sequence[Path], definitions: Iterable[tuple[str, str]], sources: SourceFiles
) -> str:
    """Return the program after the preprocessor, with a `#line` wherever the lines of a file do not go on."""
    with errors_collected(sources):
        tokens = Preprocessor(sources, folders, definitions).run(file)
    lines: list[str] = []
    here: tuple[str, int] = ("", 0)
    for token in tokens:
        file_name, line, _ = token.position
        if (file_name, line) != here:
            if (file_name, line) != (here[0], here[1] + 1):
                lines.append(f'#line {line} "{file_name}"')
            lines.append("")
            here = file_name, line
        lines[-1] += " " * (token.follows_space or bool(lines[-1])) + token.text
    return "\n".join([*lines, ""])


def parse_file(
    file: Path, folders: Sequence[Path], definitions: Iterable[tuple[str, str]], sources: SourceFiles
) -> tree.Program:
    """Return the syntax tree of a program; raise `CompileError` if it is not one."""
    with errors_collected(sources), deep_recursion():
        parsed = parse_program(Preprocessor(sources, folders, definitions).run(file), sources)
        sources.check()
        return parsed


@contextmanager
def errors_collected(sources: SourceFiles) -> Iterator[None]:
    """Raise `CompileError` instead of an error of one place, or of Python's stack."""
    try:
        yield
    except SourceError as error:
        sources.error(error.position, error.message)
        sources.check()
    except RecursionError:
        sources.error(Position(*NOWHERE), "the program is nested too deeply")
        sources.check()


@contextmanager
def deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
