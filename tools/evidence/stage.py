"""A stage of `make evidence`: commands, and the tables that are read from what they wrote."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import re
import shlex
import sys
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from foundation.checkout import ROOT
from foundation.designs import registry
from foundation.import_graph import files_needed_by
from foundation.protocol.header import VERSION
from hosts.compiled_agents import require_compiled_agents
from tools.evidence.result import EvidenceError, Origin, Table

OUTPUT = "output"
"""File of a step's folder with what its command printed."""

_FILE_NAMES = re.compile(r"[^\s=]+\.toml\b")


@dataclass(frozen=True, slots=True)
class Step:
    """A command, with what it prints or writes in a folder of its own: `{folder}` in a word stands for it."""

    name: str
    words: tuple[str, ...]
    shown: str
    """The command as a reader would type it."""
    files: tuple[tuple[str, str], ...] = ()
    """Names and texts of files that the folder has to have before; `{folder}` stands for it here too."""

    def command(self, folder: Path) -> list[str]:
        return [_within(folder, word) for word in self.words]

    def shown_files(self, folder: Path) -> Iterator[tuple[str, str]]:
        """Yield names and texts of files that the shown command takes and the checkout lacks, in `folder`."""
        names = [name for name in _FILE_NAMES.findall(self.shown) if not (ROOT / name).exists()]
        if names:
            for name, (_, text) in zip(names, self.files, strict=True):
                yield name, _within(folder, text)

    def write_files(self, folder: Path) -> None:
        for name, text in self.files:
            (folder / name).write_text(_within(folder, text))


def _within(folder: Path, text: str) -> str:
    return text.replace("{folder}", str(folder))


def typed(name: str, shown: str, *more: str, files: tuple[tuple[str, str], ...] = ()) -> Step:
    """Return a step of a command line; `more` are words that only say where the step's folder is."""
    words = [sys.executable if word == "python" else word for word in shlex.split(shown)]
    return Step(name, (*words, *more), shown, files)


def text_output(folder: Path, step: str) -> str:
    """Return what a step's command printed."""
    return (folder / step / OUTPUT).read_text()


def json_output(folder: Path, step: str) -> Any:  # JSON
    """Return the JSON that a step's command printed."""
    try:
        return json.loads(text_output(folder, step))
    except ValueError as error:
        raise EvidenceError(f"{folder / step / OUTPUT}: expected JSON: {error}") from None


def modules_of(*designs: str) -> tuple[str, ...]:
    """Return the modules of designs, which name their parts by texts and not by imports."""
    return tuple(dict.fromkeys(chain(*(registry.modules_of(registry.design(name)) for name in designs))))


_AGENTS = require_compiled_agents("a stage")
REAL_RUN = (
    "topologies.session", "analysis.claims", "analysis.dedicated_switch",
    *(f"{each}.__main__" for each in (_AGENTS.server, _AGENTS.worker)), *modules_of("hotset", "none"),
)  # fmt: skip
"""Modules of a run in real processes."""


@cache
def _digest_of_file(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".py":
        content = statements_of(content.decode()).encode()
    return hashlib.sha256(content).digest()


def statements_of(text: str) -> str:
    """Return Python source without comments, docstrings and empty lines, which change no number."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline) if "#" in text else ():
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines[node.lineno - 1 : node.end_lineno] = [""] * (1 + (node.end_lineno or 0) - node.lineno)
    return "\n".join(line.rstrip() for line in lines if line.strip())


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    minutes: float
    """Duration on two idle cores."""
    results: tuple[str, ...]
    steps: tuple[Step, ...]
    tables: Callable[[Path], Mapping[str, Table]]
    """Read the tables of all results from the folder that has a folder for each step."""
    modules: tuple[str, ...]
    """Modules whose code, with all that they import, makes the numbers."""
    files: tuple[str, ...] = ()
    """Patterns of further files that the numbers depend on, such as the switch's program."""
    seeds: tuple[int, ...] = ()
    needs: str = ""
    """Requirements on the machine, beyond what `make setup` installs."""

    def sources(self) -> list[Path]:
        """Return the files of the code that makes the stage's numbers."""
        return sorted(files_of(self.files).union(files_needed_by(self.modules).values()))

    def digest(self) -> str:
        return digest_of(self.sources())


def files_of(patterns: Iterable[str]) -> set[Path]:
    """Return the checkout's files that match the patterns; raises `EvidenceError` for one without a file."""
    found: set[Path] = set()
    for pattern in patterns:
        files = {path for path in ROOT.glob(pattern) if path.is_file()}
        if not files:
            raise EvidenceError(f"{pattern}: expected a pattern of files of {ROOT}, found none")
        found |= files
    return found


def digest_of(files: Iterable[Path]) -> str:
    """Return a digest of the names and statements of a checkout's files."""
    hasher = hashlib.sha256()
    for path in sorted(files):
        hasher.update(f"{path.relative_to(ROOT)}\0".encode() + _digest_of_file(path))
    return hasher.hexdigest()[:16]


def staleness(origin: Origin, digest: str) -> Iterator[str]:
    """Yield why a result may not hold for today's code, which has this digest."""
    if origin.wire != VERSION:
        yield f"wire {origin.wire}, today {VERSION}"
    if origin.code != digest:
        yield "its code has changed"
