"""The functions of a server, of any design, as Python calls them: compiled, or as plain Python."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np

from foundation.compiled import classes_of, entry_points, loop, pinning, plain_entry_points
from foundation.protocol.rpc import Rpc
from hotline_agents.interface import SERVER_OPS, ServerOps, ServerState
from hotline_agents.ps.journal import FROM_WORKER, NOTE_HEAD_BYTES, PADDING
from nativekit.compile import int64
from nativekit.libc import memcpy
from nativekit.records import Ints, Octets, Records
from nativekit.reference import as_ref

handle, stamp, needs_room = SERVER_OPS.handle, SERVER_OPS.stamp, SERVER_OPS.needs_room
AnyServerOps: TypeAlias = ServerOps[Any]  # of any state: each call looks up the functions of its class
server_states = classes_of(SERVER_OPS.handle)
# Python does not call the prefetch functions, which come last.
_OP_NAMES = ServerOps._fields[: ServerOps._fields.index("prefetch_index")]
_NO_ARRIVAL = 0  # the arrival, in ns, of a request from the journal, which has no times


@loop(server_states)
def _handle(
    server: ServerState, requests: Records[Rpc], length: int, arrival: int, answers: Records[Rpc]
) -> int:
    return handle(as_ref(server), requests[0], length, arrival, answers[0])


@loop(server_states)
def replay_journal(
    server: ServerState, requests: Records[Rpc], answers: Records[Rpc], notes: Octets, progress: Ints
) -> None:
    """Handle the journalled requests of workers up to a note of another source, or until there is no room.

    `progress` has the offset in the notes, and the number of replayed notes; both are advanced.
    """
    server = as_ref(server)
    while progress[0] < len(notes) and not needs_room(server, 1):
        offset = int64(progress[0])
        begin = offset + NOTE_HEAD_BYTES
        head = notes[offset:begin].view(np.int64)
        if head[0] != FROM_WORKER:
            return
        length = int64(head[1])
        memcpy(int64(requests.ctypes.data), int64(notes.ctypes.data) + begin, length)
        handle(server, requests[0], length, _NO_ARRIVAL, answers[0])
        progress[0] = begin + (length + PADDING & ~PADDING)
        progress[1] += 1


@loop(server_states)
def _stamp(server: ServerState, answers: Records[Rpc], ps_proc: int, ps_queue: int) -> None:
    stamp(as_ref(server), answers[0], ps_proc, ps_queue)


pinned = pinning(server_states)

# Python passes a datagram as an array of one record, for which `ServerOps` has no type.
_array_functions: dict[str, Any] = {"handle": _handle, "stamp": _stamp}
COMPILED: AnyServerOps = entry_points(SERVER_OPS, _OP_NAMES, server_states)._replace(**_array_functions)


@cache
def plain_ops() -> AnyServerOps:
    return plain_entry_points(COMPILED, _OP_NAMES)
