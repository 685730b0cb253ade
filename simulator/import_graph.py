"""The static import graph: which of the project's modules a module needs, directly and indirectly."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def files_needed_by(modules: Iterable[str], root: Path = ROOT) -> dict[str, Path]:
    """Return the files below `root` of these modules and of all modules that they import, by module name."""
    files: dict[str, Path] = {}
    pending_modules, seen_modules = list(modules), set[str]()
    while pending_modules:
        new_modules = [
            name for name in _module_and_packages(pending_modules.pop()) if name not in seen_modules
        ]
        seen_modules.update(new_modules)
        for name in new_modules:
            file = _file_of(name, root)
            if file is not None:
                files[name] = file
                pending_modules += _imported_names(file.read_bytes())
    return files


@cache
def digest_of(program: Path, modules: tuple[str, ...], root: Path = ROOT) -> str:
    """Return a digest of a compiled program, and of these modules and all modules that they import."""
    hasher = hashlib.sha256(program.read_bytes())
    for name, file in sorted(files_needed_by(modules, root).items()):
        hasher.update(f"{name}\0".encode() + file.read_bytes())
    return hasher.hexdigest()


def _module_and_packages(module: str) -> Iterator[str]:
    parts = module.split(".")
    return (".".join(parts[:k]) for k in range(1, len(parts) + 1))


def _file_of(module: str, root: Path) -> Path | None:
    paths = (
        folder.joinpath(*module.split(".")) for folder in (root, root / "src", root / "softswitch" / "src")
    )
    files = (file for path in paths for file in (path.with_suffix(".py"), path / "__init__.py"))
    return next(filter(Path.is_file, files), None)


@cache
def _imported_names(source: bytes) -> frozenset[str]:
    names = set[str]()
    for node in _statements(ast.parse(source).body):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(names)


def _statements(block: Iterable[Any]) -> Iterator[ast.stmt]:  # also exception handlers and match cases
    for statement in block:
        yield statement
        for attribute in ("body", "orelse", "finalbody", "handlers", "cases"):
            yield from _statements(getattr(statement, attribute, ()))
