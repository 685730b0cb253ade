"""All that a worker's calls for one job work on, as arrays of records.

One operation runs at a time: its keys, by index, travel in calls, each one RPC. A call is a record that is
taken from `spare` and goes back with its answer. Calls wait in a queue until a slot of the window is free.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from foundation.designs.interface import NOTHING
from foundation.logs.columns import Row
from foundation.protocol.codec import Caller
from foundation.protocol.header import LANES, WINDOW
from foundation.protocol.rpc import Rpc
from hosts.worker.arrays import operand_arrays, window_arrays
from hosts.worker.rpcs import RpcCall, RpcsHeader, space_of
from hosts.worker.window import Slot, open_window
from nativekit.compile import compiled, int64
from nativekit.records import Ints, Octets, Records, Words, dtype_of, one, records


class CallsHeader(RpcsHeader):
    """The record of numbers."""

    registers: int
    """Whether the caller is a PS: all keys go in hash lanes, and no answer updates hints."""
    first_unsent: int
    last_unsent: int
    spare: int
    groups: int
    has_replay_log: int
    """Whether there is a replay log; `unreplayed` is where to look for what is owed, from 1 on, or 0."""


class Call(RpcCall):
    """One RPC. Where a switch is gone that may have had it, it only asks what has become of it."""

    count: int
    live: int
    hashed: int
    """Bitmap of the lanes whose keys are in their hash lanes, for the switch to serve."""
    refusals: int
    next: int
    """The call next_key it in a chain or in the queue."""
    asked: int
    """The `seq` that it asks about, or 0."""
    asked_epoch: int
    key_at: Annotated[NDArray[np.int32], LANES]
    """Key of each live lane."""


class Bucket:
    """Keys that wait for a lane, linked by `next_key`, or for any lane of an RPC to a PS."""

    first: int
    keys: int
    calls: int
    """RPCs that the PS gets."""
    room: int
    """Lanes that the keys leave free in these RPCs."""


class Chain:
    """Calls of one PS that are being filled by hash."""

    head: int
    latest: Annotated[Ints, LANES]
    """The latest call that has each lane in use."""


class Group:
    """Keys that have been refused as often, and when they go again; linked by `next_key`."""

    refusals: int
    due: int
    first: int
    last: int


CALL = dtype_of(Call)


class Calls(NamedTuple):
    """A worker's calls for one job; B is the largest number of keys of an operation."""

    header: CallsHeader
    """A record of numbers."""
    slots: Records[Slot]
    """SLOT[WINDOW]"""
    sent: Records[Rpc]
    """RPC[WINDOW]: each slot's datagram, for as long as it may be sent again."""
    free: Ints
    """int64[WINDOW]: next sequence numbers of the `header.free` free slots; the next to be used is last."""
    resends: Ints
    """int64[WINDOW]: slots to be sent again, a ring of header.queued_resends from header.resends on."""
    calls: Records[Call]
    """CALL[B + 1]"""
    spare: Ints
    """int64[B + 1]: the header.spare calls that are not in use."""
    buckets: Records[Bucket]
    """BUCKET[LANES + n_ps]: hot keys by their lane, cold keys by their PS."""
    order: Ints
    """int64[LANES]: lanes, those that most keys wait for first."""
    chains: Records[Chain]
    """CHAIN[n_ps]"""
    keys: NDArray[np.uint64]
    """uint64[B]"""
    positions: Ints
    """int64[B]: of the keys in the key space."""
    deltas: Words
    """uint32[B]: what a push adds."""
    values: Words
    """uint32[B]: what a pull brings."""
    answered: NDArray[np.bool_]
    """bool[>= size]: deltas that are known to be applied; the caller's."""
    served: NDArray[np.bool_]
    """bool[B]: the switch has served the key."""
    replay_log: Words
    """uint32[2, parameters], by position, the replay log: what the switch has acknowledged, and what one that
    is gone had, which is owed to the servers; [2, 0] without one."""
    hinted: Octets
    """uint8[parameters / 8 + 1], a bit a position: goes to its hash lane."""
    space: NDArray[np.uint64]
    """uint64[parameters]: key at each position; empty where they are the same."""
    groups: Records[Group]
    """GROUP[B]: the first header.groups are in use, in order of their beginning."""
    next_key: NDArray[np.int32]
    """int32[B]: next key of the same group or bucket."""
    log: Records[Row]
    """ROW[n]: answered RPCs, the first header.rows."""


def make_calls(
    job: int,
    worker: int,
    epoch: int,
    *,
    n_ps: int,
    parameters: int,
    sparse: NDArray[np.uint64] | None,
    largest: int,
    window: int = WINDOW,
    rows: int = 1024,
    registers: bool = False,
    replay_log: NDArray[np.uint32] | None = None,
) -> Calls:
    """Calls of an idle worker; `largest` is the most keys that an operation may have, `replay_log` its replay
    log."""
    header = one(CallsHeader)
    free = open_window(header, Caller(job, worker, epoch), window)
    header.n_ps, header.registers, header.has_replay_log = n_ps, registers, replay_log is not None
    header.first_unsent = header.last_unsent = NOTHING
    header.spare = largest + 1
    return Calls(
        header=header,
        free=free,
        calls=records(largest + 1, Call),
        spare=np.arange(largest + 1)[::-1].copy(),
        buckets=records(LANES + n_ps, Bucket),
        order=np.zeros(LANES, np.int64),
        chains=records(n_ps, Chain),
        keys=np.zeros(largest, np.uint64),
        served=np.zeros(largest, np.bool_),
        replay_log=np.zeros((2, 0), np.uint32) if replay_log is None else replay_log,
        hinted=np.zeros(1 if registers else parameters // 8 + 1, np.uint8),
        space=space_of(sparse),
        groups=records(largest, Group),
        next_key=np.zeros(largest, np.int32),
        **window_arrays(rows),
        **operand_arrays(largest),
    )


@compiled
def is_hinted(state: Calls, at: int) -> bool:
    """Whether the key at a position goes to its hash lane."""
    return bool(int64(state.hinted[at >> 3]) >> (at & 7) & 1)


@compiled
def hint(state: Calls, at: int, goes: bool) -> None:
    """Have the key at a position go to its hash lane, or no longer."""
    bit = 1 << (at & 7)
    state.hinted[at >> 3] = int64(state.hinted[at >> 3]) & ~bit | (bit if goes else 0)
