"""A packet between ingress and egress, as a buffered packet function writes it and takes it back.

    uint32 port, priority, length, enq_qdepth, deq_qdepth, the packet (`codegen.storage`), its payload

`length` is what the packet has in bytes now. Whoever queues the packet fills in the two depths, which the
function leaves 0; the rest is for the function of the same program alone.
"""

from __future__ import annotations

import numpy as np

QUEUE_FIELDS = ("port", "priority", "length", "enq_qdepth", "deq_qdepth")
QUEUE_HEAD = np.dtype([(name, "<u4") for name in QUEUE_FIELDS])
QUEUE_HEAD_BYTES = QUEUE_HEAD.itemsize


def offset_of(name: str) -> int:
    """Where a field of the head lies, in bytes."""
    return 4 * QUEUE_FIELDS.index(name)


def read_queue_head(record: bytes) -> tuple[int, int, int]:
    """Port, priority and length of a waiting packet."""
    port, priority, length, _, _ = np.frombuffer(record, QUEUE_HEAD, 1)[0].tolist()
    return port, priority, length


def with_depths(record: bytes, enq_qdepth: int, deq_qdepth: int) -> bytes:
    """The record with its depths."""
    head = np.frombuffer(record, QUEUE_HEAD, 1).copy()
    head["enq_qdepth"], head["deq_qdepth"] = enq_qdepth, deq_qdepth
    return head.tobytes() + record[QUEUE_HEAD_BYTES:]
