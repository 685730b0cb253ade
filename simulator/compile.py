"""The decorator of what Python calls here; the functions behind it are of this room and of those below."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from native.compile import sources
from softswitch.native import cached_entry_point

F = TypeVar("F", bound=Callable[..., Any])

_HERE = Path(__file__).parent


def entry_point(function: F) -> F:
    """Decorate a function that Python calls: runs without the GIL, is compiled once and cached on disk."""
    below = (*(_HERE.parent / "softswitch" / "queues").glob("*.py"), *_HERE.glob("*.py"))
    return cached_entry_point(function, _HERE, (*sources(), *sorted(below)))
