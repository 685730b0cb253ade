"""The record in which a buffered packet function stores a packet between ingress and egress.

    uint32 port, priority, length, enq_qdepth, deq_qdepth, the packet (`codegen.storage`), its payload

`length` is the packet's current length in bytes. The function leaves both depths 0, and the code that queues
the packet fills them in; only a function of the same program can read the rest.
"""

from __future__ import annotations

import numpy as np

QUEUE_FIELDS = ("port", "priority", "length", "enq_qdepth", "deq_qdepth")
_FIELD_BYTES = 4
QUEUE_HEAD = np.dtype([(name, "<u4") for name in QUEUE_FIELDS])
QUEUE_HEAD_BYTES = QUEUE_HEAD.itemsize


def offset_of(name: str) -> int:
    return _FIELD_BYTES * QUEUE_FIELDS.index(name)


def read_queue_head(record: bytes) -> tuple[int, int, int]:
    """Return port, priority and length of a waiting packet."""
    port, priority, length, _, _ = np.frombuffer(record, QUEUE_HEAD, 1)[0].tolist()
    return port, priority, length


def set_depths(record: bytes, enq_qdepth: int, deq_qdepth: int) -> bytes:
    header = np.frombuffer(record, QUEUE_HEAD, 1).copy()
    header["enq_qdepth"], header["deq_qdepth"] = enq_qdepth, deq_qdepth
    return header.tobytes() + record[QUEUE_HEAD_BYTES:]
