"""The static import graph: which of the project's modules a module needs, directly and indirectly."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from foundation.checkout import ROOT, source_folders

_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]+(?:\(([^)]*)\)|(.*))|import[ \t]+([\w., \t]+))",
    re.MULTILINE,
)
"""`from (1) import ((2))`, `from (1) import (3)` and `import (4)`, at any depth of a module."""
_COMMENT = re.compile(r"#.*")


def files_needed_by(
    modules: Iterable[str], root: Path = ROOT, others: Sequence[Path] = ()
) -> dict[str, Path]:
    """Return the files of these modules and of all modules that they import, by module name.

    Modules are searched in the checkout at `root`, and in the folders `others`; those found nowhere, such as
    the standard library's, are left out. Text that looks like an import counts as one.
    """
    folders = tuple(map(str, (*source_folders(root), *others)))
    files: dict[str, Path] = {}
    pending_modules, seen_modules = set(_with_packages(modules)), set[str]()
    while pending_modules:
        name = pending_modules.pop()
        seen_modules.add(name)
        file = file_of(name, folders)
        if file is not None:
            files[name] = Path(file)
            status = os.stat(file)
            pending_modules |= _imports_of(file, status.st_mtime_ns, status.st_size) - seen_modules
    return files


@cache
def _imports_of(file: str, mtime_ns: int, size: int) -> frozenset[str]:
    return frozenset(_with_packages(imported_names(Path(file).read_bytes())))


@cache
def digest_of(program: Path, modules: tuple[str, ...], root: Path = ROOT) -> str:
    """Return a digest of a compiled program, and of these modules and all modules that they import."""
    hasher = hashlib.sha256(program.read_bytes())
    for name, file in sorted(files_needed_by(modules, root).items()):
        hasher.update(f"{name}\0".encode() + file.read_bytes())
    return hasher.hexdigest()


def _with_packages(modules: Iterable[str]) -> Iterator[str]:
    for module in modules:
        parts = module.split(".")
        yield from (".".join(parts[:k]) for k in range(1, len(parts) + 1))


def file_of(module: str, folders: tuple[str, ...]) -> str | None:
    """Return the file of a module or package; None if it is not below these folders.

    Files are texts: each process that loads compiled code looks up some 10,000 modules.
    """
    folder = _folder_with(module.partition(".")[0], folders)
    if folder is None:
        return None
    path = f"{folder}/{module.replace('.', '/')}"
    return next(filter(os.path.isfile, (f"{path}.py", f"{path}/__init__.py")), None)


@cache
def _folder_with(top: str, folders: tuple[str, ...]) -> str | None:
    """Return the folder with a module or package that is not part of another package."""
    for folder in folders:
        path = os.path.join(folder, top)
        if os.path.isfile(f"{path}.py") or os.path.isdir(path):
            return folder
    return None


@cache
def imported_names(source: bytes) -> frozenset[str]:
    """Return the names that a source imports: those of modules, and of what it imports from them."""
    names = set[str]()
    for package, several, one, modules in _IMPORT.findall(source.decode()):
        imported = _names(several or one or modules)
        names.update(imported if modules else (f"{package}.{name}" for name in imported))
        if package:
            names.add(package)
    return frozenset(names)


def _names(text: str) -> Iterator[str]:
    """Yield the names of a list such as `a as b, c`."""
    for part in _COMMENT.sub("", text).split(","):
        if words := part.split():
            yield words[0]
