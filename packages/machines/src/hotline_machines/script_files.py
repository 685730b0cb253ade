"""Compare a script and what it imports on the machines of a run, before anything is started."""

from __future__ import annotations

import ast
import csv
import hashlib
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, distributions
from inspect import getmodulename
from pathlib import Path
from typing import NamedTuple

from hotline_machines.errors import MachinesError

_DIGEST_CHARACTERS = 12


class ScriptFiles(NamedTuple):
    """The files and packages of a script on one machine."""

    folder_exists: bool
    """Whether the machine has the working directory in which the script is started."""
    digests: dict[str, str]
    """File of Python, by its path relative to the script's folder -> digest; empty without the script."""
    packages: dict[str, str]
    """Distribution that the script imports -> version."""


def describe_script(script: str, folder: str) -> ScriptFiles:
    """Describe a script of this machine."""
    path = Path(script)
    files, names = _read_imports(path) if path.is_file() else ({}, set())
    return ScriptFiles(
        Path(folder).is_dir(),
        {name: hashlib.sha256(text).hexdigest()[:_DIGEST_CHARACTERS] for name, text in sorted(files.items())},
        _versions_of_providers(names),
    )


def check_scripts(script: str, folder: str, own: ScriptFiles, machines: Mapping[str, ScriptFiles]) -> None:
    """Raise `MachinesError` for the first machine that differs from this one; it has the script."""
    own_name = Path(script).name
    for machine, found in machines.items():
        where = f"{machine}: SCRIPT={script}"
        if not found.folder_exists:
            raise MachinesError(
                f"{where}: expected the folder {folder}, in which it is started, as on this machine, found "
                "none"
            )
        for what, expected, actual in (
            ("file", own.digests, found.digests),
            ("package", own.packages, found.packages),
        ):
            # The script itself comes first, since what it imports depends on it.
            for name in sorted(expected.keys() | actual.keys(), key=lambda each: (each != own_name, each)):
                if expected.get(name) != actual.get(name):
                    raise MachinesError(
                        f"{where}: expected {what} {name} as on this machine "
                        f"({expected.get(name, 'none')}), found {actual.get(name, 'none')}"
                    )


def _read_imports(script: Path) -> tuple[dict[str, bytes], set[str]]:
    """Return the script and the files of its folder that it imports, with their texts, and other imports.

    Imports are found in the text, wherever they are in it, and in the text of what is imported; a text that
    is not Python has none.
    """
    folder, texts, others = script.parent, dict[str, bytes](), set[str]()
    waiting = [script]
    while waiting:
        file = waiting.pop()
        name = str(file.relative_to(folder))
        if name in texts:
            continue
        texts[name] = file.read_bytes()
        try:
            tree = ast.parse(texts[name])
        except (SyntaxError, ValueError):
            continue
        for base, module in _imported_modules(tree, file, folder):
            found = [each for part in _prefixes(module) for each in _files_of(base, part)]
            waiting += [each for each in found if folder in each.parents]
            if not found:
                others.add(module.partition(".")[0])
    return texts, others


def _imported_modules(tree: ast.AST, file: Path, folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folder that a module's name begins at, and the name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield folder, alias.name
        elif isinstance(node, ast.ImportFrom):
            # "from .a import b": level 1 is the file's own folder.
            base = file if node.level else folder
            for _ in range(node.level):
                base = base.parent
            for alias in node.names:
                yield base, ".".join(filter(None, (node.module, alias.name)))


def _prefixes(module: str) -> Iterator[str]:
    parts = module.split(".")
    for length in range(1, len(parts) + 1):
        yield "/".join(parts[:length])


def _files_of(folder: Path, module: str) -> Iterator[Path]:
    for file in (folder / f"{module}.py", folder / module / "__init__.py"):
        if file.is_file():
            yield file


def _versions_of_providers(names: set[str]) -> dict[str, str]:
    """Return the distributions that provide packages or modules of these names, with their versions."""
    providers = [each for each in distributions() if not names.isdisjoint(_provided_by(each))]
    found = dict[str, str]()
    for each in providers:
        found.setdefault(each.metadata["Name"], each.version)  # an import takes the first one, too
    return dict(sorted(found.items()))


def _provided_by(distribution: Distribution) -> set[str]:
    """Return names as `importlib.metadata.packages_distributions` does, which looks for each file on disk."""
    if declared := (distribution.read_text("top_level.txt") or "").split():
        return set(declared)
    recorded = csv.reader((distribution.read_text("RECORD") or "").splitlines())
    heads = (path.partition("/") for path, *_ in recorded)
    return {head if slash else getmodulename(head) or head for head, slash, _ in heads}
