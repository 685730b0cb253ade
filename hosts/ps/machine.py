"""Entry points for the server states of any design, for Python."""

from __future__ import annotations

from typing import cast

import numpy as np

from foundation.compiled import loop
from foundation.designs.interface import SERVER_OPS, ServerState
from foundation.protocol.rpc import Rpc
from hosts.ps.journal import FROM_WORKER
from nativekit.compile import int64
from nativekit.generic import Generic
from nativekit.libc import memcpy
from nativekit.records import Ints, Octets, Records
from nativekit.reference import as_ref

handle, stamp, needs_room = SERVER_OPS.handle, SERVER_OPS.stamp, SERVER_OPS.needs_room


def server_states(state: object) -> list[tuple[Generic, type]]:
    """Return the class of a server's state."""
    return [(cast(Generic, SERVER_OPS.handle), type(state))]


@loop(server_states)
def handle_one(server: ServerState, rpcs: Records[Rpc], length: int, arrival: int) -> int:
    """`handle` the datagram in rpcs[0]; the answer goes to rpcs[1]."""
    return handle(as_ref(server), rpcs[0], length, arrival, rpcs[1])


@loop(server_states)
def replay_notes(server: ServerState, rpcs: Records[Rpc], notes: Octets, done: Ints) -> None:
    """`handle` the journalled requests of workers up to a note of another source, or until there is no room.

    `done` has the offset in the notes, and the number of replayed notes; both are advanced.
    """
    server = as_ref(server)
    while done[0] < len(notes) and not needs_room(server, 1):
        at = int64(done[0])
        head = notes[at : at + 16].view(np.int64)
        if head[0] != FROM_WORKER:
            return
        length = int64(head[1])
        memcpy(int64(rpcs.ctypes.data), int64(notes.ctypes.data) + at + 16, length)
        handle(server, rpcs[0], length, 0, rpcs[1])
        done[0] = at + 16 + (length + 7 & ~7)
        done[1] += 1


@loop(server_states)
def stamp_one(server: ServerState, rpcs: Records[Rpc], ps_proc: int, ps_queue: int) -> None:
    """`stamp` the answer in rpcs[1]."""
    stamp(as_ref(server), rpcs[1], ps_proc, ps_queue)


@loop(server_states)
def lacks_room(server: ServerState, datagrams: int) -> bool:
    """Return `needs_room` of the state."""
    return needs_room(as_ref(server), datagrams)
