"""Errors that the compiler finds in small P4_16 sources."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from softswitch.p4.checker import check_program
from softswitch.p4.compiler import compile_file
from softswitch.p4.diagnostics import CompileError, Diagnostic, SourceError, SourceFiles
from softswitch.p4.parser import parse_program
from softswitch.p4.preprocessor import Preprocessor

CORE = "error { NoError, NoMatch } match_kind { exact, ternary, lpm, range, optional } action NoAction() {} "
"""The beginning of a source that does not include core.p4; it is in the source's first line."""


class Refused(NamedTuple):
    """A source, and the error that it causes: its line, and what its message says."""

    source: str
    line: int
    facts: str
    """A regular expression for the names and values in the message, in their order."""


def diagnostics_of(source: str, folder: Path) -> list[Diagnostic]:
    """Return errors and warnings of all stages up to the checker, in the order of their lines."""
    file = folder / "program.p4"
    file.write_text(source)
    sources = SourceFiles()
    try:
        tree = parse_program(Preprocessor(sources).run(file), sources)
        if not sources.errors:
            check_program(tree, sources)
    except SourceError as error:
        sources.error(error.position, error.message)
    return sorted(sources.diagnostics, key=lambda each: each.position)


def check_refused(case: Refused, folder: Path) -> None:
    errors = [each for each in diagnostics_of(case.source, folder) if not each.is_warning]
    assert errors, f"accepted: {case.source}"
    assert (errors[0].position.line, bool(re.search(case.facts, errors[0].message))) == (case.line, True), (
        errors
    )


def check_accepted(source: str, folder: Path) -> None:
    errors = [each for each in diagnostics_of(source, folder) if not each.is_warning]
    assert not errors, errors


def refusal(source: str | bytes, folder: Path) -> str:
    """Return the text of the `CompileError` for a source that the whole compiler gets."""
    file = folder / "hostile.p4"
    file.write_bytes(source.encode() if isinstance(source, str) else source)
    try:
        compile_file(file)
    except CompileError as error:
        return str(error)
    raise AssertionError("the source was accepted")
