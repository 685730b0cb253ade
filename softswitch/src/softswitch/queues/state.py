"""The records of queues, which the caller allocates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nativekit.records import Records, RecordTable, one, records
from softswitch.queues.shape import Shape

NONE = -1
NEVER = (1 << 63) - 1
"""Time of a departure that is not scheduled, in ns of the clock of the queues."""
_LONG_AGO = -(1 << 62)
_NS = 10**9


class Pool:
    free: int  # first free slot; NONE if all are used


class Port:
    bits: int  # rate of the link in bit/s; 0 means unlimited
    free_at: int  # time at which the link is free again, in ns
    due: int  # earliest departure, in ns
    held: int  # whether departures are suspended (`fifo.hold`)


class Queue:
    max_packets: int
    max_bytes: int
    gap: int  # minimum time between two departures, in ns
    packets: int
    bytes: int
    first: int  # first slot; NONE if the queue is empty
    last: int
    last_due: int  # `due` of the packet that was queued last, in ns
    dropped: int  # packets


class Slot:
    port: int
    priority: int
    length: int  # bytes
    due: int  # time from which the packet may depart, in ns
    following: int  # next slot of the queue or of the free list; NONE at the end
    enq_qdepth: int  # number of other packets in its queue on arrival
    deq_qdepth: int  # number of other packets in its queue on departure


class Queues(NamedTuple):
    """Queues of n ports with k priorities each, both counted from 0; higher priorities go first."""

    pool: Pool
    ports: Records[Port]  # Port[n]: the ports by index
    queues: RecordTable[Queue]  # Queue[n, k]: the queues by port and priority
    slots: Records[Slot]  # Slot[m], as many as all queues together may hold


def make_queues(shapes: Sequence[Shape], priorities: int = 1, slots: int = 0) -> Queues:
    """Return empty queues for ports of these shapes, with at least `slots` slots in total."""
    count = max(slots, priorities * sum(shape.depth.packets for shape in shapes))
    empty = Queues(
        pool=one(Pool),
        ports=records(len(shapes), Port),
        queues=records((len(shapes), priorities), Queue),
        slots=records(count, Slot),
    )
    for p, (rate, depth) in enumerate(shapes):
        empty.ports[p].bits = rate.bits
        queues = empty.queues[p]
        queues["max_packets"], queues["max_bytes"] = depth
        queues["gap"] = _NS // rate.packets if rate.packets else 0
    empty.ports["due"], empty.ports["free_at"], empty.queues["last_due"] = NEVER, _LONG_AGO, _LONG_AGO
    empty.queues["first"] = empty.queues["last"] = NONE
    empty.slots["following"] = np.arange(1, count + 1)
    empty.slots["following"][-1:] = NONE
    empty.pool.free = 0 if count else NONE
    return empty


def copy_settings(queues: Queues, old: Queues, ports: Sequence[tuple[int, int]]) -> None:
    for new_port, old_port in ports:
        queues.ports[new_port].bits = old.ports[old_port].bits
        for name in ("max_packets", "max_bytes", "gap"):
            queues.queues[name][new_port] = old.queues[name][old_port]
