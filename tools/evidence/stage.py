"""A stage of `make evidence`: commands, and the tables that are read from what they wrote."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from foundation.checkout import ROOT
from foundation.import_graph import files_needed_by
from foundation.protocol.header import VERSION
from tools.evidence.result import Result, Table



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

    def write_files(self, folder: Path) -> None:
        for name, text in self.files:
            (folder / name).write_text(_within(folder, text))


def _within(folder: Path, text: str) -> str:
    return text.replace("{folder}", str(folder))


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
    """What the machine has to have, beyond root and two cores."""

    def digest(self) -> str:
        """Return a digest of all code that makes the stage's numbers."""
        found = {path for pattern in self.files for path in ROOT.glob(pattern) if path.is_file()}
        found.update(files_needed_by(self.modules).values())
        hasher = hashlib.sha256()
        for path in sorted(found):
            hasher.update(f"{path.relative_to(ROOT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
        return hasher.hexdigest()[:16]


def staleness(result: Result, stage: Stage | None, digest: str) -> Iterator[str]:
    """Yield why a result may not hold for today's code."""
    if result.origin.wire != VERSION:
        yield f"wire {result.origin.wire}, today {VERSION}"
    if stage is not None and result.origin.code != digest:
        yield "its code has changed"


def home_of(name: str, stages: Sequence[Stage]) -> Stage | None:
    return next((stage for stage in stages if name in stage.results), None)
