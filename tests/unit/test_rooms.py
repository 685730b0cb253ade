"""Arrows between the rooms go down only, and no two modules need each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).parents[2]

FLOORS = (
    {"common", "softswitch"},
    {"native", "targets"},
    {"protocol"},
    {"designs"},
    {"logs"},
    {"conformance", "controller", "hosts"},
    {"analysis"},
    {"policies"},
    {"experiment"},
    {"simulator", "topologies"},
    {"dense"},
    {"bench", "cli"},
    {"paper"},
)
"""From the bottom; a room imports what is below it. `softswitch` stands alone: others install it."""
ROOMS = set(chain(*FLOORS))


def modules() -> dict[str, set[str]]:
    """Module -> modules of ours that it imports; a package is its `__init__`."""
    files = {name_of(file): file for room in sorted(ROOMS) for file in sorted((ROOT / room).rglob("*.py"))}
    return {name: {found for found in imports(file) if found in files} for name, file in files.items()}


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(file: Path) -> Iterator[str]:
    """What a file imports; of `from a import b` both a and a.b, since b may be a module."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from inside
            if not all((ROOT / name.replace(".", "/")).with_suffix(".py").exists() for name in inside):
                yield node.module


def test_every_package_is_a_room() -> None:
    packages = {found.parent.name for found in ROOT.glob("*/__init__.py")}
    assert packages - {"tests"} == ROOMS


def test_arrows_go_down() -> None:
    floor_of = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
    up = [
        f"{module} -> {imported}"
        for module, found in modules().items()
        for imported in found
        if (ours := module.split(".")[0]) != (theirs := imported.split(".")[0])
        and floor_of[theirs] >= floor_of[ours]
    ]
    assert up == []


def test_no_two_modules_need_each_other() -> None:
    order = list(TopologicalSorter(modules()).static_order())
    assert order.index("common.errors") < order.index("topologies.run")
