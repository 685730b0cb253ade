"""The decorator of what Python calls here; the functions behind it are of this room and of those below."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from native.compile import sources
from softswitch.native import cached_entry_point

F = TypeVar("F", bound=Callable[..., Any])

_HERE = Path(__file__).parent
_ROOMS = (
    "analysis", "common", "controller", "hosts", "logs", "native", "protocol", "simulator", "softswitch",
    "topologies",
)  # fmt: skip


def entry_point(function: F) -> F:
    """Decorate a function that Python calls: runs without the GIL, is compiled once and cached on disk."""
    below = (*(_HERE.parent / "softswitch" / "queues").glob("*.py"), *_HERE.glob("*.py"))
    return cached_entry_point(function, _HERE, (*sources(), *sorted(below)))


_SHOWN = ("answer", "figures", "page", "prediction")
"""Folders that make nothing of a run but what is shown."""


@cache
def digest() -> str:
    """Of all code that a simulated run is made by, the P4 program among it."""
    root = _HERE.parent
    files = [
        file
        for room in _ROOMS
        for file in (root / room).rglob("*.py")
        if file.parent.name not in _SHOWN and not (file.parent.name == "sweeps" and file.stem != "point")
    ]
    made_of = hashlib.sha256((root / "p4src" / "compiled" / "hotline.json").read_bytes())
    for file in sorted(files):
        made_of.update(f"{file.relative_to(root)}\0".encode() + file.read_bytes())
    return made_of.hexdigest()
