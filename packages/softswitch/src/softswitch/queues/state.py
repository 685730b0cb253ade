"""The records of queues, which the caller allocates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nativekit.records import Records, RecordTable, one_record, records
from softswitch.queues.shape import Shape

NONE = -1
NEVER = (1 << 63) - 1
"""Time of a departure that is not scheduled, in ns of the clock of the queues."""
_LONG_AGO = -(1 << 62)  # before any time, but far enough from the minimum for sums
_NS_PER_S = 10**9


class Pool:
    free: int  # first free slot; NONE if all are used


class QueuePort:
    bits_per_s: int  # rate of the link; 0 means unlimited
    free_at: int  # time at which the link is free again, in ns
    due: int  # earliest departure, in ns
    suspended: int  # whether departures are suspended (`fifo.suspend_departures`)


class Queue:
    max_packets: int
    max_bytes: int
    gap: int  # minimum time between two departures, in ns
    packets: int
    bytes: int
    first: int  # first slot; NONE if the queue is empty
    last: int  # last slot, if the queue is not empty
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
    ports: Records[QueuePort]  # Port[n]: the ports by index
    queues: RecordTable[Queue]  # Queue[n, k]: the queues by port and priority
    slots: Records[Slot]  # Slot[m], as many as all queues together may hold


def make_queues(shapes: Sequence[Shape], priorities: int = 1, slots: int = 0) -> Queues:
    """Return empty queues for ports of these shapes, with at least `slots` slots in total."""
    slot_count = max(slots, priorities * sum(shape.depth.packets for shape in shapes))
    queues = Queues(
        pool=one_record(Pool),
        ports=records(len(shapes), QueuePort),
        queues=records((len(shapes), priorities), Queue),
        slots=records(slot_count, Slot),
    )
    for p, (rate, depth) in enumerate(shapes):
        queues.ports[p].bits_per_s = rate.bits_per_s
        port_queues = queues.queues[p]
        port_queues["max_packets"], port_queues["max_bytes"] = depth
        port_queues["gap"] = _NS_PER_S // rate.packets_per_s if rate.packets_per_s else 0
    queues.ports["due"], queues.ports["free_at"], queues.queues["last_due"] = NEVER, _LONG_AGO, _LONG_AGO
    queues.queues["first"] = queues.queues["last"] = NONE
    queues.slots["following"] = np.arange(1, slot_count + 1)
    queues.slots["following"][-1:] = NONE  # a slice, because there may be no slot
    queues.pool.free = 0 if slot_count else NONE
    return queues


def copy_settings(new_queues: Queues, old_queues: Queues, ports: Sequence[tuple[int, int]]) -> None:
    for new_port, old_port in ports:
        new_queues.ports[new_port].bits_per_s = old_queues.ports[old_port].bits_per_s
        for field_name in ("max_packets", "max_bytes", "gap"):
            new_queues.queues[field_name][new_port] = old_queues.queues[field_name][old_port]
