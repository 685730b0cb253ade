"""The decorator of what Python calls here; the functions behind it are of this room and of those below."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import softswitch.queues
from foundation.compiled import loop
from foundation.designs.interface import SERVER_OPS, WORKER_OPS
from nativekit.generic import Generic
from nativekit.reference import write_words
from simulator.state import World

_HERE = Path(__file__).parent


def _states(world: World) -> list[tuple[Generic, type]]:
    """The classes of the states in a world."""
    return [(_TRANSMIT, type(world.calls)), (_HANDLE, type(world.servers))]


_TRANSMIT, _HANDLE = cast(Generic, WORKER_OPS.transmit), cast(Generic, SERVER_OPS.handle)
_BELOW = (*sorted(Path(softswitch.queues.__file__).parent.glob("*.py")), *sorted(_HERE.glob("*.py")))
entry_point = loop(_states, _HERE, _BELOW)
"""Decorate a function of a world that Python calls: compiled once for each design, and kept on disk."""
write_world = entry_point(write_words)
"""For worlds that are lent (`nativekit.reference`)."""
