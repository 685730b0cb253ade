"""The journal of a durable PS: a note for each input that changes it, in order, persisted before the answer.

A PS is a state machine without I/O, so replaying the same inputs restores the same state (Schneider,
*Implementing fault-tolerant services using the state machine approach*, 1990). Pulls change nothing.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foundation.protocol.header import HEADER_BYTES
from foundation.protocol.rpc import BUFFER_BYTES, Rpc
from hotline_agents.interface import ServerState
from nativekit.compile import compiled, int64
from nativekit.libc import memcpy
from nativekit.records import Octets, dtype_of, records

FROM_WORKER, FROM_CONTROLLER, FROM_SWITCH, WAIT_ENDED = 0, 1, 2, 3
"""Sources of notes; FROM_SWITCH notes are answers to the PS's own RPCs. A WAIT_ENDED note has no datagram but
the number of a job whose command resumes."""


class NoteHead:
    source: int
    length: int  # of the datagram after the head, in bytes


NOTE_HEAD = dtype_of(NoteHead)
NOTE_HEAD_BYTES = NOTE_HEAD.itemsize
NOTE_BYTES = NOTE_HEAD_BYTES + BUFFER_BYTES  # maximum size of a note
PADDING = 7  # `length + PADDING & ~PADDING` is rounded up to 8 bytes, so that the heads of notes are aligned
JOURNAL_BYTES = 1 << 20  # size of the array `journal`: notes that are not persisted yet


class JournalState(ServerState, Protocol):
    @property
    def journal(self) -> Octets:
        """uint8[m], of which the first `header.journal_length` bytes are in use."""


@compiled
def append_note(server: JournalState, rpc: Rpc, length: int) -> None:
    """Append a note FROM_WORKER, which compiled code replays, to the journal; there must be room."""
    header, journal = server.header, server.journal
    offset = header.journal_length
    head = journal[offset : offset + NOTE_HEAD_BYTES].view(np.int64)
    head[0], head[1] = FROM_WORKER, length
    begin = offset + NOTE_HEAD_BYTES
    # The datagram begins a header before its keys: a record has no address, but its arrays have.
    memcpy(int64(journal.ctypes.data) + begin, int64(rpc.keys.ctypes.data) - HEADER_BYTES, length)
    header.journal_length = begin + (length + PADDING & ~PADDING)


def add_note(journal: NDArray[np.uint8], offset: int, source: int, datagram: bytes | memoryview) -> int:
    """Write a datagram to the journal at an offset; return the offset after it."""
    head = records(1, NoteHead)
    head.source, head.length = source, len(datagram)
    octets = head.tobytes() + bytes(datagram)
    journal[offset : offset + len(octets)] = np.frombuffer(octets, np.uint8)
    return offset + (len(octets) + PADDING & ~PADDING)


def read_note(notes: NDArray[np.uint8], offset: int) -> tuple[int, bytes, int]:
    """Return the source of the note at an offset, its datagram, and the offset after it."""
    begin = offset + NOTE_HEAD_BYTES
    head = notes[offset:begin].view(NOTE_HEAD)[0]
    length = int(head["length"])
    return int(head["source"]), notes[begin : begin + length].tobytes(), begin + (length + PADDING & ~PADDING)
