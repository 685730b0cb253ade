"""Compiled functions of this room, kept with it from start to start."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import nativekit.compile
from nativekit.compile import cached_entry_point, compiled, int64

__all__ = ["compiled", "entry_point", "int64", "sources"]

F = TypeVar("F", bound=Callable[..., Any])

_HERE = Path(__file__).parent


def entry_point(function: F) -> F:
    """Decorate a function that Python calls: runs without the GIL, is compiled once and cached on disk."""
    return cached_entry_point(function, _HERE, sources())


@cache
def sources() -> tuple[Path, ...]:
    """What its machine code is made of, and so its results."""
    return (*sorted(_HERE.rglob("*.py")), Path(nativekit.compile.__file__))
