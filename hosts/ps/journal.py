"""What a durable PS notes: all inputs that change it, in order, before anybody sees what they have changed.

A PS is a state machine without I/O, so one that takes the same inputs in again is the same again (Schneider,
*Implementing fault-tolerant services using the state machine approach*, 1990). Pulls change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from native.compile import compiled, int64
from native.libc import memcpy
from native.records import record, records
from protocol.header import HEADER_BYTES
from protocol.rpc import BUFFER_BYTES, Rpc

FROM_WORKER, FROM_CONTROLLER, FROM_SWITCH = 0, 1, 2
"""Who has sent a datagram: the last is an answer to the PS's own RPCs."""
NOTE_HEAD = record("source", "length")
NOTE_BYTES = NOTE_HEAD.itemsize + BUFFER_BYTES
"""Of the longest note."""
JOURNAL_BYTES = 1 << 20
"""Room for the notes of some bursts."""


@compiled
def note(server: Any, source: int, rpc: Rpc, length: int) -> None:
    """Note a datagram; there must be room."""
    me, journal = server.me, server.journal
    at = int64(me.noted)
    head = journal[at : at + 16].view(np.int64)
    head[0], head[1] = source, length
    memcpy(int64(journal.ctypes.data) + at + 16, int64(rpc.keys.ctypes.data) - HEADER_BYTES, length)
    me.noted = at + 16 + (length + 7 & ~7)


def add_note(journal: NDArray[np.uint8], at: int, source: int, datagram: bytes | memoryview) -> int:
    """Note a datagram at a place of the journal; returns the place behind it."""
    head = records(1, NOTE_HEAD)
    head.source, head.length = source, len(datagram)
    octets = head.tobytes() + bytes(datagram)
    journal[at : at + len(octets)] = np.frombuffer(octets, np.uint8)
    return at + (len(octets) + 7 & ~7)


def read_notes(octets: bytes) -> Iterator[tuple[int, bytes]]:
    """Who sent each datagram that has been noted, and the datagram."""
    at, head_bytes = 0, NOTE_HEAD.itemsize
    while at < len(octets):
        head = np.frombuffer(octets, NOTE_HEAD, 1, at)[0]
        begin = at + head_bytes
        yield int(head["source"]), octets[begin : begin + int(head["length"])]
        at = begin + (int(head["length"]) + 7 & ~7)
