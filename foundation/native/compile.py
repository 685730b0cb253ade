"""The decorators of compiled functions.

State is a `NamedTuple` of arrays of records, and functions take it as their first argument: nothing is
allocated and nothing raised on the way of a datagram. Integers are signed 64-bit everywhere, keys
alone unsigned: say `int64(x)` on every read of a narrower field, since numba makes a float of
`uint64 + int64`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

import softswitch.native
from softswitch.native import cached_entry_point, compiled, int64, intrinsic

__all__ = ["compiled", "entry_point", "inlined", "int64", "leaf", "sources"]

F = TypeVar("F", bound=Callable[..., Any])

_numba: Any = numba
_ROOT = Path(__file__).parents[2]
_ROOMS = ("foundation/native", "foundation/protocol", "foundation/designs", "hosts")
"""Compiled functions of these rooms call each other."""


def entry_point(function: F) -> F:
    """Decorate a function that Python calls: runs without the GIL, is compiled once and cached on disk."""
    return cached_entry_point(
        function, Path(__file__).parent, sources(Path(function.__code__.co_filename).parent)
    )


def inlined(function: F) -> F:
    """Decorate a function that becomes part of its callers: the only kind that may return a record."""
    return cast(F, _numba.njit(error_model="numpy", inline="always")(function))


def leaf(python: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Decorate the LLVM IR of a function whose plain form is `python`: for the few with no common source."""

    def decorate(generate: Callable[..., Any]) -> Any:
        made = intrinsic(generate)
        made.plain = python
        return made

    return decorate


def sources(*folders: Path) -> tuple[Path, ...]:
    """All that compiled functions may be made of: what designs share, and these folders.

    A cached function is stale when any of it changes. Functions of other rooms may call any design's.
    """
    inside = {folder for folder in folders if folder.is_relative_to(_ROOT / "hosts")}
    theirs = inside if inside == set(folders) else {_ROOT / "hosts", *folders}
    found = {source for folder in theirs for source in folder.rglob("*.py") if source.stem != "__main__"}
    return (*sorted({*_shared(), *found}), Path(softswitch.native.__file__))


@cache
def _shared() -> tuple[Path, ...]:
    """What is of no design: in `hosts` a design has a folder of its name."""
    designs = {description.stem for description in (_ROOT / "foundation" / "designs").glob("*.py")}
    return tuple(
        source
        for room in _ROOMS
        for source in (_ROOT / room).rglob("*.py")
        if source.stem != "__main__" and source.relative_to(_ROOT / room).parts[0] not in designs
    )
