"""The decorator of what Python calls here; the functions behind it are of this room and of those below."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any, cast

from designs import interface
from native.generic import Generic
from native.loops import loop

_HERE = Path(__file__).parent
_ROOMS = (
    "analysis", "common", "controller", "designs", "hosts", "logs", "native", "protocol", "simulator",
    "softswitch", "topologies",
)  # fmt: skip


def _states(world: Any) -> list[tuple[Generic, type]]:
    """The classes of the states in a world."""
    return [(_TRANSMIT, type(world.calls)), (_HANDLE, type(world.servers))]


_TRANSMIT, _HANDLE = cast(Any, interface.WORKER.transmit), cast(Any, interface.SERVER.handle)
_BELOW = (*sorted((_HERE.parent / "softswitch" / "queues").glob("*.py")), *sorted(_HERE.glob("*.py")))
entry_point = loop(_states, _HERE, _BELOW)
"""Decorate a function of a world that Python calls: compiled once for each design, and kept on disk."""


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
