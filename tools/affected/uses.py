"""Which files of a checkout a test uses, by the text of the files.

A Python file uses the modules that it imports, those that it names in quotes (`"hosts.keys:KeySpace"`,
`"-m", "hotline.cli"`), and data files that it names in quotes: by their name, by a folder that they are in,
or by their suffix. What a used module or script uses is used, too. Two ways lead to nearly everything, and
count in part:

- Entry points of a package are used by tests that have their name as a word (`dense`), or a word that stands
  for all of them (`ENUMERATES`).
- Of `conftest.py`, what it imports directly.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from pathlib import Path

import tomli

from foundation.checkout import source_folders
from foundation.import_graph import imported_names

EVERY_TEST = {
    Path(name)
    for name in (
        "pyproject.toml",
        "packages/softswitch/pyproject.toml",
        "requirements.lock",
        "tools/scripts/setup",
    )
}
"""Files that all tests run under."""
ENUMERATES = re.compile(r"\b(entry_points|known_names|NAMES|GROUPS|commands|__all__)\b")
_MODULE = re.compile(r"[\"']([A-Za-z_]\w*(?:(?:\.\w+)+|(?=:\w)))(?::\w+)?[\"']")
_RUN = re.compile(r"-m[\"',\s]+([\w.]+)")
_GROUP = re.compile(r"group=[\"']([\w.]+)[\"']")
_QUOTED = re.compile(r"(?<=[\"'/])([\w.-]+)(?=[\"'/])")
_SUFFIX = re.compile(r"(?<=[\"'*])(\.[a-z0-9]+)(?=[\"'])")
_WORD = re.compile(r"[\w-]+")


class Checkout:
    """The files at `root`, whose paths are relative to it. Files that do not exist were deleted."""

    def __init__(self, root: Path, files: Iterable[Path]) -> None:
        self._root = root
        self._files = frozenset(files)
        self.tests = {file for file in self._files if is_test(file) and (root / file).is_file()}
        self.files_used_by = cache(self._files_used_by)
        self.used_directly = cache(self._used_directly)
        self._text = cache(self._read)

    def affected_tests(self, changed: Iterable[Path]) -> set[Path]:
        """Return the test modules that use one of the files, or are one."""
        changed = set(changed)
        if changed & EVERY_TEST:
            return self.tests
        return {test for test in self.tests if changed & self.files_used_by(test)}

    def _files_used_by(self, test: Path) -> frozenset[Path]:
        conftests = {folder / "conftest.py" for folder in test.parents} & self._files
        text = self._text(test)
        words, uses_all = set(_WORD.findall(text)), ENUMERATES.search(text) is not None
        found, read, pending = set[Path](), set[Path](), [test]
        while pending:
            if (file := pending.pop()) not in found:
                found.add(file)
                modules, data = self.used_directly(file)
                # Scripts use something in turn; sources that are found by their suffix are only read.
                pending += {*modules, *(each for each in data if each.suffix == "")}
                pending += self._loaded_entry_points(file, None if uses_all else words)
                read |= data
        return frozenset(found.union(read, conftests, *map(self._imported, conftests)))

    def _used_directly(self, file: Path) -> tuple[frozenset[Path], frozenset[Path]]:
        """Return the modules that a file uses, and the data."""
        text = self._text(file)
        run = _RUN.findall(text)
        names = {*_MODULE.findall(text), *run, *(f"{name}.__main__" for name in run)}
        modules = {*self._imported(file), *self._modules_of(names)}
        return frozenset(modules), frozenset(self._data_named(file, text))

    def _read(self, file: Path) -> str:
        try:
            return (self._root / file).read_text()
        except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError):
            return ""

    # -- modules

    def _imported(self, file: Path) -> Iterator[Path]:
        if file.suffix == ".py":
            yield from self._modules_of(imported_names(self._text(file).encode()))

    def _modules_of(self, names: Iterable[str]) -> Iterator[Path]:
        """Yield the modules of dotted names, and the packages that these are in."""
        for name in names:
            parts = name.split(".")
            prefixes = (".".join(parts[:k]) for k in range(1, len(parts) + 1))
            yield from (self._modules[prefix] for prefix in prefixes if prefix in self._modules)

    @cached_property
    def _modules(self) -> dict[str, Path]:
        """The file of every module, by its name below each folder of the import path that it is in."""
        of_tests = (self._root / "packages" / "softswitch" / each for each in ("tests", "bench"))
        found = {}
        for folder in (each.relative_to(self._root) for each in (*source_folders(self._root), *of_tests)):
            for file in self._files:
                if file.suffix == ".py" and file.is_relative_to(folder):
                    parts = file.relative_to(folder).with_suffix("").parts
                    found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
        return found

    def _loaded_entry_points(self, file: Path, words: set[str] | None) -> Iterator[Path]:
        """Yield modules of entry points whose group a file names, but of packages only those in `words`."""
        for group in _GROUP.findall(self._text(file)):
            for is_core, name, module in self._entry_points[group]:
                if is_core or words is None or name in words:
                    yield from self._modules_of([module])

    @cached_property
    def _entry_points(self) -> defaultdict[str, list[tuple[bool, str, str]]]:
        """Return by group the entry points: whether each is the core's, its name, and its module."""
        groups = defaultdict[str, list[tuple[bool, str, str]]](list)
        for file in self._files:
            if file.name == "pyproject.toml":
                project = tomli.loads(self._text(file)).get("project", {})
                for group, values in project.get("entry-points", {}).items():
                    is_core = file.parent == Path()
                    groups[group] += [(is_core, name, to.partition(":")[0]) for name, to in values.items()]
        return groups

    # -- data

    def _data_named(self, file: Path, text: str) -> Iterator[Path]:
        """Yield files that a text names; sources by their suffix, pages and files of tests only in tests."""
        in_tests = "tests" in file.parts or "tools" in file.parts
        for name in {*_QUOTED.findall(text)}:
            yield from (data for data in self._data_by_word[name] if in_tests or _is_product(data))
        for suffix in {*_SUFFIX.findall(text)}:
            if in_tests:
                yield from self._by_suffix[suffix]

    @cached_property
    def _by_suffix(self) -> defaultdict[str, set[Path]]:
        found = defaultdict[str, set[Path]](set)
        for file in self._files:
            found[file.suffix].add(file)
        return found

    @cached_property
    def _data_by_word(self) -> defaultdict[str, set[Path]]:
        """The files that are not Python's, by their name and by folders that have no modules."""
        with_modules = {folder for file in self._files if file.suffix == ".py" for folder in file.parents}
        found = defaultdict[str, set[Path]](set)
        for file in self._files:
            if file.suffix != ".py":
                for path in (file, *({*file.parents} - with_modules)):
                    found[path.name].add(file)
        return found


def is_test(file: Path) -> bool:
    return file.name.startswith("test_") and file.suffix == ".py" and "tests" in file.parts


def _is_product(data: Path) -> bool:
    return data.suffix not in ("", ".md") and not {"tests", "docs", "tools"} & {*data.parts}
