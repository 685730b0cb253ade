"""Imports inside softswitch go down only, in no circle, and to no other project."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

from softswitch.compiled import CompiledPipeline
from softswitch.interpreter import InterpretedPipeline
from softswitch.pipeline import METHODS

SOURCES = Path(__file__).parents[3] / "src"

FLOORS = (
    {"ending", "errors", "extras", "libc", "progress", "shared"},
    {"files"},
    {"cache", "hashing", "limits", "llvmir", "messages", "v1model", "verbs"},
    {"ir", "pcap", "processes", "target"},
    {"load", "pipeline", "memory"},
    {"checks", "native"},
    {"codegen", "interpreter", "queues", "state"},
    {"jit"},
    {"compiled"},
    {"p4runtime", "ports"},
    {"frames", "kernel", "p4", "runtime", "settings", "warm"},
    {"program_files", "program_options"},
    {"commands", "conformance"},
    {"explain", "thrift"},
    {"datapath", "set_up", "testing"},
    {"network"},
    {"emulation", "machine"},
    {"explaining", "running"},
    {"bmv2", "cli"},
    {"shared_server"},
    {"__main__"},
)
"""Rooms, which are modules and packages of softswitch, from the lowest: each imports only lower ones."""


QUALIFIED = {f"softswitch.p4.{name}" for name in ("operands", "tree", "types")}
"""Modules whose classes have names of the language, as `tree.Table` and `ir.Table`."""


@cache
def modules() -> dict[str, set[str]]:
    """Return the modules of this project, each with those that it imports; a package is its `__init__`."""
    files = {name_of(file): file for file in sorted(SOURCES.rglob("*.py"))}
    return {name: {found for found in imports(file, files) if found in files} for name, file in files.items()}


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")


@cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def imports(file: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the names of imported modules; of `from a import b` a.b if that is a module, otherwise a."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in inside)


def switch_modules() -> dict[str, set[str]]:
    ours = {name: found for name, found in modules().items() if name.startswith("softswitch.")}
    return {name: found & ours.keys() for name, found in ours.items()}


def room_of(module: str) -> str:
    return module.split(".")[1]


def test_every_module_is_in_a_room() -> None:
    assert set(map(room_of, switch_modules())) == set(chain(*FLOORS))


def test_imports_go_down() -> None:
    floor_of = {room: number for number, floor in enumerate(FLOORS) for room in floor}
    up = [
        f"{module} -> {imported}"
        for module, found in switch_modules().items()
        for imported in found
        if (importer := room_of(module)) != (room := room_of(imported))
        and floor_of[room] >= floor_of[importer]
    ]
    assert up == []


def test_no_two_modules_import_each_other() -> None:
    order = list(TopologicalSorter(modules()).static_order())
    assert order.index("nativekit.compile") < order.index("softswitch.native")
    assert order.index("softswitch.v1model") < order.index("softswitch.compiled")


def test_nativekit_imports_nothing_of_softswitch() -> None:
    found = {name: imported for name, imported in modules().items() if name.split(".")[0] == "nativekit"}
    assert {each.split(".")[0] for imported in found.values() for each in imported} == {"nativekit"}


def test_a_class_name_is_defined_in_one_room_only() -> None:
    """A name can be searched for. `interpreter` and `codegen` name the same part of a program alike."""
    rooms: dict[str, set[str]] = {}
    for file in (SOURCES / "softswitch").rglob("*.py"):
        if name_of(file) in QUALIFIED:
            continue
        for node in parsed(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                rooms.setdefault(node.name, set()).add(room_of(name_of(file)))
    found = {name: where for name, where in rooms.items() if len(where) > 1}
    assert found == {name: {"codegen", "interpreter"} for name in ("Externs", "Packet")}


def test_classes_that_share_names_are_written_with_their_module() -> None:
    shared = {
        node.name
        for file in (SOURCES / "softswitch").rglob("*.py")
        if name_of(file) in QUALIFIED
        for node in parsed(file).body
        if isinstance(node, ast.ClassDef)
    } - {"Node", "Scalar"}
    found = {
        f"{name_of(file)} imports {alias.name}"
        for file in (SOURCES / "softswitch").rglob("*.py")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.ImportFrom) and node.module in QUALIFIED
        for alias in node.names
        if alias.name in shared
    }
    assert found == set()


def test_no_other_project_is_imported() -> None:
    allowed = {"softswitch", "nativekit", "click", "google", "grpc", "llvmlite", "numba", "numpy"}
    found = {
        f"{file.relative_to(SOURCES)} imports {name}"
        for file in SOURCES.rglob("*.py")
        for name in imports(file, {})
        if name.split(".")[0] not in allowed | sys.stdlib_module_names
    }
    assert found == {
        *(  # the extra `nanomsg`
            f"softswitch/{module}.py imports pynng" for module in ("frames/nanomsg", "thrift/learning")
        ),
        *(  # the distribution's Mininet
            f"softswitch/emulation/mininet_names.py imports mininet.{name}"
            for name in ("cli", "log", "net", "node", "util")
        ),
        *(  # the extra `network`
            f"softswitch/network/host.py imports scapy.{name}"
            for name in ("layers.inet", "layers.l2", "packet")
        ),
        "softswitch/p4runtime/messages.py imports finsy.proto",  # for type hints
        "softswitch/testing/plugin.py imports pytest",  # which imports it itself
    }


def test_one_module_calls_the_c_library_from_python() -> None:
    """That is, besides `nativekit.libc`, whose functions compiled code calls, and what forks call."""
    found = {
        str(file.relative_to(SOURCES))
        for file in SOURCES.rglob("*.py")
        if any(
            isinstance(node, ast.Attribute) and node.attr in ("CDLL", "PyDLL", "cdll")
            for node in ast.walk(parsed(file))
        )
    }
    assert found == {"softswitch/libc.py", "nativekit/libc.py", "nativekit/forked.py"}


def test_pipelines_forward_no_calls() -> None:
    """Each subject of the control plane is an object of the pipeline, which has none of its methods."""
    assert {*METHODS} == {"tables", "profiles", "replication", "cells"}
    assert sum(map(len, METHODS.values())) == 22
    for pipeline in (CompiledPipeline, InterpretedPipeline):
        methods = {name for name in dir(pipeline) if callable(getattr(pipeline, name))}
        assert methods & {name for names in METHODS.values() for name in names} == set()
