"""Pairing of compiled programs with STF files (test vectors) in folders, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from softswitch.conformance.errors import ConformanceError


class Pair(NamedTuple):
    program: Path
    vectors: Path


def pairs_in(programs: Iterable[Path], vectors: Iterable[Path]) -> tuple[list[Pair], list[Path]]:
    """Return the pairs, matched by name, and the STF files without a program.

    `NAME.stf` and `NAME.CASE.stf` belong to `NAME.json`, else to `NAME.p4`, or to `FOLDER-NAME.json` if
    programs of several folders were compiled into one folder. Raises ConformanceError if a folder is missing.
    """
    files = [
        path for folder in programs for path in (*_list_files(folder, "*.p4"), *_list_files(folder, "*.json"))
    ]
    compiled = {path.stem: path for path in files}
    pairs, unmatched = [], []
    for path in (path for folder in vectors for path in _list_files(folder, "**/*.stf")):
        program = next((compiled[name] for name in _program_names(path) if name in compiled), None)
        if program is None:
            unmatched.append(path)
        else:
            pairs.append(Pair(program, path))
    return pairs, unmatched


def _list_files(folder: Path, pattern: str) -> list[Path]:
    if not folder.is_dir():
        raise ConformanceError(f"{folder} is not a folder")
    return sorted(folder.glob(pattern))


def _program_names(path: Path) -> Iterator[str]:
    yield f"{path.parent.name}-{path.stem}"
    yield path.stem
    yield path.stem.partition(".")[0]
