"""Imports between rooms go down only, and no two modules import each other."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT, ROOT / "src"

FLOORS = (
    {"foundation"},
    {"controller", "hosts"},
    {"analysis"},
    {"experiment"},
    {"simulator", "topologies"},
    {"studies"},
    {"hotline"},
)
"""Rooms of the testbed from the lowest: each imports only lower ones."""
INSIDE = {
    "foundation": ({"protocol"}, {"designs"}, {"logs"}),
    "hotline": ({"kv"}, {"torch"}, {"cli"}),
    "studies": ({"dense", "policies"}, {"allreduce", "paper"}, {"optimisers"}),
}
"""Inner rooms from the lowest; the other modules of a room are below them."""
ROOMS = set(chain(*FLOORS))
AT_THE_TOP = ROOMS - {"hotline"} | {"p4src", "softswitch", "src", "tests", "tools"}


@cache
def modules() -> dict[str, set[str]]:
    """Return the modules of ours that each module imports; a package is its `__init__`."""
    known = files()
    return {name: {found for found in imports(file, known) if found in known} for name, file in known.items()}


@cache
def files() -> dict[str, Path]:
    """Return the file of each module of the testbed's rooms."""
    return {
        name_of(file, folder): file
        for folder in SOURCES
        for room in sorted(ROOMS)
        for file in sorted((folder / room).rglob("*.py"))
    }


def name_of(file: Path, folder: Path) -> str:
    return ".".join(file.relative_to(folder).with_suffix("").parts).removesuffix(".__init__")


def imports(file: Path, modules: Container[str] = ()) -> Iterator[str]:
    """Yield what a file imports; `from a import b` gives a.b if that is a module, and else a."""
    for node in ast.walk(ast.parse(file.read_text())):
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
    assert with_code - {"scripts", "runs", "build", "examples"} == AT_THE_TOP


def going_up(arrows: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the arrows to a room above or beside."""
    floor_of = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    for module, other in arrows:
        ours, theirs = module.split(".")[0], other.split(".")[0]
        if theirs != ours and floor_of[theirs] >= floor_of[ours]:
            yield module, other


def test_arrows_go_down() -> None:
    found = ((module, imported) for module, found in modules().items() for imported in found)
    assert [*going_up(found)] == []


def test_no_string_names_a_module_of_a_room_above_or_beside() -> None:
    named = ((module, text) for module, file in files().items() for text in strings(file))
    assert [*going_up((module, text) for module, text in named if text in modules())] == []


def strings(file: Path) -> Iterator[str]:
    """Yield the strings of a file that may be dotted names of modules."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            yield node.value


@pytest.mark.parametrize("room", ["controller", "foundation", "hosts"])
def test_a_room_that_knows_no_switch_imports_none(room: str) -> None:
    found = {
        f"{module} imports {imported}"
        for module, file in files().items()
        for imported in imports(file, modules())
        if module.split(".")[0] == room and imported.split(".")[0] == "softswitch"
    }
    assert found == set()


@pytest.mark.parametrize("room", INSIDE)
def test_arrows_go_down_inside(room: str) -> None:
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


def test_no_two_modules_need_each_other() -> None:
    order = list(TopologicalSorter(modules()).static_order())
    assert order.index("foundation.errors") < order.index("topologies.lifecycle")
