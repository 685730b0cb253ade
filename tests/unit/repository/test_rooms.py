"""Imports between rooms go down only, packages import what they declare, and the core imports no package.

A class's name stands once in the core and the packages, so that a search for it finds that class.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path

import pytest
import tomli

from foundation.checkout import source_folders
from tools.mutants.paths import import_paths

ROOT = Path(__file__).parents[3]
SOURCES = ROOT, ROOT / "src"
PACKAGES = {
    folder.name: folder
    for folder in sorted(ROOT.glob("packages/*"))
    if folder.name != "softswitch" and (folder / "pyproject.toml").exists()
}
"""Folders of packages that add to the testbed; the switch is a project of its own."""
DEFAULTS = {"agents", "scripts", "simulator"}
"""Packages with what a run has by default, which tests and tools of the whole use."""

FLOORS = (
    {"foundation"},
    {"controller", "hosts"},
    {"analysis"},
    {"experiment"},
    {"topologies"},
    {"hotline"},
)
"""Rooms of the testbed from the lowest: each imports only lower ones."""
INSIDE = {
    "foundation": ({"protocol"}, {"designs"}, {"logs"}),
    "hotline": ({"cli"},),
}
"""Inner rooms from the lowest; the other modules of a room are below them."""
ROOMS = set(chain(*FLOORS))
AT_THE_TOP = {"controller", "hosts", "p4src", "packages", "src", "tests", "tools", "topologies"}


@cache
def modules() -> dict[str, set[str]]:
    """Return the modules of ours that each module imports; a package is its `__init__`."""
    known = files()
    return {name: {found for found in imports(file, known) if found in known} for name, file in known.items()}


@cache
def files() -> dict[str, Path]:
    """Return the file of each module of the core's rooms."""
    return {
        name_of(file, folder): file
        for folder in SOURCES
        for room in sorted(ROOMS)
        for file in sorted((folder / room).rglob("*.py"))
    }


def name_of(file: Path, folder: Path) -> str:
    return ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")


@cache
def nodes(file: Path) -> tuple[ast.Import | ast.ImportFrom | ast.Constant, ...]:
    """Return the imports and the constants of a file."""
    wanted = (ast.Import, ast.ImportFrom, ast.Constant)
    return tuple(node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, wanted))


def imports(file: Path, modules: Container[str] = ()) -> Iterator[str]:
    """Yield what a file imports; `from a import b` gives a.b if that is a module, and else a."""
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules else node.module for name in inside)


def room_in(room: str, module: str) -> str:
    """Return the inner room of a module, or ""."""
    inside = module.removeprefix(f"{room}.").split(".")[0]
    return inside if inside in set(chain(*INSIDE[room])) else ""


def test_all_rooms_are_known() -> None:
    tracked = {".git", ".venv"}
    with_code = {
        found.relative_to(ROOT).parts[0]
        for suffix in ("py", "p4")
        for found in ROOT.glob(f"[a-z]*/**/*.{suffix}")
        if found.relative_to(ROOT).parts[0] not in tracked
    }
    assert with_code - {"runs", "evidence", "build", "examples"} == AT_THE_TOP


def going_up(arrows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the arrows to a room above or beside."""
    floor_of = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    for module, other in arrows:
        ours, theirs = module.split(".")[0], other.split(".")[0]
        if theirs != ours and floor_of[theirs] >= floor_of[ours]:
            yield module, other


def test_imports_between_rooms_go_down() -> None:
    found = ((module, imported) for module, found in modules().items() for imported in found)
    assert [*going_up(found)] == []


def test_no_string_names_a_module_of_a_room_above_or_beside() -> None:
    named = ((module, text) for module, file in files().items() for text in strings(file))
    assert [*going_up((module, text) for module, text in named if text in modules())] == []


def strings(file: Path) -> Iterator[str]:
    """Yield the strings of a file that may be dotted names of modules."""
    for node in nodes(file):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield node.value


@pytest.mark.parametrize("room", ["controller", "foundation", "hosts"])
def test_controller_foundation_and_hosts_do_not_import_softswitch(room: str) -> None:
    found = {
        f"{module} imports {imported}"
        for module, file in files().items()
        for imported in imports(file, modules())
        if module.split(".")[0] == room and imported.split(".")[0] == "softswitch"
    }
    assert found == set()


@pytest.mark.parametrize("room", INSIDE)
def test_imports_inside_rooms_go_down(room: str) -> None:
    floor_of = {inner: number for number, inside in enumerate(({""}, *INSIDE[room])) for inner in inside}
    up = [
        f"{module} -> {imported}"
        for module, found in modules().items()
        for imported in found
        if module.startswith(f"{room}.") and imported.startswith(f"{room}.")
        if (ours := room_in(room, module)) != (theirs := room_in(room, imported))
        and floor_of[theirs] >= floor_of[ours]
    ]
    assert up == []


def test_no_two_modules_import_each_other() -> None:
    order = list(TopologicalSorter(modules()).static_order())
    assert order.index("foundation.errors") < order.index("topologies.lifecycle")


def import_name(package: str) -> str:
    return f"hotline_{package}"


def package_files(package: str) -> list[Path]:
    return sorted((PACKAGES[package] / "src").rglob("*.py"))


def declared(package: str) -> set[str]:
    """Return the packages that a package's `pyproject.toml` names."""
    project = tomli.loads((PACKAGES[package] / "pyproject.toml").read_text())["project"]
    assert project["name"] == f"hotline-{package}" and "hotline-testbed" in project["dependencies"]
    names = {name.removeprefix("hotline-") for name in project["dependencies"]}
    return names & PACKAGES.keys()


def words_naming_packages(text: str) -> set[str]:
    """Return the packages whose import name stands in a text, as code, in a string or in a comment."""
    return {name for name in PACKAGES if re.search(rf"(?<![\w.]){import_name(name)}\b", text)}


def naming_packages(sources: Iterable[Path], allowed: frozenset[str] = frozenset()) -> dict[str, set[str]]:
    """Return by file the packages that it names although they are not among those allowed."""
    found = {
        str(file.relative_to(ROOT)): words_naming_packages(file.read_text()) - allowed for file in sources
    }
    return {file: names for file, names in found.items() if names}


def test_the_core_names_no_package() -> None:
    assert naming_packages(files().values()) == {}


def test_tests_and_tools_of_the_whole_name_only_packages_of_a_default_run() -> None:
    sources = (file for room in ("tests", "tools") for file in (ROOT / room).rglob("*.py"))
    assert naming_packages(sources, frozenset(DEFAULTS)) == {}
    assert words_naming_packages("from hotline_simulator.world import Network") == {"simulator"}
    assert words_naming_packages("the simulator. It imports hotline_agents") == {"agents"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_names_only_packages_that_its_dependencies_declare(package: str) -> None:
    allowed = frozenset({package, *declared(package)})
    assert naming_packages(package_files(package), allowed) == {}


def test_packages_depend_on_each_other_without_circles() -> None:
    order = list(TopologicalSorter({name: declared(name) for name in PACKAGES}).static_order())
    assert set(order) == PACKAGES.keys()


def test_every_package_is_on_the_paths_of_all_tools() -> None:
    """Two tools, pytest and mypy, take lists; `./hotline`, agents and mutants search `packages/*/src`."""
    tools = tomli.loads((ROOT / "pyproject.toml").read_text())["tool"]
    sources = {str(folder.relative_to(ROOT)) for folder in ROOT.glob("packages/*/src")}
    for paths in (tools["pytest"]["ini_options"]["pythonpath"], tools["mypy"]["mypy_path"]):
        assert {path for path in paths if re.fullmatch(r"packages/\w+/src", path)} == sources
    assert {
        str(folder.relative_to(ROOT)) for folder in source_folders() if "packages" in folder.parts
    } == sources
    assert import_paths(ROOT) == [str(folder) for folder in source_folders()]


def test_every_package_is_installed_with_its_entry_points() -> None:
    """Set-up installs a new or changed package: `tools/scripts/setup` looks at its `pyproject.toml`."""
    projects = [ROOT, *PACKAGES.values()]
    tables = [
        tomli.loads((folder / "pyproject.toml").read_text())["project"].get("entry-points", {})
        for folder in projects
    ]
    groups = {group for table in tables for group in table}
    installed = {(group, each.name, each.value) for group in groups for each in entry_points(group=group)}
    expected = {
        (group, name, value)
        for table in tables
        for group in groups
        for name, value in table.get(group, {}).items()
    }
    assert installed == expected
    # Modules may need what set-up does not install.
    loaded = groups - {"hotline.modules"}
    assert all(entry_point.load() for group in loaded for entry_point in entry_points(group=group))


def homes_of_classes(sources: Iterable[Path]) -> dict[str, list[str]]:
    """Return the files that define each class at their top level."""
    homes: dict[str, list[str]] = defaultdict(list)
    for file in sources:
        for name in re.findall(r"^class (\w+)", file.read_text(), re.MULTILINE):
            homes[name].append(str(file))
    return homes


def test_no_two_modules_define_a_class_of_one_name() -> None:
    homes = homes_of_classes([*files().values(), *chain.from_iterable(map(package_files, PACKAGES))])
    assert {"Arm", "Worker", "TableRow"} <= homes.keys()
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_a_class_name_that_stands_twice_is_found(tmp_path: Path) -> None:
    for name, text in {
        "rules": "class Rule:\n    class Inner: ...\n",
        "selection": "@final\nclass Rule(Base): ...\n",
        "inner": "class Inner: ...\n",
    }.items():
        (tmp_path / f"{name}.py").write_text(text)
    homes = homes_of_classes(tmp_path.iterdir())
    assert {name: len(found) for name, found in homes.items()} == {"Inner": 1, "Rule": 2}
