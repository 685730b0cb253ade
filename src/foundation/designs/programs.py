"""The P4 programs of a checkout: their sources, and BMv2 JSON and P4Info in folders `compiled` beside them.

softswitch's compiler makes the outputs from the sources, at set-up and wherever a source has changed since.
It is imported where a program is compiled: processes that compile nothing do not load it.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

from foundation.checkout import ROOT
from foundation.designs.sources import COMPILED, P4INFO_SUFFIX, mark_compiled, newest_source_ns, source_of
from foundation.errors import HotlineError
from nativekit.files import replace_file

DEFINITIONS = "definitions.json"
"""File beside compiled programs with the macros that they are compiled with."""
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


class P4Error(HotlineError):
    """A P4 program that cannot be compiled, or whose outputs cannot be written."""


class ProgramOutputs(Protocol):
    """BMv2 JSON and P4Info of a program, as the compiler returns them."""

    json: bytes
    p4info: str


class P4Program(NamedTuple):
    source: Path
    output: Path
    """Path of the compiled program without `.json`."""

    @property
    def json(self) -> Path:
        return self.output.with_suffix(".json")

    @property
    def p4info(self) -> Path:
        return self.output.with_suffix(P4INFO_SUFFIX)


def trees(root: Path = ROOT) -> Iterator[Path]:
    """Yield the folders of P4 sources whose programs this checkout compiles."""
    yield root / "p4src"
    yield from sorted(root.glob("packages/*/p4src"))
    yield root / "tests" / "programs"
    yield from sorted(root.glob("packages/tofino/tests/programs"))
    yield root / "examples" / "tutorial"


def programs_of(tree: Path) -> list[P4Program]:
    """Return a tree's programs: a design's has its folder's name, a test's is included by no other file."""
    sources = sorted(tree.rglob("*.p4"))
    if tree.name == "p4src":
        sources = [source for source in sources if source.stem == source.parent.name]
        return [P4Program(source, tree / COMPILED / source.stem) for source in sources]
    included = set().union(*(included_by(source) - {source} for source in sources))
    sources = [source for source in sources if source not in included]
    return [P4Program(source, source.parent / COMPILED / source.stem) for source in sources]


def includes(source: Path) -> list[str]:
    """Return the names in a source's own lines `#include "NAME"`."""
    return _INCLUDE.findall(source.read_text())


@cache
def included_by(source: Path) -> frozenset[Path]:
    """Return a source and all files that it includes, but for those of the compiler."""
    files = {source}
    for name in includes(source):
        folders = (source.parent, *include_folders())
        found = next((path for folder in folders if (path := (folder / name).resolve()).is_file()), None)
        if found is not None:
            files |= included_by(found)
    return frozenset(files)


@cache
def include_folders() -> tuple[Path, ...]:
    return ROOT / "p4src", *sorted(ROOT.glob("packages/*/p4src"))


def definitions_of(program: P4Program) -> dict[str, str]:
    """Return the macros with which the programs of a tree are compiled: those of `make p4 CALLERS=`."""
    file = program.output.parent / DEFINITIONS
    return dict(json.loads(file.read_text())) if file.is_file() else {}


def compiled(program: P4Program) -> ProgramOutputs:
    """Return a program's outputs, from the cache if no source has changed; raises `P4Error`."""
    compiler, errors = import_module("softswitch.p4.cached"), import_module("softswitch.errors")
    definitions = sorted(definitions_of(program).items())
    try:
        made: ProgramOutputs = compiler.compile_cached(
            program.source, include_folders(), definitions, base=ROOT
        )
        return made
    except errors.ProgramError as error:
        raise P4Error(f"{program.source.name} cannot be compiled\n{error}") from error


def refresh(program: P4Program) -> bool:
    """Write a program's outputs where they differ from what its sources give; return whether some did."""
    newest_ns = newest_source_ns(program.source)  # an edit during the compilation is newer
    made = compiled(program)
    has_changed = False
    for file, content in ((program.json, made.json), (program.p4info, made.p4info.encode())):
        if _read(file) != content:
            _write(file, content)
            has_changed = True
    with contextlib.suppress(OSError):  # another user's folder: the next process compares them again
        mark_compiled(program.json, newest_ns)
    return has_changed


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _write(file: Path, content: bytes) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, content, 0o644)  # all users of a checkout run what one has compiled
    except OSError as error:
        raise P4Error(f"{file} cannot be written: {error.strerror}") from error


def refresh_output(json_file: Path) -> None:
    """Refresh the program that is compiled to a file; a file without a source stays as it is."""
    source = source_of(json_file)
    if source is not None:
        refresh(P4Program(source, json_file.with_suffix("")))


def refresh_all() -> int:
    """Refresh all programs, and return how many have changed."""
    return sum(refresh(program) for tree in trees() for program in programs_of(tree))
