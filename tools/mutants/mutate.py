"""Mutants of a module: mutmut's operators applied to its whole source, one place at a time."""

# mutmut itself replaces functions by trampolines, which do not cover module and class bodies and decorated
# functions, and which numba could not compile.
from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import libcst as cst
from mutmut.mutation.mutators import mutation_operators


@dataclass(frozen=True, slots=True)
class Mutant:
    """A module with one change."""

    path: Path
    """Relative to the tree."""
    source: str
    diff: str


def draw(tree: Path, sources: Sequence[str], number: int | None, seed: int) -> tuple[int, list[Mutant]]:
    """Return the number of mutants in some folders, and `number` of them drawn by a seed, or all."""
    modules = [
        (path, cst.parse_module(path.read_text()))
        for source in sources
        for path in sorted((tree / source).rglob("*.py"))
    ]
    changes = [(path, module, change) for path, module in modules for change in _changes(module)]
    size = len(changes) if number is None else min(number, len(changes))
    drawn = sorted(random.Random(seed).sample(range(len(changes)), size))
    return len(changes), [_mutant(tree, *changes[index]) for index in drawn]


def _changes(module: cst.Module) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """Yield each mutation with its node; annotations are skipped, because they are not evaluated."""
    nodes: list[cst.CSTNode] = [module]
    while nodes:
        node = nodes.pop()
        if isinstance(node, cst.Annotation):
            continue
        for kind, operator in mutation_operators:
            if isinstance(node, kind):
                yield from ((node, changed) for changed in operator(node))
        nodes += reversed(node.children)


def _mutant(tree: Path, path: Path, module: cst.Module, change: tuple[cst.CSTNode, cst.CSTNode]) -> Mutant:
    changed = module.deep_replace(*change)
    assert isinstance(changed, cst.Module)
    name = str(path.relative_to(tree))
    diff = unified_diff(module.code.splitlines(True), changed.code.splitlines(True), name, name, n=1)
    return Mutant(path.relative_to(tree), changed.code, "".join(diff))
