"""Arrows inside softswitch go down only; it imports no other room, so that it can be installed alone."""

from __future__ import annotations

import ast
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain

from tests.unit import test_rooms as rooms

PACKAGE = rooms.ROOT / "softswitch"

FLOORS = (
    {"cache", "errors", "hashing", "limits", "llvmir", "messages", "v1model", "verbs", "words"},
    {"ir", "target"},
    {"load", "pipeline", "memory"},
    {"checks", "native"},
    {"codegen", "interpreter", "queues", "state"},
    {"jit"},
    {"compiled"},
    {"p4runtime", "ports"},
    {"kernel", "runtime", "settings", "warm"},
    {"commands"},
    {"explain"},
    {"datapath"},
    {"machine"},
    {"running"},
    {"bmv2", "cli"},
    {"__main__"},
)
"""From the bottom; a room (a module or a package of softswitch) imports what is below it."""


@cache
def modules() -> dict[str, set[str]]:
    """Of softswitch -> those of it that they import."""
    ours = {name: found for name, found in rooms.modules().items() if name.startswith("softswitch.")}
    return {name: found & ours.keys() for name, found in ours.items()}


def room_of(module: str) -> str:
    return module.split(".")[1]


def test_every_module_is_in_a_room() -> None:
    assert set(map(room_of, modules())) == set(chain(*FLOORS))


def test_arrows_go_down() -> None:
    floor_of = {room: number for number, floor in enumerate(FLOORS) for room in floor}
    up = [
        f"{module} -> {imported}"
        for module, found in modules().items()
        for imported in found
        if (ours := room_of(module)) != (theirs := room_of(imported)) and floor_of[theirs] >= floor_of[ours]
    ]
    assert up == []


def test_no_two_modules_need_each_other() -> None:
    order = list(TopologicalSorter(modules()).static_order())
    assert order.index("softswitch.v1model") < order.index("softswitch.compiled")


def test_no_other_room_is_imported() -> None:
    others = (rooms.ROOMS | {"tests"}) - {"softswitch"}
    found = {
        f"{file.relative_to(PACKAGE)} imports {name}"
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for name in imported_by(node)
        if name.split(".")[0] in others
    }
    assert found == set()


def imported_by(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names):
            return [alias.name for alias in names]
        case ast.ImportFrom(str(module)):
            return [module]
    return []
