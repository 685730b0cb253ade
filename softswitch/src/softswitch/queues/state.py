"""The records of queues, which the caller allocates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from softswitch.queues.shape import Shape

NONE = -1
"""Slot or port number that stands for none."""
NEVER = (1 << 63) - 1
"""Time of a departure that is not scheduled, in ns of the clock of the queues."""
_LONG_AGO = -(1 << 62)
_NS = 10**9


def _record(*names: str) -> np.dtype[Any]:
    return np.dtype([(name, np.int64) for name in names])


POOL = _record("free")
PORT = _record("bits", "free_at", "due", "held")
"""A port: its link's rate in bit/s, when the link is free again, the earliest departure, and whether the port
is held back (`hold`).
"""
QUEUE = _record("max_packets", "max_bytes", "gap", "packets", "bytes", "first", "last", "last_due", "dropped")
"""The queue of one priority: limits, ns between packets, contents, first and last slot, and drops."""
SLOT = _record("port", "priority", "length", "due", "following", "enq_qdepth", "deq_qdepth")
"""A packet, which may depart from `due` on, and how many others its queue held on arrival and departure."""


class Queues(NamedTuple):
    """Queues of n ports with k priorities each, both counted from 0; higher priorities go first."""

    pool: Any
    """One POOL record, the head of the list of free slots."""
    ports: Any
    """PORT records, shape (n,)."""
    queues: Any
    """QUEUE records, shape (n, k)."""
    slots: Any
    """SLOT records, as many as all queues together may hold."""


def make_queues(shapes: Sequence[Shape], priorities: int = 1, slots: int = 0) -> Queues:
    """Return empty queues for ports of these shapes, with at least `slots` slots in total."""
    count = max(slots, priorities * sum(shape.depth.packets for shape in shapes))
    made = Queues(
        pool=_records(1, POOL)[0],
        ports=_records(len(shapes), PORT),
        queues=_records((len(shapes), priorities), QUEUE),
        slots=_records(count, SLOT),
    )
    for port, queues, (rate, depth) in zip(made.ports, made.queues, shapes, strict=True):
        port["bits"] = rate.bits
        queues["max_packets"], queues["max_bytes"] = depth
        queues["gap"] = _NS // rate.packets if rate.packets else 0
    made.ports["due"], made.ports["free_at"], made.queues["last_due"] = NEVER, _LONG_AGO, _LONG_AGO
    made.queues["first"] = made.queues["last"] = NONE
    made.slots["following"] = np.arange(1, count + 1)
    made.slots["following"][-1:] = NONE
    made.pool["free"] = 0 if count else NONE
    return made


def copy_settings(queues: Queues, old: Queues, ports: Sequence[tuple[int, int]]) -> None:
    """Copy rates and depths from `old`; `ports` has pairs of port numbers, new and old."""
    for new_port, old_port in ports:
        queues.ports[new_port]["bits"] = old.ports[old_port]["bits"]
        for name in ("max_packets", "max_bytes", "gap"):
            queues.queues[name][new_port] = old.queues[name][old_port]


def _records(shape: int | tuple[int, int], dtype: np.dtype[Any]) -> Any:
    """Return zeroed records whose fields are attributes in plain Python, too."""
    return np.zeros(shape, dtype).view(np.recarray)
